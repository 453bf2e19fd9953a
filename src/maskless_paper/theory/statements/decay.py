"""How fast the rare action falls, and how much of that the theorem's bound explains."""

import functools

import numpy as np
from jaxtyping import Float

from maskless_paper.theory.ascent import Suppression, Training, follow
from maskless_paper.theory.finding import IDENTITY, Finding, Size
from maskless_paper.theory.mdp import (
    Problem,
    aligned_features,
    random_problems,
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
    only grows with the logarithm of T. Corrected: with V > 0 and no negative inner product,

        K_T <= sum_s (phi* . phi_s / |phi_s|^2) log(1 + c_s e^c_s T)

    with c_s = eta r_max |phi_s|^2 / n, so that the bound falls no faster than a power of T.

    Proof: let u_s be the sum of all pushes d(s) pi |A| eta in s. The logit of a in s is at most
    -|phi_s|^2 u_s, so by `zero_sum` pi(a|s) <= exp(-|phi_s|^2 u_s) / n; and |A| <= r_max. Thus
    x = exp(|phi_s|^2 u_s) grows to x e^(c_s/x) <= x + c_s e^c_s at most, from 1. K_T is the sum
    of phi* . phi_s u_s. In short: a push is proportional to pi, and wears off.

    Check: that inequality on random MDPs with positive features; in the corridor, straight lines
    through log pi against log T and against T: which fits?
    """
    problem = random_problems(size.rng(), 2 * size.mdps)
    random = follow(problem, Training(200, rate=3.0))
    slack = (_largest_k(problem, 3.0, 200) - random.defined[-1])[size.mdps :]  # positive features
    record = corridor_run()
    time = np.arange(FIT_FROM, STEPS + 1)
    power, slopes, exponential = [], [], []
    for log_pi in record.log_probability[FIT_FROM:].T:
        slope, fit = _line(np.log(time), log_pi)
        slopes.append(slope)
        power.append(fit)
        exponential.append(_line(time, log_pi)[1])
    kept = spaced(STEPS)
    return Finding(
        claim="The probability decays exponentially in training steps",
        correction="K_T grows like log T at most: a power law",
        paper="Abstract, Fig. 1b, Sec. 4",
        printed=min(exponential) > max(power),
        corrected=bool(slack.min() >= 0) and min(power) > max(exponential),
        evidence=f"power law: slope {', '.join(f'{s:.2f}' for s in slopes)} for alignment"
        f" {', '.join(map(str, ALIGNMENTS))}; R2 >= {min(power):.4f}, exponential"
        f" R2 <= {max(exponential):.2f}. K_T <= O(log T): never missed on {size.mdps:,} MDPs",
        numbers={
            **{f"slope_{a}": s for a, s in zip(ALIGNMENTS, slopes, strict=True)},
            "least_power_r2": min(power),
            "largest_exponential_r2": max(exponential),
            "random_least_slack": slack.min(),
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


def transfer(size: Size) -> Finding:
    """Printed: lowering the correlation from about 0.8 to 0.4 breaks condition (ii).
    Corrected: with m visited states, alignment rho passes on rho m / (1 - rho + rho m) of a change.

    Proof: an equal push c in m states changes their own logits by c (1 - rho + rho m), and that
    of s* by c rho m. What all states share adds up; what is their own does not.

    Check: the formula on random alignments and numbers of states.
    """
    rng = size.rng()
    error = 0.0
    for _ in range(size.mdps):
        count, rho = int(rng.integers(1, 64)), rng.random()
        seen = aligned_features(count + 1, np.asarray(rho))
        change = seen @ seen[:-1].sum(0)
        formula = rho * count / (1 - rho + rho * count)
        error = max(error, abs(change[-1] / change[0] - formula))
    passed = {rho: 8 * rho / (1 - rho + 8 * rho) for rho in (0.3, 0.4, 0.8)}
    return Finding(
        claim="Lowering the feature correlation from 0.8 to 0.4 breaks condition (ii)",
        correction="m visited states with correlation rho pass on rho m / (1 - rho + rho m)",
        paper="Sec. 4; experiments, RQ2",
        printed=passed[0.4] < 0.1,
        corrected=error <= IDENTITY,
        evidence=f"with 8 visited states, alignment 0.8 passes on {passed[0.8]:.0%} of a change,"
        f" 0.4 still {passed[0.4]:.0%}, 0.3 {passed[0.3]:.0%}",
        numbers={"error": error, **{f"passed_{rho}": share for rho, share in passed.items()}},
    )


def _largest_k(problem: Problem, rate: float, steps: int) -> Float[np.ndarray, " batch"]:
    """The right-hand side of `decay_law`."""
    squared = (problem.features**2).sum(-1)
    reach = np.einsum("...sd,...d->...s", problem.features, problem.rare) / squared
    most = rate * problem.mdp.reward.max((-2, -1))[:, None] * squared / problem.mdp.actions
    return (reach * np.log1p(most * np.exp(most) * steps)).sum(-1)


def _line(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Slope and R2 of the straight line through y(x)."""
    slope, offset = np.polyfit(x, y, 1)
    return float(slope), float(1 - np.var(y - slope * x - offset) / np.var(y))


def spaced(steps: int) -> np.ndarray:
    """Steps to draw: evenly on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, steps, 120)).astype(int))
