"""Which actions are valid.

`paper_validity` is the paper's listing: it looks at the kind of the squares around the hero and
nothing else. `exact_validity` says what the game really does: an action is valid when it changes
the game, that is the hero's position, the map, the prompt, the hero's body or the clock. What it
calls invalid only costs a step (and the frozen penalty).

Both look at the true state, so both know more than any observation tells: a locked door looks like
a closed one, a secret door like a wall, a secret corridor like stone.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from minihax.game import actions
from minihax.game.actions import NEIGHBOURS, NUM_DIRECTIONS, look_up
from minihax.game.dice import fixed
from minihax.game.rules import Rules
from minihax.game.step import KICK_PROMPT, NO_PROMPT, OPEN_PROMPT, State, block_around, scene_at
from minihax.level.terrain import Terrain


def paper_validity(rules: Rules, state: State) -> Bool[Array, " actions"]:
    """The paper's listing: True = valid.

    Moving: the target is walkable (floor, stairs, corridor, open door; doorways without a door
    count as open doors). open_door: a closed door is among the eight neighbours. kick: a locked
    one is. search: always. Diagonal doors, boulders and the prompt of the real game are not in
    it. For the prompt we add what the listing means by an action: the direction of a door that
    fits, and search, which leaves the prompt.
    """
    squares = block_around(state.terrain, state.position)[NEIGHBOURS]
    closed, locked = squares == Terrain.CLOSED_DOOR, squares == Terrain.LOCKED_DOOR
    aims = look_up(actions.WALKABLE, squares)
    use = jnp.stack([closed.any(), locked.any()])
    if rules.prompts:
        aims = jnp.where(state.prompt == OPEN_PROMPT, closed, aims)
        aims = jnp.where(state.prompt == KICK_PROMPT, locked, aims)
        use &= state.prompt == NO_PROMPT
    return jnp.concatenate([aims, use, jnp.array([True])])[: rules.num_actions]


def exact_validity(rules: Rules, state: State) -> Bool[Array, " actions"]:
    """What changes the game: True = valid.

    Moving: it takes a turn (the hero moves, pushes a boulder, or tries the door in the way).
    In the paper's game open_door and kick need a door that they can work on. In the real game
    OPEN always asks for a direction, KICK only on healthy legs; at the prompt everything is
    valid, because every answer ends it. Searching always takes a turn.
    """
    block = block_around(state.terrain, state.position)
    dice = fixed()  # chance decides whether a door opens, never whether trying takes a turn

    def takes_turn(aim: Array) -> Array:
        return actions.move(rules, scene_at(rules, state, block, aim), dice).takes_turn

    moves = jax.vmap(takes_turn)(jnp.arange(NUM_DIRECTIONS))
    if rules.prompts:
        at_prompt = state.prompt != NO_PROMPT
        use = jnp.stack([jnp.bool_(True), state.hero.leg == 0]) | at_prompt
        moves |= at_prompt
    else:
        squares = block[NEIGHBOURS]
        closed, locked = squares == Terrain.CLOSED_DOOR, squares == Terrain.LOCKED_DOOR
        use = jnp.stack([closed.any(), locked.any()])
    return jnp.concatenate([moves, use, jnp.array([True])])[: rules.num_actions]
