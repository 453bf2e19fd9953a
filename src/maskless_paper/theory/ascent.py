"""Training the linear softmax policy, and following what becomes of the rare action."""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import numpy as np
from jaxtyping import Float

from maskless.errors import MasklessError
from maskless_paper.theory.gradients import (
    EntropyKind,
    Evaluation,
    Number,
    entropy,
    evaluate,
    logit_updates,
    policy_at,
    policy_at_rare,
)
from maskless_paper.theory.mdp import Generator, Problem

Optimizer = Literal["sgd", "adam"]


@dataclasses.dataclass(frozen=True)
class Training:
    """How to train."""

    steps: int
    rate: float = 1.0
    beta: Number = 0.0
    """The entropy coefficient."""
    entropy: EntropyKind = "per-state"
    optimizer: Optimizer = "sgd"
    masked: bool = False
    """Under the hard mask of each state."""
    samples: int | None = None
    """State-action pairs drawn from d and pi for each update; None: the exact gradient."""


@dataclasses.dataclass(frozen=True)
class Iterate:
    """One step: the parameters before it, what the policy is worth, and the change."""

    theta: Float[np.ndarray, "*batch actions dims"]
    log_pi: Float[np.ndarray, "*batch states actions"]
    result: Evaluation
    change: Float[np.ndarray, "*batch actions dims"]


def ascend(problem: Problem, training: Training, rng: Generator | None = None) -> Iterator[Iterate]:
    """Gradient ascent from the uniform policy. `rng` is needed only for samples."""
    theta = problem.zeros()
    beta = np.asarray(training.beta)
    if beta.ndim > theta.ndim - 2:  # several coefficients for one problem
        theta = np.zeros((*beta.shape, *theta.shape[-2:]))
    optimizer = _Adam(training.rate) if training.optimizer == "adam" else None
    inside = beta if training.entropy == "full" else 0.0
    for _ in range(training.steps):
        log_pi = policy_at(problem, theta, masked=training.masked)
        result = evaluate(problem.mdp, log_pi, inside)
        if training.samples is None:
            updates = logit_updates(problem.mdp, log_pi, result, beta=beta, kind=training.entropy)
        else:
            if rng is None:
                raise MasklessError("Training on samples needs a random generator: give rng.")
            updates = _sampled_updates(rng, training.samples, log_pi, result, beta)
        direction = np.einsum("...sa,...sd->...ad", updates, problem.features)
        change = optimizer(direction) if optimizer else training.rate * direction
        yield Iterate(theta, log_pi, result, change)
        theta = theta + change


class _Adam:
    """Adam, ascending, with the usual constants."""

    def __init__(self, rate: float):
        self.rate, self.time = rate, 0
        self.mean: np.ndarray | float = 0.0
        self.square: np.ndarray | float = 0.0

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        self.time += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean = self.mean / (1 - 0.9**self.time)
        square = self.square / (1 - 0.999**self.time)
        return self.rate * mean / (np.sqrt(square) + 1e-8)


def _sampled_updates(
    rng: Generator,
    samples: int,
    log_pi: Float[np.ndarray, "*batch states actions"],
    result: Evaluation,
    beta: Float[np.ndarray, "*batch"],
) -> Float[np.ndarray, "*batch states actions"]:
    """The estimate from state-action pairs, with exact advantages: only the pairs are random."""
    pi = np.exp(log_pi)
    pairs = result.visitation[..., None] * pi
    chances = pairs.reshape(*pairs.shape[:-2], -1)
    over = np.maximum(1.0 - chances.sum(-1, keepdims=True), 0.0)  # the episode was over
    drawn = rng.multinomial(samples, np.concatenate([chances, over], -1))[..., :-1]
    share = drawn.reshape(pairs.shape) / samples
    earned = share * result.advantages
    bonus = pi * (log_pi + entropy(log_pi)[..., None])
    visited = share.sum(-1, keepdims=True)
    push = earned - pi * earned.sum(-1, keepdims=True)
    return push - beta[..., None, None] * visited * bonus


