"""PPO's numbers: the paper's table, and what may differ from run to run inside one program."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from maskless.errors import MasklessError


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """PPO's numbers. The defaults are the paper's for its MLP.

        maskless.train("staircase", ppo=maskless.Hyperparameters(num_envs=64, learning_rate=1e-3))

    Whole numbers and switches decide the shape of the compiled program and are the same for all of
    its runs. The other numbers (`VARYING`) may differ from run to run: see `maskless.grid`.
    """

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


def with_numbers(ppo: Hyperparameters, numbers: Mapping[str, Any]) -> Hyperparameters:
    """The same but for these; inside a compiled program they may be traced."""
    return dataclasses.replace(ppo, **numbers)


_LARGEST = {"num_envs": 2**22, "rollout": 2**20, "minibatches": 2**20, "epochs": 10_000}
_AT_LEAST_ONE = tuple(_LARGEST)
_POSITIVE = ("learning_rate", "clip", "max_gradient_norm", "adam_epsilon", "rnd_learning_rate")
_NOT_NEGATIVE = ("entropy", "value_weight", "rnd_advantage", "rnd_loss_weight")
_SHARES = ("discount", "gae_lambda", "rnd_discount")
_HUGE = 1e300
VARYING = _POSITIVE + _NOT_NEGATIVE + _SHARES
"""The numbers that change no shape, so that each run of a program can have its own."""


NAMES_ELSEWHERE = {
    "lr": "learning_rate",
    "n_envs": "num_envs",
    "n_steps": "rollout",
    "num_steps": "rollout",
    "n_epochs": "epochs",
    "update_epochs": "epochs",
    "num_minibatches": "minibatches",
    "batch_size": "minibatches (how many they are, not how large)",
    "ent_coef": "entropy",
    "vf_coef": "value_weight",
    "clip_range": "clip",
    "clip_coef": "clip",
    "max_grad_norm": "max_gradient_norm",
    "total_timesteps": "frames",
}
"""What other libraries call these numbers -> what they are called here."""


def check_hyperparameters(ppo: Hyperparameters) -> None:
    """Refuses numbers that nothing can be trained with."""
    for name in _AT_LEAST_ONE + VARYING:
        _check_number(name, getattr(ppo, name))
    if ppo.rnd_discount == 1:
        raise MasklessError("rnd_discount must be below 1: novelty never ends with an episode.")


def _check_number(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _HUGE:
        raise MasklessError(f"{name} must be a number, not {value}.")
    if name in _AT_LEAST_ONE and (value < 1 or value != int(value)):
        raise MasklessError(f"{name} must be a whole number of at least 1, not {value}.")
    if name in _AT_LEAST_ONE and value > _LARGEST[name]:
        raise MasklessError(f"{name} must be at most {_LARGEST[name]:,}, not {value}.")
    if name in _POSITIVE and value <= 0:
        raise MasklessError(f"{name} must be above 0, not {value}.")
    if name in _NOT_NEGATIVE and value < 0:
        raise MasklessError(f"{name} must not be negative; it is {value}.")
    if name in _SHARES and not 0 <= value <= 1:
        raise MasklessError(f"{name} must be between 0 and 1, not {value}.")
