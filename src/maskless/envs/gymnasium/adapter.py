"""Environments that need more than Gymnasium's conventions: a module for each family of them."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from maskless.envs.gymnasium.game import Game


@dataclasses.dataclass(frozen=True)
class Adapter:
    """How to play one environment; by default as Gymnasium's conventions say."""

    game: type[Game] = Game
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of `gymnasium.make`, where the user gives no others."""
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of the `HostEnvironment`, instead of what the environment says of itself."""


# The beginning of an id -> the module whose function `adapter(name)` knows these environments.
_MODULES = {
    "MiniHack-": "maskless.envs.gymnasium.nethack",
    "NetHack": "maskless.envs.gymnasium.nethack",
}


def adapter_of(name: str) -> Adapter:
    """The adapter of the environment called `name`, whose module is imported now."""
    for prefix, module in _MODULES.items():
        if name.startswith(prefix):
            return importlib.import_module(module).adapter(name)
    return Adapter()
