"""What masks do to the gradient, and what they do not."""

import numpy as np

from maskless_paper.theory.ascent import Training, follow
from maskless_paper.theory.finding import ROUNDING, Finding, Size
from maskless_paper.theory.gradients import complex_step_gradient, log_policy, policy_at
from maskless_paper.theory.mdp import random_problems, staircase_problem
from maskless_paper.theory.statements.decay import STEPS, corridor_run, spaced


def masked_gradient(size: Size) -> Finding:
    """Under a hard mask an action that is invalid in all visited states gets no gradient at all.

    Proof: its logit does not enter the policy of any visited state.

    Check: complex steps of J at random parameters, and 50 steps of training: exactly zero.
    """
    rng = size.rng()
    problem = random_problems(rng, size.mdps)
    theta = rng.normal(size=problem.zeros().shape)
    slope = complex_step_gradient(problem, theta, beta=0.1, masked=True)
    record = follow(problem, Training(50, rate=3.0, beta=0.1, masked=True))
    largest = np.abs(slope[:, problem.action]).max()
    moved = np.abs(record.theta[:, problem.action]).max()
    return Finding(
        claim="A hard mask gives invalid actions zero probability and zero gradient",
        paper="Sec. 3 (masking)",
        printed=bool(largest == 0 and moved == 0),
        corrected=None,
        evidence=f"gradient {largest:g}, weights moved by {moved:g} in training,"
        f" on {size.mdps:,} MDPs",
        numbers={"gradient": largest, "moved": moved},
    )


def soft_mask(size: Size) -> Finding:
    """Printed: -20 for invalid actions yields probabilities near zero. Corrected: added to the
    logit it does so while invalid logits stay well below 20; put in its place, while the valid
    ones stay well above -20. Only a hard mask does not depend on the logits.

    Proof: the gradient that leaks is pi(a) A(a), and pi(a) = e^(z_a - 20) / (sum of the rest).

    Check: the probability of one invalid action beside two valid ones, for growing logits, and
    under a hard mask for random ones.
    """
    logits = 100.0 * size.rng().normal(size=(size.mdps, 3))
    hard = np.exp(log_policy(logits, np.array([True, True, False])))[:, -1].max()
    invalid = np.array([0.0, 10.0, 19.0, 25.0])
    added = _soft(np.zeros(4), invalid - 20.0)
    replaced = _soft(np.array([0.0, -18.0, -25.0]), np.full(3, -20.0))
    return Finding(
        claim="A soft mask of -20 leaves invalid actions a probability near zero",
        correction="It does while logits stay small; a hard mask always does",
        paper="Sec. 5, Eq. 12",
        printed=bool(max(added.max(), replaced.max()) < 1e-3),
        corrected=bool(hard == 0.0 and added[0] < 1e-8 and replaced[0] < 1e-8),
        evidence="added, invalid logit 0, 10, 19, 25: "
        + ", ".join(f"{p:.1e}" for p in added)
        + "; replaced, valid logits -18, -25: "
        + ", ".join(f"{p:.2f}" for p in replaced[1:])
        + f"; hard, {size.mdps:,} random logits: {hard:g}",
        numbers={
            **{f"added_{z:g}": p for z, p in zip(invalid, added, strict=True)},
            "replaced_-18": replaced[1],
            "replaced_-25": replaced[2],
            "hard": hard,
        },
    )


def decoupling(size: Size) -> Finding:
    """Printed: masking decouples visited states from s*. Corrected: it freezes the logit of a,
    but not those of the actions that are valid in both: a rises at s* where the reinforced action
    is invalid, and can fall where it is valid too (on Craftax's ladders one can walk on). Where
    everything is valid at s*, pi(a|s*) is never above 1/n.

    Proof: z_a(s*) stays 0 (`masked_gradient`), so pi(a|s*) = 1 / (sum of e^z_j over the actions
    valid at s*), and the reinforced action's z_j(s*) grows through the shared features. Over all
    actions the sum is at least n (`zero_sum`).

    Check: the corridor, which ends at the ladder or goes on behind it; the last on random MDPs.
    """
    random = random_problems(size.rng(), size.mdps)  # everything is valid at s*
    record = follow(random, Training(100, rate=3.0, masked=True))
    largest = random.mdp.actions * np.exp(record.log_probability.max())
    least = random.mdp.actions * np.exp(record.log_probability.min())
    training = Training(STEPS, masked=True)
    ends = follow(staircase_problem(0.8), training)
    goes_on_problem = staircase_problem(0.8, right_at_ladder=True)
    goes_on = follow(goes_on_problem, training)
    rises, falls = np.exp(ends.log_probability), np.exp(goes_on.log_probability)
    bare = np.exp(policy_at(goes_on_problem, goes_on.theta))
    lost = np.where(goes_on_problem.mdp.valid, 0.0, bare).sum(-1).mean()
    kept = spaced(STEPS)
    return Finding(
        claim="Masking decouples the updates at visited states from s*",
        correction="It freezes the logit of a, not those of the other actions that are valid at s*",
        paper="Sec. 3 and 4",
        printed=bool(falls[-1] >= falls[0]),
        corrected=bool((np.diff(rises) >= 0).all() and largest <= 1 + ROUNDING),
        evidence=f"pi(descend|s*) under the mask: {rises[0]:.2f} to {rises[-1]:.2f} where the"
        f" corridor ends at the ladder, {falls[0]:.2f} to {falls[-1]:.3f} where it goes on."
        f" All valid at s*: never above 1/n on {size.mdps:,} MDPs, down to {least:.0e}/n."
        f" Mask removed after training: {lost:.0%} of the probability is invalid, no collapse",
        numbers={
            "ends_first": rises[0],
            "ends_last": rises[-1],
            "goes_on_first": falls[0],
            "goes_on_last": falls[-1],
            "invalid_mass_without_mask": lost,
            "random_largest": largest,
            "random_least": least,
        },
        curves={
            "step": kept,
            "masked_ends": rises[kept],
            "masked_goes_on": falls[kept],
            "unmasked": np.exp(corridor_run().log_probability[kept, 1]),
        },
    )


def _soft(valid_logit: np.ndarray, invalid_logit: np.ndarray) -> np.ndarray:
    """The probability of an invalid action beside two valid ones."""
    return np.exp(log_policy(np.stack([valid_logit, valid_logit, invalid_logit], -1), None))[:, -1]
