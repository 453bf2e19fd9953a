"""Exact values and policy gradients, by linear algebra instead of sampling.

The objective is normalised like the paper's visitation d: J = (1 - gamma) E[V(s_0)] =
E_{s ~ d, a ~ pi}[r]. Its gradient is then exactly the paper's update, without a factor
1 / (1 - gamma) between them.
"""

import dataclasses
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from maskless.masking import INVALID
from maskless_paper.theory.mdp import MDP, Problem

Number = float | Float[np.ndarray, "*batch"]
EntropyKind = Literal["per-state", "full"]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a policy is worth. `visitation` is d_pi; it sums to less than 1 where episodes end."""

    values: Float[np.ndarray, "*batch states"]
    action_values: Float[np.ndarray, "*batch states actions"]
    advantages: Float[np.ndarray, "*batch states actions"]
    visitation: Float[np.ndarray, "*batch states"]


def log_policy(
    logits: Float[np.ndarray, "*batch actions"], valid: Bool[np.ndarray, "*batch actions"] | None
) -> Float[np.ndarray, "*batch actions"]:
    """Log-probabilities of the softmax policy, over the valid actions if a mask is given."""
    if valid is not None:
        logits = np.where(valid, logits, INVALID)
    # Only real parts are compared: the derivatives of the checks use complex numbers.
    shifted = logits - logits.real.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def entropy(log_pi: Float[np.ndarray, "*batch actions"]) -> Float[np.ndarray, "*batch"]:
    """H = - sum_a pi log pi."""
    return -(np.exp(log_pi) * log_pi).sum(-1)


def evaluate(
    mdp: MDP, log_pi: Float[np.ndarray, "*batch states actions"], beta: Number = 0.0
) -> Evaluation:
    """Values, advantages and visitation of a policy; `beta` > 0 adds the reward -beta log pi,
    which makes them those of the entropy-regularised objective."""
    pi = np.exp(log_pi)
    discount = np.asarray(mdp.discount)[..., None]
    reward = mdp.reward - np.asarray(beta)[..., None, None] * log_pi
    moves = np.einsum("...sa,...sat->...st", pi, mdp.transition)
    horizon = np.linalg.inv(np.eye(mdp.states) - discount[..., None] * moves)
    values = np.einsum("...st,...t->...s", horizon, (pi * reward).sum(-1))
    visitation = (1.0 - discount) * np.einsum("...s,...st->...t", mdp.start, horizon)
    onward = np.einsum("...sat,...t->...sa", mdp.transition, values)
    action_values = reward + discount[..., None] * onward
    return Evaluation(values, action_values, action_values - values[..., None], visitation)


def policy_at(
    problem: Problem, theta: Float[np.ndarray, "*batch actions dims"], *, masked: bool = False
) -> Float[np.ndarray, "*batch states actions"]:
    """log pi of the linear softmax policy in the states of the MDP."""
    logits = np.einsum("...ad,...sd->...sa", theta, problem.features)
    return log_policy(logits, problem.mdp.valid if masked else None)


def policy_at_rare(
    problem: Problem, theta: Float[np.ndarray, "*batch actions dims"], *, masked: bool = False
) -> Float[np.ndarray, "*batch actions"]:
    """log pi(. | s*)."""
    logits = np.einsum("...ad,...d->...a", theta, problem.rare)
    return log_policy(logits, problem.rare_valid if masked else None)


def objective(
    problem: Problem,
    theta: Float[np.ndarray, "*batch actions dims"],
    *,
    beta: Number = 0.0,
    masked: bool = False,
) -> Float[np.ndarray, "*batch"]:
    """J + beta E_{s ~ d}[H], a function of theta."""
    result = evaluate(problem.mdp, policy_at(problem, theta, masked=masked), beta)
    return (1.0 - problem.mdp.discount) * (problem.mdp.start * result.values).sum(-1)


def logit_updates(
    mdp: MDP,
    log_pi: Float[np.ndarray, "*batch states actions"],
    result: Evaluation,
    *,
    beta: Number = 0.0,
    kind: EntropyKind = "per-state",
) -> Float[np.ndarray, "*batch states actions"]:
    """The derivative with respect to the logits of each state, weighted by its visitation.

    "per-state": d(s) pi [A - beta (log pi + H)], the paper's and PPO's entropy bonus: it ignores
    that the policy also changes which states are visited. "full": the gradient of J + beta E_d[H],
    where `result` must have been evaluated with the same `beta`.
    """
    push = result.advantages
    if kind == "per-state":
        bonus = log_pi + entropy(log_pi)[..., None]
        push = push - np.asarray(beta)[..., None, None] * bonus
    return result.visitation[..., None] * np.exp(log_pi) * push


def gradient(
    problem: Problem,
    theta: Float[np.ndarray, "*batch actions dims"],
    *,
    beta: Number = 0.0,
    kind: EntropyKind = "per-state",
    masked: bool = False,
) -> Float[np.ndarray, "*batch actions dims"]:
    """The update of theta: sum_s [...] phi(s), for one of the two kinds of entropy bonus."""
    log_pi = policy_at(problem, theta, masked=masked)
    result = evaluate(problem.mdp, log_pi, beta if kind == "full" else 0.0)
    updates = logit_updates(problem.mdp, log_pi, result, beta=beta, kind=kind)
    return np.einsum("...sa,...sd->...ad", updates, problem.features)


def complex_step_gradient(
    problem: Problem,
    theta: Float[np.ndarray, "*batch actions dims"],
    *,
    beta: Number = 0.0,
    masked: bool = False,
) -> Float[np.ndarray, "*batch actions dims"]:
    """The gradient of `objective` without using any formula for it: Im f(x + ih) / h.

    There is no difference of nearby numbers in it, so that it is exact to rounding.
    """
    step = 1e-30
    slopes = np.zeros_like(theta)
    for index in np.ndindex(theta.shape[-2:]):
        moved = theta.astype(complex)
        moved[(..., *index)] += 1j * step
        slopes[(..., *index)] = objective(problem, moved, beta=beta, masked=masked).imag / step
    return slopes
