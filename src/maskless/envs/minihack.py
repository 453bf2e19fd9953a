"""NetHack's corridors and mazes (`minihax`) behind the environment contract."""

from typing import Any

from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

import minihax
from maskless import kernels
from maskless.envs.base import Environment, Info
from maskless.errors import MasklessError, UnknownNameError
from maskless.nets.glyphs import GlyphEncoder
from minihax.env import IDS
from minihax.game.actions import NUM_DIRECTIONS
from minihax.game.rules import Rules
from minihax.level.terrain import Level
from minihax.sight import sight

sight.use_kernels = kernels.pallas_enabled


class Corridor(minihax.Corridor, Environment):
    """A game in corridors or a maze: find the stairs down."""

    default_preset = "paper"
    levels_at_a_time_on_accelerators = 1024
    encoder = GlyphEncoder()

    def __init__(self, id: str, game_rules: Rules, *arguments: Any, **options: Any):
        super().__init__(id, game_rules, *arguments, **options)
        if game_rules.num_actions > NUM_DIRECTIONS:
            # Corridors pay once, at their end: a bonus for what is new leads there. And with the
            # paper's lambda of 0.8 that reward hardly reaches beyond the last steps: runs learn to
            # stand still before they have learned to walk (docs/training.md). Mazes need neither.
            self.default_hyperparameters = {"rnd": True, "gae_lambda": 0.95}

    def reset(self, key: PRNGKeyArray, params: Any = None) -> tuple[minihax.Observation, Any]:
        return super().reset(key)

    def start(self, key: PRNGKeyArray, level: Level) -> Any:
        try:
            return super().start(key, level)
        except ValueError as error:
            raise MasklessError(str(error)) from error

    def step(
        self, key: PRNGKeyArray, state: Any, action: Integer[Array, ""] | int, params: Any = None
    ) -> tuple[minihax.Observation, Any, Float[Array, ""], Bool[Array, ""], Info]:
        self.check_action(action)
        return super().step(key, state, action)

    def validity(self, state: Any, params: Any = None) -> Bool[Array, " actions"]:
        return super().validity(state)


def make_corridor(
    id: str,
    *,
    rules: str = "paper",
    frozen_penalty: float = -0.01,
    episode_limit: int | None = None,
) -> Corridor:
    """The environment of this id; see `minihax.make_corridor`."""
    if id not in IDS:
        raise UnknownNameError("corridor environment", id, IDS)
    if rules not in Corridor.rule_sets:
        raise UnknownNameError(f"mask rules of {id}", rules, Corridor.rule_sets)
    if episode_limit is not None and not 1 <= episode_limit < 2**31:
        raise MasklessError(f"episode_limit must be from 1 to {2**31 - 1:,}, not {episode_limit}.")
    try:
        return minihax.make_corridor(
            id,
            rules=rules,
            frozen_penalty=frozen_penalty,
            episode_limit=episode_limit,
            kind=Corridor,
        )
    except ValueError as error:
        raise MasklessError(str(error)) from error