@dataclasses.dataclass(frozen=True)
class Suppression:
    """What became of the action at s*. The first axis is time, beginning before the first step."""

    log_probability: Float[np.ndarray, "time *batch"]
    """log pi(a | s*)."""
    defined: Float[np.ndarray, "time *batch"]
    """K_T as the theorem defines it, without entropy: the sum of
    eta phi(s*) . E_d[pi |A| phi]."""
    printed: Float[np.ndarray, "time *batch"]
    """K_T with the entropy term as printed in the proof: minus beta phi(s*) . E_d[...]."""
    corrected: Float[np.ndarray, "time *batch"]
    """K_T as it is derived: with -A for |A|, and plus eta beta phi(s*) . E_d[pi (log pi + H) phi].
    """
    fallen: Float[np.ndarray, "time *batch"]
    """How far the logit of the action at s* has fallen below the mean of all logits there."""
    least_value: Float[np.ndarray, "*batch"]
    """The smallest V(s) of any visited state at any time."""
    least_gap: Float[np.ndarray, "*batch"]
    """Condition (i): the smallest margin of the best valid action over the invalid one."""
    least_rate: Float[np.ndarray, "*batch"]
    """Condition (ii): the smallest kappa, as defined."""
    largest_advantage: Float[np.ndarray, "*batch"]
    """The largest A(s, a) of the action in any visited state at any time."""
    theta: Float[np.ndarray, "*batch actions dims"]
    """The parameters in the end."""

    def log_bound(self, actions: int) -> Float[np.ndarray, "time *batch"]:
        """The theorem's bound e^-K / n, as defined."""
        return -self.defined - np.log(actions)


def follow(problem: Problem, training: Training, rng: Generator | None = None) -> Suppression:
    """Trains with SGD or Adam and records the rare action and the theorem's quantities."""
    action, rate = problem.action, training.rate
    logs, fallen, rates, pushes, bonuses = [], [], [], [], []
    least_value: np.ndarray | float = np.inf
    least_gap: np.ndarray | float = np.inf
    largest: np.ndarray | float = -np.inf
    theta = problem.zeros()
    alignment = np.einsum("...sd,...d->...s", problem.features, problem.rare)
    for iterate in ascend(problem, training, rng):
        logs.append(policy_at_rare(problem, iterate.theta, masked=training.masked)[..., action])
        fallen.append(_fall(problem, iterate.theta))
        result, advantage = iterate.result, iterate.result.advantages[..., action]
        weight = result.visitation * alignment * np.exp(iterate.log_pi[..., action])
        rates.append(rate * (weight * np.abs(advantage)).sum(-1))
        pushes.append(-rate * (weight * advantage).sum(-1))
        bonus = iterate.log_pi[..., action] + entropy(iterate.log_pi)
        bonuses.append((weight * bonus).sum(-1))
        best = np.where(problem.mdp.valid, result.action_values, -np.inf).max(-1)
        gap = best - result.action_values[..., action]
        least_value = np.minimum(least_value, result.values.min(-1))
        least_gap = np.minimum(least_gap, gap.min(-1))
        largest = np.maximum(largest, advantage.max(-1))
        theta = iterate.theta + iterate.change
    logs.append(policy_at_rare(problem, theta, masked=training.masked)[..., action])
    fallen.append(_fall(problem, theta))
    kappa, extra = np.stack(rates), np.asarray(training.beta) * np.stack(bonuses)
    return Suppression(
        log_probability=np.stack(logs),
        defined=_summed(kappa),
        printed=_summed(kappa - extra),
        corrected=_summed(np.stack(pushes) + rate * extra),
        fallen=np.stack(fallen),
        least_value=np.asarray(least_value),
        least_gap=np.asarray(least_gap),
        least_rate=kappa.min(0),
        largest_advantage=np.asarray(largest),
        theta=theta,
    )


def _fall(
    problem: Problem, theta: Float[np.ndarray, "*batch actions dims"]
) -> Float[np.ndarray, "*batch"]:
    """The mean logit at s* minus that of the action."""
    logits = np.einsum("...ad,...d->...a", theta, problem.rare)
    return logits.mean(-1) - logits[..., problem.action]


def _summed(rates: np.ndarray) -> np.ndarray:
    """The sum up to each time, from 0."""
    return np.concatenate([np.zeros_like(rates[:1]), np.cumsum(rates, 0)])
