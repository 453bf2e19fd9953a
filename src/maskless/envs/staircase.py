"""The paper's Figure 1: a corridor with a ladder at its end, small enough to solve exactly.

    @ . . . . . . . >        cells 0 to `length`; the ladder `>` is the last one

`descend` works on the ladder only, the three interactions nowhere; what does not work is a no-op.
Every step towards the ladder is rewarded, so that `right` is soon reinforced everywhere and the
other actions fall, `descend` included, before the ladder has ever been reached.
`maskless_paper.theory` has the same corridor as a table, to be solved without sampling.

Two parameters decide how deep `descend` falls. `alignment`: how much the cells look alike.
`spare`: the light goes out after `length + spare` steps, so that only an agent which walks almost
straight, and has therefore almost unlearned everything else, ever stands on the ladder.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray

from maskless.envs.base import Environment, Info
from maskless.errors import MasklessError

LEFT, RIGHT, DESCEND = 0, 1, 2
_LONGEST = 100_000  # every cell is a number of the observation


@struct.dataclass
class StaircaseState:
    """Where the agent is in this episode."""

    cell: Int[Array, ""]
    """0 is the start; `length` is the ladder."""
    descended: Bool[Array, ""]
    time: Int[Array, ""]


class Staircase(Environment):
    """Walk to the ladder and descend."""

    id = "staircase"
    action_names = ("left", "right", "descend", "open_door", "pick_up", "kick")
    achievement_names = ("descend",)
    default_preset = "paper"

    def __init__(
        self,
        length: int = 40,
        alignment: float = 0.8,
        progress: float = 0.1,
        goal: float = 5.0,
        spare: int = 1,
        rules: str = "exact",
    ):
        """`length`: how many steps the ladder is away.
        `alignment`: the inner product of what is seen in two different cells, from 0 to 1.
        `progress`: the reward of a step towards the ladder; a step back costs as much.
        `goal`: the reward of descending.
        `spare`: how many steps more than needed to reach the ladder an episode has; at least 1.
        """
        for name, value in (("length", length), ("spare", spare)):
            if not 1 <= value <= _LONGEST:
                raise MasklessError(f"{name} must be from 1 to {_LONGEST:,}, not {value}.")
        if not 0.0 <= alignment <= 1.0:
            raise MasklessError(f"alignment must be between 0 and 1, not {alignment}.")
        self.length = length
        self.alignment = alignment
        self.progress = progress
        self.goal = goal
        self.episode_limit = length + spare
        self.rules = self.with_rules(rules).rules

    def reset(
        self, key: PRNGKeyArray, params: Any = None
    ) -> tuple[Float[Array, " features"], StaircaseState]:
        state = StaircaseState(jnp.int32(0), jnp.bool_(False), jnp.int32(0))
        return self.observe(state), state

    def step(
        self,
        key: PRNGKeyArray,
        state: StaircaseState,
        action: Integer[Array, ""] | int,
        params: Any = None,
    ) -> tuple[Float[Array, " features"], StaircaseState, Float[Array, ""], Bool[Array, ""], Info]:
        self.check_action(action)
        works = self.validity(state) & (jnp.arange(self.num_actions) == action)
        move = works[RIGHT].astype(jnp.int32) - works[LEFT].astype(jnp.int32)
        state = StaircaseState(state.cell + move, state.descended | works[DESCEND], state.time + 1)
        reward = self.progress * move + self.goal * works[DESCEND]
        out_of_time = state.time >= self.episode_limit
        info = {"truncated": out_of_time & ~state.descended}
        return self.observe(state), state, reward, state.descended | out_of_time, info

    def observe(self, state: StaircaseState) -> Float[Array, " features"]:
        """What all cells share, then the cell: unit length, and `alignment` between two cells."""
        own = jax.nn.one_hot(state.cell, self.length + 1)
        shared = jnp.sqrt(self.alignment)[None]
        return jnp.concatenate([shared, jnp.sqrt(1.0 - self.alignment) * own])

    def validity(self, state: StaircaseState, params: Any = None) -> Bool[Array, " actions"]:
        on_ladder = state.cell == self.length
        nothing = jnp.zeros(self.num_actions, bool)
        return (
            nothing.at[LEFT]
            .set(state.cell > 0)
            .at[RIGHT]
            .set(~on_ladder)
            .at[DESCEND]
            .set(on_ladder)
        )

    def effect_view(self, state: StaircaseState) -> tuple[Int[Array, ""], Bool[Array, ""]]:
        return state.cell, state.descended

    def achievements(self, state: StaircaseState) -> Bool[Array, " achievements"]:
        return state.descended[None]

    def perturb(self, key: PRNGKeyArray, state: StaircaseState) -> StaircaseState:
        """Any cell: random play stays near the start."""
        cell = jax.random.randint(key, (), 0, self.length + 1)
        return dataclasses.replace(state, cell=cell)

    def render(self, state: StaircaseState) -> dict[str, Any]:
        corridor = ["."] * self.length + [">"]
        corridor[int(state.cell)] = "@"
        return {"corridor": "".join(corridor)}
