"""The game: a state, and one step of it.

`step` draws the dice and calls `step_with_dice`, which is deterministic. Both read and write only
the squares around the hero, so thousands of games can be stepped at once; the one thing that looks
at the whole map is sight.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int8, Int16, Int32, Integer, PRNGKeyArray

from minihax import struct
from minihax.game import actions
from minihax.game.actions import (
    DELTAS,
    KICK,
    NEIGHBOURS,
    NUM_DIRECTIONS,
    OPEN,
    SEARCH,
    Outcome,
    Scene,
    choose,
    look_up,
)
from minihax.game.dice import Dice, draw_dice, uniform_to_int
from minihax.game.hero import (
    WISDOM,
    Hero,
    attributes_now,
    new_hero,
    pass_time,
    take_damage,
    updated_exercise,
)
from minihax.game.rules import Rules
from minihax.level.terrain import HEIGHT, WIDTH, Level, Terrain
from minihax.look.message_line import TEXT_LENGTHS, MessageLine, start_line
from minihax.look.messages import Message

NO_PROMPT, OPEN_PROMPT, KICK_PROMPT = 0, 1, 2
_PUSH_PAUSE = 2
_CENTRE = 4  # the hero's own square in a 3x3 block that is read row by row
# A search goes through the 3x3 squares column by column; this sorts a row-by-row block that way.
_SEARCH_ORDER = np.arange(9).reshape(3, 3).T.reshape(-1)


@struct.dataclass
class State:
    """One game. Maps are [y, x]; the hero never stands on the border of the map."""

    terrain: Int8[Array, "21 80"]
    lit: Bool[Array, "21 80"]
    horizontal: Bool[Array, "21 80"]
    boulders: Bool[Array, "21 80"]
    remembered: Int8[Array, "21 80"]
    """What the agent sees or remembers of each square, as glyph ids."""
    position: Int32[Array, "2"]
    """The hero's (y, x)."""
    hero: Hero
    turn: Int16[Array, ""]
    """The game's own clock; 1 at the start."""
    steps: Int16[Array, ""]
    """Actions taken so far."""
    prompt: Int8[Array, ""]
    """Does the game wait for a direction: NO_PROMPT, OPEN_PROMPT, KICK_PROMPT."""
    message: Int8[Array, ""]
    """The `Message` of the last step."""
    previous_action: Int8[Array, ""]
    """The number of actions at the start, when there was none yet."""
    last_push: Int16[Array, ""]
    """The turn in which a boulder was last pushed."""


def new_game(rules: Rules, key: PRNGKeyArray, level: Level) -> State:
    """The state before the first action, with nothing seen yet (`remembered` is all 0)."""
    return State(
        terrain=level.terrain,
        lit=level.lit,
        horizontal=level.horizontal,
        boulders=level.boulders,
        remembered=jnp.zeros((HEIGHT, WIDTH), jnp.int8),
        position=level.start,
        hero=new_hero(key, rules),
        turn=jnp.int16(1),
        steps=jnp.int16(0),
        prompt=jnp.int8(NO_PROMPT),
        message=jnp.int8(Message.WELCOME if rules.messages else Message.NONE),
        previous_action=jnp.int8(rules.num_actions),
        last_push=jnp.int16(0),
    )


@struct.dataclass
class Result:
    """What a step gave."""

    reward: Float[Array, ""]
    done: Bool[Array, ""]
    truncated: Bool[Array, ""]
    """The time limit ended the episode. (The real environment reports that as terminated.)"""
    died: Bool[Array, ""]
    reached_goal: Bool[Array, ""]
    """Also on the last step, on which it is not rewarded."""


def step(
    rules: Rules, key: PRNGKeyArray, state: State, action: Integer[Array, ""] | int
) -> tuple[State, Result]:
    """One step with fresh dice. Sight is not updated here (`minihax.Corridor.step` does that)."""
    return step_with_dice(rules, state, action, draw_dice(rules, key))


