"""MiniHack's corridors and mazes, shown as `minihax` shows them, so that a policy trained in JAX
can act in the real game. Loaded only for environments of MiniHack and NLE."""

import importlib
import re
from typing import Any

from maskless.envs.gymnasium.env import Adapter
from maskless.envs.gymnasium.game import Game, MaskedObservation, Observation
from maskless.envs.registry import make
from minihax import from_nle

_OBSERVATION_KEYS = ("glyphs", "blstats", "message")  # what `from_nle` reads
_ABORTED = -1  # NLE's end_status of an episode that ran out of time


class NetHackGame(Game):
    """A game that is also in `minihax`: the same observations, and seeds that decide it."""

    _previous_action: int | None = None

    def reset(self, seed: int) -> MaskedObservation:
        """A new episode, decided by `seed`."""
        # NLE ignores reset's seed; without `reseed` nothing but the seed decides the game.
        nle: Any = self.env.unwrapped
        nle.seed(seed, seed, reseed=False)
        self._previous_action = None
        return super().reset(seed)

    def step(self, action: int) -> tuple[MaskedObservation | None, Observation, float, bool, bool]:
        self._previous_action = int(action)
        return super().step(action)

    def _truncated(self, terminated: bool, truncated: bool, info: dict[str, Any]) -> bool:
        aborted = int(info["end_status"]) == _ABORTED
        return aborted or super()._truncated(terminated, truncated, info)

    def _arrays(self, raw: Any) -> Observation:
        return from_nle(raw, self._previous_action, num_actions=self._num_actions)


def adapter(name: str) -> Adapter:
    """Registers the environments of MiniHack or NLE, and says how to play the one called `name`."""
    importlib.import_module("minihack" if name.startswith("MiniHack-") else "nle")
    counterpart_id = _counterpart_id(name)
    if counterpart_id is None:
        return Adapter()
    counterpart = make(counterpart_id)
    names = ("episode_limit", "action_names", "encoder")
    return Adapter(
        game=NetHackGame,
        options={"observation_keys": _OBSERVATION_KEYS},
        attributes={name: getattr(counterpart, name) for name in names},
    )


def _counterpart_id(name: str) -> str | None:
    """The environment of `minihax` that plays the same game, if there is one."""
    if match := re.fullmatch(r"MiniHack-Corridor-R([235])-v0", name):
        return f"minihack-corridor-r{match[1]}"
    if match := re.fullmatch(r"MiniHack-MazeWalk-(Mapped-)?(9x9|15x15|45x19)-v0", name):
        return f"mazewalk-{match[2]}" + ("-mapped" if match[1] else "")
    return None
