"""What a training program computes: frozen dataclasses, and the paper's hyperparameter table.

`Config` says what is trained on what; `Hyperparameters` say how. Both can be written as JSON and
read back, and together with the versions they decide every number of a run.
"""

import dataclasses
import math
from typing import Any

from maskless.conditions import condition
from maskless.errors import MasklessError, UnknownNameError

PRECISIONS = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """PPO's numbers. The defaults are the paper's for its MLP."""

    num_envs: int = 1024
    """Parallel environments of each run."""
    rollout: int = 64
    """Steps of every environment between two updates."""
    minibatches: int = 8
    """Parts of a batch, each with its own gradient step: samples for the MLP, whole environments
    for networks with a memory."""
    epochs: int = 4
    """Passes over a batch."""
    learning_rate: float = 2e-4
    """Adam's step size (at the beginning, when it is annealed)."""
    anneal: bool = True
    """Lower the learning rate linearly to zero over the run; otherwise it is constant."""
    discount: float = 0.99
    """gamma: the weight of the next step's value."""
    gae_lambda: float = 0.8
    """lambda of generalised advantage estimation."""
    clip: float = 0.2
    """epsilon: how far the policy's ratio, and the value, may move in an update."""
    entropy: float = 0.01
    """Weight of the entropy bonus."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    max_gradient_norm: float = 1.0
    """Larger gradients are scaled down to this norm."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon."""
    bootstrap_truncated: bool = False
    """Count what would have come after a time limit, at the price of one more evaluation per step.
    The paper and the public baselines treat a time limit like any other end."""
    rnd: bool = False
    """Reward novelty with random network distillation (the paper: in MiniHack)."""
    rnd_advantage: float = 0.01
    """RND: the weight of the intrinsic advantage beside the extrinsic one."""
    rnd_discount: float = 0.99
    """RND: the discount of the intrinsic rewards, which do not end with an episode."""
    rnd_loss_weight: float = 0.01
    """RND: the weight of the predictor's loss."""
    rnd_learning_rate: float = 3e-4
    """RND: the predictor's step size."""


@dataclasses.dataclass(frozen=True)
class Config:
    """What one program trains: every condition with every seed."""

    env: str
    env_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    net: str = "mlp"
    width: int | None = None
    """Width of the network's layers; None: the paper's."""
    conditions: tuple[str, ...] = ("masked",)
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
        return dataclasses.asdict(self) | {"conditions": list(self.conditions)}

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


_PAPER: dict[str, dict[str, Any]] = {
    "mlp": {},
    "gru": {},
    "hybrid": {"rollout": 128, "discount": 0.999, "entropy": 0.002},
}
# Small enough for two cores: a narrow network, few environments, fewer passes over each batch.
_CPU: dict[str, Any] = {
    "num_envs": 64,
    "rollout": 64,
    "minibatches": 4,
    "epochs": 2,
    "learning_rate": 1e-3,
}
_CPU_WIDTH = {"mlp": 128, "gru": 128, "hybrid": 64}
PRESETS = ("paper", "cpu")


def preset(name: str, net: str, *, rnd: bool = False) -> tuple[Hyperparameters, int | None]:
    """The hyperparameters and the network width of a preset for one kind of network.

    `paper`: the paper's table. `cpu`: small enough to learn something visible on two cores.
    `rnd`: for a game with one reward at its end. Of the paper's numbers one changes there: with its
    lambda of 0.8 that reward hardly reaches beyond the last steps, and the corridor's runs learn to
    stand still before they have learned to walk (docs/training.md).
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    if net not in _PAPER:
        raise UnknownNameError("network", net, _PAPER)
    paper = Hyperparameters(rnd=rnd, **_PAPER[net] | ({"gae_lambda": 0.95} if rnd else {}))
    if name == "paper":
        return paper, None
    return dataclasses.replace(paper, **_CPU), _CPU_WIDTH[net]


def check(config: Config) -> None:
    """Refuses, before anything compiles, what cannot be trained."""
    _check_numbers(config)
    ppo = config.ppo
    if config.net == "mlp":
        whole, of_what = config.frames_per_update, "samples (num_envs * rollout)"
    else:
        whole, of_what = ppo.num_envs, "environments (a memory needs whole ones)"
    if whole % ppo.minibatches:
        raise MasklessError(
            f"{whole} {of_what} cannot be divided into {ppo.minibatches} minibatches: choose"
            f" minibatches that divide {whole}."
        )
    if config.net == "hybrid" and ppo.rollout % 64:
        raise MasklessError(
            f"The hybrid learns over windows of 64 steps: a rollout of {ppo.rollout} must be a"
            " multiple of 64."
        )
    if config.frames < config.frames_per_update:
        raise MasklessError(
            f"{config.frames:,} frames are less than one update of {ppo.num_envs} environments *"
            f" {ppo.rollout} steps = {config.frames_per_update:,}: ask for more frames or lower"
            " num_envs."
        )
    if config.precision not in PRECISIONS:
        raise UnknownNameError("precision", config.precision, PRECISIONS)
    for name in config.conditions:
        condition(name)
    if len(set(config.conditions)) < len(config.conditions):
        raise MasklessError(f"A condition is named twice: {' '.join(config.conditions)}.")


_AT_LEAST_ONE = ("num_envs", "rollout", "minibatches", "epochs")
_POSITIVE = ("learning_rate", "clip", "max_gradient_norm", "adam_epsilon", "rnd_learning_rate")
_NOT_NEGATIVE = ("entropy", "value_weight", "rnd_advantage", "rnd_loss_weight")
_SHARES = ("discount", "gae_lambda", "rnd_discount")


def _check_numbers(config: Config) -> None:
    if not config.conditions:
        raise MasklessError("Name at least one condition to train.")
    if config.seeds < 1:
        raise MasklessError(f"seeds must be at least 1, not {config.seeds}.")
    if config.width is not None and config.width < 1:
        raise MasklessError(f"width must be at least 1, not {config.width}.")
    for name in _AT_LEAST_ONE + _POSITIVE + _NOT_NEGATIVE + _SHARES:
        value = getattr(config.ppo, name)
        if not math.isfinite(value):
            raise MasklessError(f"{name} must be a number, not {value}.")
        if name in _AT_LEAST_ONE and value < 1:
            raise MasklessError(f"{name} must be at least 1, not {value}.")
        if name in _POSITIVE and value <= 0:
            raise MasklessError(f"{name} must be above 0, not {value}.")
        if name in _NOT_NEGATIVE and value < 0:
            raise MasklessError(f"{name} must not be negative; it is {value}.")
        if name in _SHARES and not 0 <= value <= 1:
            raise MasklessError(f"{name} must be between 0 and 1, not {value}.")
    if config.ppo.rnd_discount == 1:
        raise MasklessError("rnd_discount must be below 1: novelty never ends with an episode.")