def step_with_dice(
    rules: Rules, state: State, action: Integer[Array, ""] | int, dice: Dice
) -> tuple[State, Result]:
    """One step with these dice. An action number that does not exist does nothing."""
    action = jnp.asarray(action, jnp.int32)
    action = jnp.where((action >= 0) & (action < rules.num_actions), action, rules.num_actions)
    block = block_around(state.terrain, state.position)
    aim, searches, prompt = _parse_action(rules, state, action, block)
    scene = scene_at(rules, state, block, aim)
    result = _act(rules, state, action, scene, dice)
    revealed = _search(rules, block, searches, dice)

    moved = result.moves
    target = state.position + jnp.asarray(DELTAS)[aim]
    terrain = _write_block(state, block, aim, result, revealed)
    pushes = moved & scene.boulder
    line = start_line(_push_message(state, result.message, pushes))
    line = _append_revealed(line, block, revealed)
    after = dataclasses.replace(
        state,
        terrain=terrain,
        boulders=_push_boulder(rules, state, aim, pushes),
        position=jnp.where(moved, target, state.position),
        steps=state.steps + jnp.int16(1),
        prompt=prompt,
        previous_action=jnp.where(action < rules.num_actions, action, state.previous_action).astype(
            jnp.int8
        ),
        last_push=jnp.where(pushes, state.turn, state.last_push),
    )
    takes_turn = result.takes_turn | searches
    hero, turn, line, died = _update_hero(
        rules, state, scene, result, revealed, takes_turn, dice, line
    )
    silent = died | (not rules.messages)
    after = dataclasses.replace(
        after,
        hero=hero,
        turn=turn,
        message=jnp.where(silent, Message.NONE, line.message).astype(jnp.int8),
    )
    return after, _result(rules, state, after, scene, moved, died)


def block_around(grid: Array, position: Int32[Array, "2"]) -> Int32[Array, "9"]:
    """The 3x3 squares around a position, row by row."""
    block = jax.lax.dynamic_slice(grid, (position[0] - 1, position[1] - 1), (3, 3))
    return block.reshape(9).astype(jnp.int32)


def _parse_action(
    rules: Rules, state: State, action: Int32[Array, ""], block: Int32[Array, "9"]
) -> tuple[Int32[Array, ""], Bool[Array, ""], Int8[Array, ""]]:
    """Which direction is meant, whether this is a search, and the prompt that it leaves."""
    if rules.prompts:
        waiting = state.prompt > NO_PROMPT
        can_kick = state.hero.leg == 0
        asks = jnp.where(action == OPEN, OPEN_PROMPT, NO_PROMPT)
        asks = jnp.where((action == KICK) & can_kick, KICK_PROMPT, asks)
        exists = action < rules.num_actions
        prompt = jnp.where(exists, jnp.where(waiting, NO_PROMPT, asks), state.prompt)
        aim = jnp.minimum(action, NUM_DIRECTIONS - 1)
        return aim, (action == SEARCH) & ~waiting, prompt.astype(jnp.int8)
    around = block[NEIGHBOURS]
    door = jnp.where(action == KICK, Terrain.LOCKED_DOOR, Terrain.CLOSED_DOOR)
    aim = jnp.where(action < NUM_DIRECTIONS, action, jnp.argmax(around == door))
    return aim.astype(jnp.int32), action == SEARCH, state.prompt


def scene_at(rules: Rules, state: State, block: Int32[Array, "9"], aim: Int32[Array, ""]) -> Scene:
    """What matters for an action in direction `aim`; `block` = the squares around the hero."""
    delta = jnp.asarray(DELTAS)[aim]
    diagonal = aim >= 4
    boulder = has_room_beyond = jnp.bool_(False)
    if rules.boulders:
        target, beyond = state.position + delta, state.position + 2 * delta
        inside = (beyond >= 0).all() & (beyond[0] < HEIGHT) & (beyond[1] >= 1) & (beyond[1] < WIDTH)
        far = state.terrain[beyond[0], beyond[1]].astype(jnp.int32)
        boulder = state.boulders[target[0], target[1]]
        has_room_beyond = (
            inside
            & look_up(actions.WALKABLE, far)
            & ~(diagonal & actions.forbids_diagonals(rules, far))
            & ~state.boulders[beyond[0], beyond[1]]
        )
    return Scene(
        here=block[_CENTRE],
        target=block[jnp.asarray(NEIGHBOURS)[aim]],
        boulder=boulder,
        has_room_beyond=has_room_beyond,
        diagonal=diagonal,
        attributes=attributes_now(state.hero),
    )


