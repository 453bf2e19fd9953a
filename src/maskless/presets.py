"""Where PPO's numbers start from, for the paper's worlds and for a user's own."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from maskless.errors import UnknownNameError
from maskless.hyperparameters import Hyperparameters

AUTO = "auto"


@dataclasses.dataclass(frozen=True)
class Preset:
    """Numbers that differ from the paper's table."""

    numbers: Mapping[str, Any]
    narrow: bool = True
    """Whether networks have the width for two cores (`Network.cpu_width`)."""
    final: bool = False
    """Whether they also replace what an environment has by default."""


PRESETS: dict[str, Preset] = {
    "paper": Preset({}, narrow=False),
    # The paper's, small enough to learn something visible on two cores.
    "cpu": Preset(
        {
            **{"num_envs": 64, "rollout": 64, "minibatches": 4, "epochs": 2},
            "learning_rate": 1e-3,
        },
        final=True,
    ),
    # For worlds that step fast, on a CPU: many small steps of the gradient.
    "small": Preset(
        {
            **{"num_envs": 64, "rollout": 64, "minibatches": 16, "epochs": 4},
            **{"learning_rate": 1e-3, "gae_lambda": 0.95},
        }
    ),
    # For worlds that step slowly: every frame is learned from often, 64 at a time.
    "gymnasium": Preset(
        {
            **{"num_envs": 16, "rollout": 128, "minibatches": 32, "epochs": 10},
            **{"learning_rate": 3e-4, "gae_lambda": 0.95},
        }
    ),
}
PRESET_NAMES = (AUTO, *PRESETS)


def preset(
    name: str,
    *,
    net: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    recurrent: bool = False,
) -> Hyperparameters:
    """`paper`: the paper's table. `cpu`: the same for two cores. `small` and `gymnasium`: for
    worlds of one's own, inside JAX and outside.

    `net`, `env`: what the network and the environment need (`default_hyperparameters` of each).
    `recurrent`: whether minibatches are of whole environments, of which there must be enough.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESET_NAMES)
    chosen = PRESETS[name]
    parts = [net or {}, env or {}]
    parts.insert(2 if chosen.final else 1, chosen.numbers)
    numbers: dict[str, Any] = {}
    for part in parts:
        numbers |= part
    ppo = Hyperparameters(**numbers)
    if recurrent and "minibatches" in chosen.numbers:
        ppo = dataclasses.replace(ppo, minibatches=min(ppo.minibatches, max(1, ppo.num_envs // 2)))
    return ppo
