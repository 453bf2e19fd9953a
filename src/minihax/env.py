"""Corridors and mazes as environments: `reset`, `step`, `observe`, `validity`.

Pure functions of their arguments, for one game: batch with `jax.vmap`, compile with `jax.jit`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Integer, PRNGKeyArray

from minihax.game import step as game
from minihax.game.actions import NUM_DIRECTIONS
from minihax.game.hero import attributes_now, effective_strength, hunger_state
from minihax.game.perturb import perturb
from minihax.game.rules import PAPER, REAL, Rules, maze_rules
from minihax.game.step import State, new_game
from minihax.game.validity import exact_validity, paper_validity
from minihax.level.corridors import PAPER_GAME, REAL_GAME, corridor_level
from minihax.level.mazes import MAZES, maze_level
from minihax.level.terrain import Level, check_level
from minihax.look.glyphs import Glyph, appearance
from minihax.look.observation import Observation, observe
from minihax.sight.sight import nothing_remembered, update_memory

DIRECTION_NAMES = (
    "north",
    "east",
    "south",
    "west",
    "northeast",
    "southeast",
    "southwest",
    "northwest",
)
_MASKS = {"paper": paper_validity, "exact": exact_validity}
_MAZE_LIMITS = {"9x9": 200, "15x15": 1000, "45x19": 1000}


class Corridor:
    """A game in corridors or a maze: find the stairs down.

    `info["truncated"]` is True when the time limit ended the episode; the real environment reports
    that case as terminated, with `end_status` -1. `info["success"]` is True on the goal (on the
    very last step too, where it is not rewarded), `info["death"]` when the hero died.
    """

    rule_sets: ClassVar[tuple[str, ...]] = tuple(_MASKS)

    def __init__(
        self,
        id: str,
        game_rules: Rules,
        generate: Callable[[PRNGKeyArray], Level],
        *,
        rules: str = "paper",
        mapped: bool = False,
    ):
        """`generate` makes a level; `rules` are those of the masks; `mapped` shows the whole map
        from the start."""
        if rules not in self.rule_sets:
            raise ValueError(f"{id} has the mask rules {', '.join(self.rule_sets)}, not {rules!r}.")
        self.id = id
        self.game_rules = game_rules
        self.rules = rules
        self.episode_limit = game_rules.episode_limit
        names = (*DIRECTION_NAMES, "open" if game_rules.prompts else "open_door", "kick", "search")
        self.action_names = names[: game_rules.num_actions]
        self._generate = generate
        self._mapped = mapped

    @property
    def num_actions(self) -> int:
        return len(self.action_names)

    def reset(self, key: PRNGKeyArray) -> tuple[Observation, State]:
        """A fresh level and a fresh hero."""
        level_key, hero_key = jax.random.split(key)
        state = self.start(hero_key, self._generate(level_key))
        return self.observe(state), state

    def start(self, key: PRNGKeyArray, level: Level) -> State:
        """The first state on a level of your own; `key` rolls the hero.

        Outside jit a level in which the game could not be played is refused.
        """
        check_level(level)
        state = new_game(self.game_rules, key, level)
        remembered = _map_of(level) if self._mapped else nothing_remembered()
        return _look_around(dataclasses.replace(state, remembered=remembered))

    def step(
        self, key: PRNGKeyArray, state: State, action: Integer[Array, ""] | int
    ) -> tuple[Observation, State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """One step, without auto-reset."""
        after, result = game.step(self.game_rules, key, state, action)
        after = _look_around(after)
        info = {
            "truncated": result.truncated,
            "success": result.reached_goal,
            "death": result.died,
        }
        return self.observe(after), after, result.reward, result.done, info

    def observe(self, state: State) -> Observation:
        """What the agent sees of `state`."""
        return observe(
            state.remembered,
            state.position,
            blstats(self.game_rules, state),
            state.message,
            state.previous_action,
        )

    def validity(self, state: State) -> Bool[Array, " actions"]:
        """The mask: True = valid."""
        return _MASKS[self.rules](self.game_rules, state)

    def render(self, state: State) -> dict[str, Any]:
        """What the player sees, and the true map, as texts for the terminal (needs `rich`)."""
        from minihax.game.render import screen, whole_level

        return {
            "what the player sees": screen(state),
            "the whole level (red: hidden or locked)": whole_level(state),
        }

    def effect_view(self, state: State) -> Any:
        """A change counts when it is one of the map, the prompt, the clock or the hero."""
        return (
            state.terrain,
            state.boulders,
            state.position,
            state.prompt,
            state.turn,
            state.hero,
        )

    def perturb(self, key: PRNGKeyArray, state: State) -> State | None:
        """Doors of all kinds, boulders, prompts and a wounded leg where there were none."""
        if self.game_rules.num_actions <= NUM_DIRECTIONS:
            return None
        return _look_around(perturb(self.game_rules, key, state))


def _look_around(state: State) -> State:
    remembered = update_memory(
        state.remembered, state.terrain, state.lit, state.horizontal, state.boulders, state.position
    )
    return dataclasses.replace(state, remembered=remembered)


def _map_of(level: Level) -> Array:
    """The whole level, known but not seen: its floor looks lit until it has been seen and left."""
    drawn = appearance(level.terrain, level.horizontal, level.boulders)
    return jnp.where(drawn == Glyph.FLOOR, jnp.int8(Glyph.FLOOR_MAPPED), drawn)


def blstats(rules: Rules, state: State) -> Int32[Array, "27"]:
    """The numbers of the status lines in NLE's order. x is NLE's column, one less than ours.

    Games without a body show what NetHax shows: position, hit points, depth and the clock.
    """
    hero = state.hero
    y, x = state.position
    numbers = {0: x - 1, 1: y, 10: hero.hit_points, 11: rules.hit_points, 12: 1, 20: state.turn}
    if rules.body:
        strength, intelligence, wisdom, dexterity, constitution, charisma = attributes_now(hero)
        numbers |= {2: effective_strength(strength), 3: strength, 4: dexterity, 5: constitution}
        numbers |= {6: intelligence, 7: wisdom, 8: charisma, 14: 2, 15: 2, 16: 7, 18: 1}
        numbers |= {21: hunger_state(hero), 24: 1, 26: -1}
    return jnp.stack([jnp.asarray(numbers.get(i, 0), jnp.int32) for i in range(27)])


Game = TypeVar("Game", bound=Corridor)


def make_corridor(
    id: str,
    *,
    rules: str = "paper",
    frozen_penalty: float = -0.01,
    episode_limit: int | None = None,
    kind: type[Game] = Corridor,  # type: ignore[assignment]
) -> Game:
    """The environment of this id.

    `corridor-r2/-r3/-r5`: the paper's game. `minihack-corridor-r2/-r3/-r5`: the real one.
    `mazewalk-9x9/-15x15/-45x19`, each also with `-mapped`: mazes.
    `frozen_penalty` is the reward of a step in which no turn passes. `kind`: a class of your own
    made from `Corridor`.
    """
    if id not in IDS:
        raise ValueError(f"Choose one of {', '.join(IDS)}, not {id!r}.")
    if "corridor-r" in id:
        real = id.startswith("minihack-")
        game_rules, generation = (REAL, REAL_GAME) if real else (PAPER, PAPER_GAME)
        generate = functools.partial(corridor_level, rooms=int(id[-1]), generation=generation)
    else:
        size = id.removeprefix("mazewalk-").removesuffix("-mapped")
        game_rules = maze_rules(_MAZE_LIMITS[size])
        generate = functools.partial(maze_level, maze=MAZES[size])
    limit = game_rules.episode_limit if episode_limit is None else episode_limit
    if limit < 1:
        raise ValueError(f"An episode has at least one step, not {limit}.")
    game_rules = dataclasses.replace(game_rules, frozen_penalty=frozen_penalty, episode_limit=limit)
    return kind(id, game_rules, generate, rules=rules, mapped=id.endswith("-mapped"))


IDS = (
    *(f"{game}corridor-r{rooms}" for game in ("", "minihack-") for rooms in (2, 3, 5)),
    *(f"mazewalk-{size}{kind}" for size in MAZES for kind in ("", "-mapped")),
)
"""The ids that `make_corridor` knows."""