def _act(rules: Rules, state: State, action: Int32[Array, ""], scene: Scene, dice: Dice) -> Outcome:
    """What the action does, with what the game says; searching is apart (`_search`)."""
    is_direction = action < NUM_DIRECTIONS
    nothing = actions.outcome(scene)
    walk = actions.move(rules, scene, dice)
    if rules.num_actions <= NUM_DIRECTIONS:
        return choose(is_direction, walk, nothing)
    opening = actions.open_door(rules, scene, dice)
    kicking = actions.kick(rules, scene, dice)
    if not rules.prompts:
        result = choose(is_direction, walk, nothing)
        result = choose(action == OPEN, opening, result)
        return choose(action == KICK, kicking, result)
    aimed = choose(state.prompt == KICK_PROMPT, kicking, opening)
    aimed = choose(state.prompt == NO_PROMPT, walk, aimed)
    return choose(
        is_direction, aimed, dataclasses.replace(nothing, message=_prompt_message(state, action))
    )


def _prompt_message(state: State, action: Int32[Array, ""]) -> Int32[Array, ""]:
    """What the game says to OPEN, KICK and SEARCH, which by themselves take no direction."""
    is_key = (action == OPEN) | (action == KICK)
    asks = (action == OPEN) | ((action == KICK) & (state.hero.leg == 0))
    unprompted = jnp.where(asks, Message.DIRECTION_PROMPT, Message.NONE)
    to_open = jnp.where(is_key, Message.STRANGE_DIRECTION_NEVER_MIND, Message.NOTHING_TO_LOOT)
    to_kick = jnp.where(is_key, Message.STRANGE_DIRECTION, Message.NONE)
    reply = jnp.where(state.prompt == OPEN_PROMPT, to_open, to_kick)
    reply = jnp.where(state.prompt == NO_PROMPT, unprompted, reply)
    return jnp.where(action <= SEARCH, reply, Message.NONE)


def _search(
    rules: Rules, block: Int32[Array, "9"], searches: Bool[Array, ""], dice: Dice
) -> Bool[Array, "9"]:
    """The hidden squares that a search reveals in this step."""
    if not rules.secrets:
        return jnp.zeros(9, bool)
    return searches & look_up(actions.HIDDEN, block) & (uniform_to_int(dice.found, 7) == 0)


def _write_block(
    state: State,
    block: Int32[Array, "9"],
    aim: Int32[Array, ""],
    result: Outcome,
    revealed: Bool[Array, "9"],
) -> Int8[Array, "21 80"]:
    """The map after the action."""
    is_target = np.arange(9) == jnp.asarray(NEIGHBOURS)[aim]
    block = jnp.where(revealed, look_up(actions.REVEALED, block), block)
    block = jnp.where(is_target & ~revealed, result.becomes, block)
    patch = block.reshape(3, 3).astype(jnp.int8)
    corner = (state.position[0] - 1, state.position[1] - 1)
    return jax.lax.dynamic_update_slice(state.terrain, patch, corner)


def _push_boulder(
    rules: Rules, state: State, aim: Int32[Array, ""], pushes: Bool[Array, ""]
) -> Bool[Array, "21 80"]:
    if not rules.boulders:
        return state.boulders
    delta = jnp.asarray(DELTAS)[aim]
    near, far = state.position + delta, state.position + 2 * delta
    boulders = state.boulders.at[near[0], near[1]].min(~pushes)
    return boulders.at[far[0], far[1]].max(pushes)


