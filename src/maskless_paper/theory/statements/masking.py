"""What masks do to the gradient, and what they do not."""

import functools

import numpy as np

from maskless_paper.theory.ascent import Suppression, Training, follow
from maskless_paper.theory.finding import ROUNDING, Finding, Size
from maskless_paper.theory.gradients import complex_step_gradient, log_policy
from maskless_paper.theory.mdp import mixed_problems, staircase_problem
from maskless_paper.theory.statements.decay import STEPS, corridor_run, spaced


def masked_gradient(size: Size) -> Finding:
    """Under a hard mask an action that is invalid in all visited states gets no gradient at all.

    Proof: its logit does not enter the policy of any visited state. SGD and Adam (without decay of
    weights) leave alone what never has a gradient.

    Check: complex steps of J at random parameters, and 50 steps of training, exact, by samples and
    with Adam: exactly zero.
    """
    rng = size.rng()
    problem = mixed_problems(rng, size.mdps)
    theta = rng.normal(size=problem.zeros().shape)
    slope = complex_step_gradient(problem, theta, beta=0.1, masked=True)
    largest = np.abs(slope[:, problem.action]).max()
    moved = 0.0
    for training in (
        Training(50, rate=3.0, beta=0.1, masked=True),
        Training(50, rate=3.0, beta=0.1, masked=True, samples=16),
        Training(50, rate=1e-2, beta=0.1, masked=True, optimizer="adam"),
    ):
        record = follow(problem, training, rng)
        moved = max(moved, float(np.abs(record.theta[:, problem.action]).max()))
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
    everything is valid at s*, SGD (exact or by samples) never takes pi(a|s*) above 1/n, and any
    optimizer never above e^-z / n, with z the mean of all logits at s*. Adam can pull z down.

    Proof: z_a(s*) stays 0 (`masked_gradient`), so pi(a|s*) = 1 / (sum of e^z_j over the actions
    valid at s*), and the reinforced action's z_j(s*) grows through the shared features. Over all
    actions the sum is at least n e^z (Jensen), and z = 0 under SGD (`zero_sum`).

    Check: the corridor, which ends at the ladder or goes on behind it; the last on
    `mixed_problems`.
    """
    random = mixed_problems(size.rng(), size.mixed)  # everything is valid at s*
    uniform = np.log(random.mdp.actions)
    exact = follow(random, Training(100, rate=3.0, masked=True))
    sampled = follow(random, Training(100, rate=3.0, masked=True, samples=16), size.rng())
    adam = follow(random, Training(300, rate=1e-2, masked=True, optimizer="adam"))
    largest, sampled_largest, adam_largest = (
        float(np.exp(record.log_probability.max() + uniform)) for record in (exact, sampled, adam)
    )
    least = np.exp(exact.log_probability.min() + uniform)
    above = (adam.log_probability.max(0) + uniform > ROUNDING).mean()
    centred = (adam.log_probability + adam.fallen + uniform).max()
    rises = np.exp(masked_corridor_run(goes_on=False).log_probability)
    falls = np.exp(masked_corridor_run(goes_on=True).log_probability)
    return Finding(
        claim="Masking decouples the updates at visited states from s*",
        correction="It freezes the logit of a, not those of the other actions that are valid at s*",
        paper="Sec. 3 and 4",
        printed=bool(falls[-1] >= falls[0]),
        corrected=bool(
            (np.diff(rises) >= 0).all()
            and max(largest, sampled_largest) <= 1 + ROUNDING
            and centred <= ROUNDING
        ),
        evidence=f"pi(descend|s*) under the mask: {rises[0]:.2f} to {rises[-1]:.2f} where the"
        f" corridor ends at the ladder, {falls[0]:.2f} to {falls[-1]:.3f} where it goes on."
        f" All valid at s*: SGD never above 1/n on {size.mixed:,} MDPs, down to {least:.0e}/n;"
        f" Adam in {above:.0%} of them, up to {adam_largest:.2f}/n, but never above e^-z / n",
        numbers={
            "ends_first": rises[0],
            "ends_last": rises[-1],
            "goes_on_first": falls[0],
            "goes_on_last": falls[-1],
            "random_largest": largest,
            "sampled_largest": sampled_largest,
            "random_least": least,
            "adam_above": above,
            "adam_largest": adam_largest,
            "centred_log_excess": centred,
        },
        curves=_corridor_curves(),
    )


def _corridor_curves() -> dict[str, np.ndarray]:
    step = spaced(STEPS)
    return {
        "step": step,
        "masked_ends": np.exp(masked_corridor_run(goes_on=False).log_probability[step]),
        "masked_goes_on": np.exp(masked_corridor_run(goes_on=True).log_probability[step]),
        "unmasked": np.exp(corridor_run().log_probability[step, 1]),
    }


@functools.cache
def masked_corridor_run(*, goes_on: bool) -> Suppression:
    """The corridor under its masks; on the ladder one can walk on or not."""
    return follow(staircase_problem(0.8, right_at_ladder=goes_on), Training(STEPS, masked=True))


def _soft(valid_logit: np.ndarray, invalid_logit: np.ndarray) -> np.ndarray:
    """The probability of an invalid action beside two valid ones."""
    return np.exp(log_policy(np.stack([valid_logit, valid_logit, invalid_logit], -1), None))[:, -1]
