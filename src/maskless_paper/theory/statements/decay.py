"""How fast the rare action falls, and how much of that the theorem's bound explains."""

import functools

import numpy as np
from jaxtyping import Float

from maskless_paper.theory.ascent import Suppression, Training, follow
from maskless_paper.theory.finding import Finding, Size
from maskless_paper.theory.mdp import (
    Problem,
    mixed_problems,
    staircase_mdp,
    staircase_problem,
)

STEPS = 20_000
ALIGNMENTS = (0.3, 0.8, 1.0)
FIT_FROM = 100  # the first steps belong to neither law


@functools.cache
def corridor_run() -> Suppression:
    """The corridor with each of `ALIGNMENTS`, exact gradients: shared by several statements."""
    return follow(staircase_problem(np.array(ALIGNMENTS)), Training(STEPS))


def decay_law(size: Size) -> Finding:
    """Printed: e^-K_T / n, and with it pi(a|s*), decays exponentially. In K_T it does, but K_T
    only grows with the logarithm of T. Corrected: with A(s,a) <= 0 at the visited states and no
    negative inner product, under SGD with exact gradients,

        K_T <= sum_s (phi* . phi_s / |phi_s|^2) log(1 + c_s e^c_s T)

    with c_s = eta A_max |phi_s|^2 / n, so that in the long run the bound falls no faster than a
    power of T. A_max bounds |A|: it is r_max for a no-op without reward, and never more than
    (max(r_max, 0) - min(r_min, 0)) / (1 - gamma).

    Proof: let u_s be the sum of all pushes d(s) pi |A| eta in s. The logit of a in s is at most
    -|phi_s|^2 u_s, so by `zero_sum` pi(a|s) <= exp(-|phi_s|^2 u_s) / n; and |A| <= A_max. Thus
    x = exp(|phi_s|^2 u_s) grows to x e^(c_s/x) <= x + c_s e^c_s at most, from 1. K_T is the sum
    of phi* . phi_s u_s. In short: a push is proportional to pi, and wears off.

    It is a law of the long run. While c_s T is small the logarithm is a straight line: an
    exponential fits better. And Adam does not wear off: it divides a push by its size, so that
    logits fall by about the learning rate in every step, small as the push may be.

    Check: that inequality on `mixed_problems` with positive features; in the corridor, straight
    lines through log pi against log T and against T: which fits? For SGD in the long run and at a
    hundredth of its rate, and for Adam.
    """
    slack = _random_slack(size)
    record = corridor_run()
    slopes, power, exponential = np.transpose([_fits(run) for run in record.log_probability.T])
    early_fits, adam_fits = _early_and_adam()
    kept = spaced(STEPS)
    return Finding(
        claim="The probability decays exponentially in training steps",
        correction="K_T grows like log T at most: under SGD, in the long run, a power law",
        paper="Abstract, Fig. 1b, Sec. 4",
        printed=bool(exponential.min() > power.max()),
        corrected=bool(slack.min() >= 0 and power.min() > exponential.max())
        and early_fits[0] < early_fits[1],
        evidence=f"power law: slope {', '.join(f'{s:.2f}' for s in slopes)} for alignment"
        f" {', '.join(map(str, ALIGNMENTS))}; R2 >= {power.min():.4f}, exponential"
        f" R2 <= {exponential.max():.2f}. K_T <= O(log T): never missed on {len(slack):,} MDPs."
        f" Exponential at first (rate 0.01: R2 {early_fits[1]:.2f}, power law {early_fits[0]:.2f}),"
        f" and under Adam ({adam_fits[1]:.3f}, {adam_fits[0]:.2f})",
        numbers={
            **{f"slope_{a}": s for a, s in zip(ALIGNMENTS, slopes, strict=True)},
            "least_power_r2": power.min(),
            "largest_exponential_r2": exponential.max(),
            "random_least_slack": slack.min(),
            "early_power_r2": early_fits[0],
            "early_exponential_r2": early_fits[1],
            "adam_power_r2": adam_fits[0],
            "adam_exponential_r2": adam_fits[1],
        },
        curves={
            "step": kept,
            "alignment": ALIGNMENTS,
            "probability": np.exp(record.log_probability[kept]).T,
            "bound": np.exp(record.log_bound(6)[kept]).T,
            "slope": slopes,
        },
    )