def _push_message(
    state: State, message: Int32[Array, ""], pushes: Bool[Array, ""]
) -> Int32[Array, ""]:
    """A push soon after another one is not worth mentioning."""
    tacit = pushes & (state.turn <= state.last_push + _PUSH_PAUSE)
    return jnp.where(tacit, Message.NONE, message)


def _append_revealed(
    line: MessageLine, block: Int32[Array, "9"], revealed: Bool[Array, "9"]
) -> MessageLine:
    """Announces what a search reveals; two announcements fit on a line, three do not."""
    revealed, kinds = revealed[_SEARCH_ORDER], block[_SEARCH_ORDER]
    number = jnp.sum(revealed)
    rank = jnp.cumsum(revealed) - 1
    first = (number - 1) // 2 * 2
    messages = jnp.where(
        kinds == Terrain.SECRET_CORRIDOR, Message.FOUND_PASSAGE, Message.FOUND_DOOR
    )
    lengths = look_up(TEXT_LENGTHS, messages)
    on_line = revealed & (rank >= first)
    length = jnp.sum(jnp.where(on_line, lengths, 0)) + 2 * (jnp.sum(on_line) - 1)
    message = jnp.sum(jnp.where(on_line & (rank == first), messages, 0))
    any_revealed = number > 0
    return MessageLine(
        message=jnp.where(any_revealed, message, line.message),
        length=jnp.where(any_revealed, length, line.length),
    )


def _update_hero(
    rules: Rules,
    state: State,
    scene: Scene,
    result: Outcome,
    revealed: Bool[Array, "9"],
    takes_turn: Bool[Array, ""],
    dice: Dice,
    line: MessageLine,
) -> tuple[Hero, Int16[Array, ""], MessageLine, Bool[Array, ""]]:
    """What action and time do to the hero: the hero, the clock, what is said, and death."""
    if not rules.body:
        turn = state.turn + takes_turn.astype(jnp.int16)
        return state.hero, turn, line, jnp.bool_(False)
    hero, wails = take_damage(state.hero, state.turn, result.damage)
    line = MessageLine(
        message=jnp.where(wails, Message.KICK_HURTS_BANSHEE, line.message),
        length=jnp.where(wails, TEXT_LENGTHS[Message.KICK_HURTS_BANSHEE], line.length),
    )
    # A draw that revealed something is below 1/7, so seven times it is uniform again.
    insights = revealed & (uniform_to_int(dice.found * 7, 19) > scene.attributes[WISDOM])
    gains = jnp.stack([result.strength, jnp.sum(insights), result.dexterity, jnp.int32(0)])
    hero = dataclasses.replace(
        hero,
        leg=jnp.where(result.wound > 0, result.wound, hero.leg).astype(jnp.int8),
        exercise=updated_exercise(hero, gains),
    )
    died = hero.hit_points <= 0
    later, turn, later_line = pass_time(rules, hero, state.turn, dice, line)
    lives_on = takes_turn & ~died
    pick = lambda a, b: jnp.where(lives_on, a, b)  # noqa: E731
    hero, line = jax.tree.map(pick, (later, later_line), (hero, line))
    return hero, pick(turn, state.turn), line, died


def _result(
    rules: Rules,
    before: State,
    after: State,
    scene: Scene,
    moved: Bool[Array, ""],
    died: Bool[Array, ""],
) -> Result:
    """Reward and end. The time limit is tested first, so the goal on the last step is too late."""
    goal = moved & (scene.target == Terrain.DOWN_STAIRS)
    timeout = after.steps >= rules.episode_limit
    frozen = (after.turn == before.turn) & ~died
    reward = jnp.where(goal & ~timeout, rules.goal_reward, 0.0)
    return Result(
        reward=(reward + jnp.where(frozen, rules.frozen_penalty, 0.0)).astype(jnp.float32),
        done=goal | timeout | died,
        truncated=timeout & ~died,
        died=died,
        reached_goal=goal,
    )
