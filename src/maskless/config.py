"""What one program trains: a frozen dataclass that can be written as JSON and read back.

Together with the versions it decides every number of a run. `maskless.train` makes it from what is
asked for; the same request gives the same `Config` from Python and from the command line.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from maskless.conditions import condition, numbers
from maskless.errors import MasklessError, UnknownNameError
from maskless.hyperparameters import Hyperparameters, check_hyperparameters, with_numbers

PRECISIONS = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Config:
    """Every condition with every seed, in one environment with one network.

    maskless.train(maskless.Config(env="staircase", conditions=("masked",), frames=100_000))
    """

    env: str
    """An id that `maskless.make` knows; "object:NAME" for an environment that was handed in."""
    env_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    net: str = "mlp"
    """"mlp", "gru" or "hybrid"; "custom:NAME" for a network that was handed in."""
    width: int | None = None
    """Width of the network's layers; None: the paper's."""
    conditions: tuple[str, ...] = ("masked",)
    """What is compared, perhaps with numbers of their own: see `maskless.grid`."""
    seeds: int = 1
    first_seed: int = 0
    frames: int = 1_000_000
    """Environment steps of each run."""
    ppo: Hyperparameters = dataclasses.field(default_factory=Hyperparameters)
    precision: str = "float32"
    """What the networks compute in: float32, or bfloat16, faster on a GPU. Weights, memories and
    losses are float32 always."""
    diagnostics: bool = True
    """Measure suppression, feature correlation and the classifier in every update."""
    optimizer: str = "adam"
    """"custom" for an optimiser that was handed in."""

    @property
    def frames_per_update(self) -> int:
        return self.ppo.num_envs * self.ppo.rollout

    @property
    def updates(self) -> int:
        return max(1, self.frames // self.frames_per_update)

    @property
    def runs(self) -> list[tuple[str, int]]:
        """(condition, seed) of every run, in the order of the program's run axis."""
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [(name, seed) for name in self.conditions for seed in seeds]

    def to_json(self) -> dict[str, Any]:
        content = dataclasses.asdict(self) | {"conditions": list(self.conditions)}
        if self.optimizer == "adam":  # as in folders from before there were others
            del content["optimizer"]
        return content

    @staticmethod
    def from_json(content: dict[str, Any]) -> "Config":
        """The config that `to_json` wrote. Says so when a field is missing or unknown."""
        try:
            ppo = Hyperparameters(**content["ppo"])
            rest = {name: value for name, value in content.items() if name != "ppo"}
            return Config(**rest | {"ppo": ppo, "conditions": tuple(content["conditions"])})
        except (TypeError, KeyError) as error:
            raise MasklessError(
                f"This is not a configuration of this version of maskless ({error})."
            ) from error


# Small enough for two cores: few environments, fewer passes over each batch. (A narrow network
# belongs to it: `Network.cpu_width`.)
_CPU: dict[str, Any] = {
    "num_envs": 64,
    "rollout": 64,
    "minibatches": 4,
    "epochs": 2,
    "learning_rate": 1e-3,
}
PRESETS = ("paper", "cpu")


def preset(
    name: str, *, net: Mapping[str, Any] | None = None, env: Mapping[str, Any] | None = None
) -> Hyperparameters:
    """`paper`: the paper's table. `cpu`: small enough to learn something visible on two cores.

    `net`, `env`: what the network and the environment need (`default_hyperparameters` of each).
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    paper = Hyperparameters(**{**(net or {}), **(env or {})})
    return paper if name == "paper" else dataclasses.replace(paper, **_CPU)


def check(config: Config, *, recurrent: bool = False, rollout_unit: int = 1) -> None:
    """Refuses, before anything compiles, what cannot be trained.

    `recurrent`, `rollout_unit`: of the network.
    """
    _check_runs(config)
    ppo = config.ppo
    if recurrent:
        whole, of_what = ppo.num_envs, "environments (a memory needs whole ones)"
    else:
        whole, of_what = config.frames_per_update, "samples (num_envs * rollout)"
    if whole % ppo.minibatches:
        raise MasklessError(
            f"{whole} {of_what} cannot be divided into {ppo.minibatches} minibatches: choose"
            f" minibatches that divide {whole}."
        )
    if ppo.rollout % rollout_unit:
        raise MasklessError(
            f"The {config.net} learns over windows of {rollout_unit} steps: a rollout of"
            f" {ppo.rollout} must be a multiple of {rollout_unit}."
        )
    if config.frames < config.frames_per_update:
        raise MasklessError(
            f"{config.frames:,} frames are less than one update of {ppo.num_envs} environments *"
            f" {ppo.rollout} steps = {config.frames_per_update:,}: ask for more frames or lower"
            " num_envs."
        )
    if config.precision not in PRECISIONS:
        raise UnknownNameError("precision", config.precision, PRECISIONS)


def _check_runs(config: Config) -> None:
    if not config.conditions:
        raise MasklessError("Name at least one condition to train.")
    if config.seeds < 1:
        raise MasklessError(f"seeds must be at least 1, not {config.seeds}.")
    if config.width is not None and config.width < 1:
        raise MasklessError(f"width must be at least 1, not {config.width}.")
    check_hyperparameters(config.ppo)
    for name in config.conditions:
        condition(name)
        check_hyperparameters(with_numbers(config.ppo, numbers(name)))
    if len(set(config.conditions)) < len(config.conditions):
        raise MasklessError(f"A condition is named twice: {' '.join(config.conditions)}.")
