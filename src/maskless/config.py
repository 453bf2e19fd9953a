"""What one program trains: a frozen dataclass that can be written as JSON and read back.

Together with the versions it decides every number of a run. `maskless.train` makes it from what is
asked for; the same request gives the same `Config` from Python and from the command line.
"""

import dataclasses
import json
from typing import Any, TypedDict

from maskless.conditions import condition, numbers
from maskless.errors import MasklessError, UnknownNameError
from maskless.files import check_type, printable
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
    preset: str | None = None
    """Where the numbers of `ppo` started from; None: they were given."""
    optimizer: str = "adam"
    """"custom" for an optimiser that was handed in."""
    finish: int = 0
    """Environment steps of each run after PPO, at most, in which a student learns what is possible
    (`maskless.finish`): then the policy acts without an oracle. 0: there is no such phase."""

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
        if not self.finish:
            del content["finish"]
        if self.preset is None:
            del content["preset"]
        return content

    @staticmethod
    def from_json(content: dict[str, Any]) -> "Config":
        """The config that `to_json` wrote. Says so when a field is missing, unknown, of another
        type, or a number that no program could have been trained with."""
        try:
            check_type(content, _Saved)
            unknown = content.keys() - {field.name for field in dataclasses.fields(Config)}
            unknown |= content["ppo"].keys() - {f.name for f in dataclasses.fields(Hyperparameters)}
            if unknown:
                raise MasklessError(f"{printable(min(unknown), 80)} is no part of it")
            config = check_type(content, Config)
        except MasklessError as error:
            reason = str(error).rstrip(".")
            raise MasklessError(
                f"This is not a configuration of this version of maskless ({reason})."
            ) from error
        check_runs(config)
        return config


class _Saved(TypedDict):
    """What has been in every config.json, also before there were others."""

    env: str
    conditions: list[str]
    ppo: dict[str, bool | int | float]


def check(config: Config, *, recurrent: bool = False, rollout_unit: int = 1) -> None:
    """Refuses, before anything compiles, what cannot be trained.

    `recurrent`, `rollout_unit`: of the network.
    """
    check_runs(config)
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


# Far above what was ever trained, and small enough for loops over it and 32-bit counts.
_LARGEST = {"seeds": 10_000, "frames": 10**15, "finish": 10**15, "width": 2**16}
_MOST_RUNS = 10_000
_WHOLE = 2**31
"""Numbers of runs, updates and samples are 32-bit numbers inside the program."""


def check_runs(config: Config) -> None:
    """Refuses numbers that no program can be made of, before anything counts up to them."""
    if not config.conditions:
        raise MasklessError("Name at least one condition to train.")
    _check_sizes(config)
    check_hyperparameters(config.ppo)
    if config.frames_per_update >= _WHOLE or config.updates >= _WHOLE:
        raise MasklessError(
            f"{config.frames:,} frames in updates of {config.ppo.num_envs} environments *"
            f" {config.ppo.rollout} steps do not fit into 32-bit numbers: lower num_envs, rollout"
            " or frames."
        )
    for name in config.conditions:
        condition(name)
        check_hyperparameters(with_numbers(config.ppo, numbers(name)))
    if len(set(config.conditions)) < len(config.conditions):
        raise MasklessError(f"A condition is named twice: {' '.join(config.conditions)}.")


def _check_sizes(config: Config) -> None:
    for name, largest in _LARGEST.items():
        value = getattr(config, name)
        least = 0 if name == "finish" else 1
        if value is not None and not least <= value <= largest:
            bound = f"at least {least}" if value < least else f"at most {largest:,}"
            raise MasklessError(f"{name} must be {bound}, not {value}.")
    if config.seeds * len(config.conditions) > _MOST_RUNS:
        raise MasklessError(
            f"{len(config.conditions)} conditions with {config.seeds:,} seeds each are more than"
            f" {_MOST_RUNS:,} runs: train them in several folders."
        )
    if not -_WHOLE <= config.first_seed <= _WHOLE - config.seeds:
        raise MasklessError(f"Seeds are 32-bit numbers, which {config.first_seed} is not.")
    try:
        json.dumps(config.env_options, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MasklessError(
            f"The options of {config.env} must be what JSON can hold ({error}): numbers, texts,"
            " lists and objects."
        ) from error