def tightness(size: Size) -> Finding:
    """Printed: the bound is tight in practice. It explains about 1/n of the fall.

    The bound counts only the logit of a going down. But updates sum to zero, so that what the
    n - 1 falling actions lose, the one reinforced action gains, at s* too: log pi falls by about
    n times as much. Masking the invalid actions does not stop that part (see `decoupling`).

    Check: the corridor with 3 to 43 actions; K_T as a share of -log(n pi).
    """
    shares, ratios = {}, {}
    for actions in (3, 6, 11, 43):
        problem = staircase_problem(mdp=staircase_mdp(actions=actions))
        record = follow(problem, Training(STEPS // 2))
        fall = -(record.log_probability[-1] + np.log(actions))
        shares[actions] = float(record.defined[-1] / fall)
        ratios[actions] = float(np.exp(fall - record.defined[-1]))
    return Finding(
        claim="The bound e^-K_T / n is tight in practice",
        paper="Sec. 4, after Theorem 1",
        printed=all(ratio < 2 for ratio in ratios.values()),
        corrected=None,
        evidence=f"after {STEPS // 2:,} steps the bound is "
        + ", ".join(f"{ratio:.0f} x too large (n = {n})" for n, ratio in ratios.items())
        + f"; K_T explains {shares[3]:.0%} to {shares[43]:.1%} of the fall",
        numbers={
            **{f"ratio_{n}": ratio for n, ratio in ratios.items()},
            **{f"share_{n}": share for n, share in shares.items()},
        },
    )


def _random_slack(size: Size) -> Float[np.ndarray, " mdps"]:
    """How far K_T stays below its bound in random MDPs that meet the conditions."""
    problem = mixed_problems(size.rng(), 2 * size.mixed)  # the second half has positive features
    record = follow(problem, Training(200, rate=3.0))
    inside = (record.largest_advantage <= 0) & (np.arange(2 * size.mixed) >= size.mixed)
    return (_largest_k(problem, 3.0, 200) - record.defined[-1])[inside]


def _early_and_adam() -> tuple[tuple[float, float], tuple[float, float]]:
    """R2 of a power law and of an exponential: with a hundredth of the rate, and under Adam."""
    early = follow(staircase_problem(0.8), Training(4000, rate=0.01)).log_probability
    many = staircase_problem(0.8, mdp=staircase_mdp(actions=43))
    adam = follow(many, Training(3000, rate=1e-3, optimizer="adam")).log_probability
    return _fits(early)[1:], _fits(adam)[1:]


def _largest_k(problem: Problem, rate: float, steps: int) -> Float[np.ndarray, " batch"]:
    """The right-hand side of `decay_law`."""
    mdp, states = problem.mdp, np.arange(problem.mdp.states)
    squared = (problem.features**2).sum(-1)
    reach = np.einsum("...sd,...d->...s", problem.features, problem.rare) / squared
    rewards = mdp.reward[..., problem.action]
    stays = mdp.transition[:, states, problem.action, states] == 1.0
    no_op = (stays & (rewards == 0.0)).all(-1)
    most, least = mdp.reward.max((-2, -1)).clip(0.0), mdp.reward.min((-2, -1)).clip(max=0.0)
    advantage = np.where(no_op, most, (most - least) / (1.0 - mdp.discount))
    most = rate * advantage[:, None] * squared / mdp.actions
    return (reach * np.log1p(most * np.exp(most) * steps)).sum(-1)


def _fits(log_pi: Float[np.ndarray, " time"]) -> tuple[float, float, float]:
    """The exponent of a power law; R2 of that and of an exponential."""
    time = np.arange(FIT_FROM, len(log_pi))
    slope, power = _line(np.log(time), log_pi[FIT_FROM:])
    return slope, power, _line(time, log_pi[FIT_FROM:])[1]


def _line(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Slope and R2 of the straight line through y(x)."""
    slope, offset = np.polyfit(x, y, 1)
    return float(slope), float(1 - np.var(y - slope * x - offset) / np.var(y))


def spaced(steps: int) -> np.ndarray:
    """Steps to draw: evenly on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, steps, 120)).astype(int))
