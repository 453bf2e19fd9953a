"""Theorem 1 with an entropy bonus: its gradient, the suppression rate, and the floor."""

import numpy as np
from jaxtyping import Bool, Float

from maskless_paper.theory.ascent import Training, follow
from maskless_paper.theory.finding import IDENTITY, ROUNDING, Finding, Size
from maskless_paper.theory.gradients import (
    complex_step_gradient,
    entropy,
    evaluate,
    gradient,
    log_policy,
)
from maskless_paper.theory.mdp import MDP, Problem, mixed_problems, staircase_problem
from maskless_paper.theory.statements.decay import STEPS, spaced

BETAS = (0.0, 0.01, 0.05, 0.2)


def entropy_gradient(size: Size) -> Finding:
    """dH/dz_a = -pi_a (log pi_a + H), which sums to zero and vanishes for the uniform policy.

    Proof: dH/dpi_b = -(log pi_b + 1), and dpi_b/dz_a = pi_b (1{a = b} - pi_a).

    Check: complex steps, on random logits.
    """
    logits = 3.0 * size.rng().normal(size=(size.mdps, 7))
    log_pi = log_policy(logits, None)
    formula = -np.exp(log_pi) * (log_pi + entropy(log_pi)[:, None])
    error = np.abs(formula.sum(-1)).max()
    for action in range(logits.shape[-1]):
        moved = logits.astype(complex)
        moved[:, action] += 1e-30j
        slope = entropy(log_policy(moved, None)).imag / 1e-30
        error = max(error, np.abs(slope - formula[:, action]).max())
    return Finding(
        claim="dH/dz_a = -pi_a (log pi_a + H); it sums to zero",
        paper="Appendix, entropy",
        printed=bool(error <= IDENTITY),
        corrected=None,
        evidence=f"largest error {error:.0e} on {size.mdps:,} policies",
        numbers={"error": error},
    )


def regularised_objective(size: Size) -> Finding:
    """Printed: the per-state update (also PPO's) is the gradient of J + beta E_d[H].
    Corrected: that gradient is E_d[pi (Q - beta log pi - V) phi], with Q and V that include the
    entropy still to come; the printed one forgets that the policy changes d.

    Proof: J + beta E_d[H] is the J of the reward r - beta log pi, whose own derivative has mean 0
    under pi; then `logit_gradient`.

    Check: both against complex steps of the objective, beta = 0.1, at random parameters.
    """
    rng = size.rng()
    problem = mixed_problems(rng, size.mdps)
    theta = rng.normal(size=problem.zeros().shape)
    true = complex_step_gradient(problem, theta, beta=0.1)
    full = np.abs(gradient(problem, theta, beta=0.1, kind="full") - true).max()
    per_state = gradient(problem, theta, beta=0.1)
    away = np.linalg.norm(per_state - true, axis=(-2, -1)) / np.linalg.norm(true, axis=(-2, -1))
    return Finding(
        claim="The per-state entropy bonus is the gradient of J + beta E_d[H]",
        correction="That gradient has the entropy to come inside Q and V",
        paper="Appendix, entropy",
        printed=bool(away.max() <= IDENTITY),
        corrected=bool(full <= IDENTITY),
        evidence=f"it is off by {np.median(away):.1%} in the median and {away.max():.0%} at worst;"
        f" with entropy inside Q and V the error is {full:.0e}",
        numbers={"median_off": np.median(away), "largest_off": away.max(), "error_full": full},
    )


def entropy_rate(size: Size) -> Finding:
    """Printed: kappa_ent = kappa - beta phi(s*).E_d[pi (log pi + H) phi], its sum converges, and
    with the theorem's kappa pi_T(a|s*) <= e^-K_T / n. Corrected: that bound holds with

        kappa_ent = kappa + eta beta phi(s*) . E_d[pi (log pi + H) phi],

    given A(s,a) <= 0, or with -A for |A| in kappa; exact gradients and SGD.

    Proof: the update of the logit is eta pi [A - beta (log pi + H)]; the rest is as without
    entropy (`theorem`). Where pi is small the bracket is negative: entropy slows suppression, as it
    should. At the entropic fixed point A < 0 still, so that the theorem's kappa stays constant
    and its K_T grows for ever, while pi does not fall.

    Check: `mixed_problems` with random beta; the corridor, where both printed sums diverge.
    """
    rng = size.rng()
    random = mixed_problems(rng, size.mdps)
    beta = np.exp(rng.uniform(np.log(0.01), np.log(0.5), size.mdps))
    record = follow(random, Training(200, rate=3.0, beta=beta))
    uniform = np.log(random.mdp.actions)
    excess = (record.log_probability + record.corrected + uniform).max()
    corridor = follow(staircase_problem(0.8), Training(STEPS, beta=np.array(BETAS)))
    final = corridor.log_probability[-1] + np.log(6)
    defined, printed = (final + corridor.defined[-1])[2], (final + corridor.printed[-1])[2]
    kept = spaced(STEPS)
    return Finding(
        claim="With entropy, pi_T(a|s*) <= e^-K_T / n and K_T converges",
        correction="With + eta beta instead of - beta in kappa_ent the bound holds, where"
        " A(s,a) <= 0 or with -A for |A|",
        paper="Theorem 1, beta > 0; appendix",
        printed=bool(max(defined, printed) <= ROUNDING),
        corrected=bool(excess <= ROUNDING),
        evidence=f"beta = 0.05: K = {corridor.defined[-1, 2]:.1f} (theorem),"
        f" {corridor.printed[-1, 2]:.1f} (proof), {corridor.corrected[-1, 2]:.2f} (corrected);"
        f" pi is {np.exp(defined):.0e} x the bound. Corrected: no violation on {size.mdps:,} MDPs",
        numbers={
            **{f"defined_{b}": k for b, k in zip(BETAS, corridor.defined[-1], strict=True)},
            **{f"printed_{b}": k for b, k in zip(BETAS, corridor.printed[-1], strict=True)},
            **{f"corrected_{b}": k for b, k in zip(BETAS, corridor.corrected[-1], strict=True)},
            "log_excess_defined": defined,
            "log_excess_printed": printed,
            "random_log_excess": excess,
        },
        curves={
            "step": kept,
            "beta": BETAS,
            "probability": np.exp(corridor.log_probability[kept]).T,
            "bound_printed": np.exp(corridor.log_bound(6)[kept]).T,
            "bound_corrected": np.exp(-corridor.corrected[kept] - np.log(6)).T,
        },
    )


def floor(size: Size) -> Finding:
    """Printed: pi(a|s*) >= exp(-r_max / (beta (1 - gamma))) in the limit.
    Corrected, for states with d(s) > 0 and logits of their own (tabular), at every fixed point:

        log pi(a|s) = A(s,a)/beta - H >= -(r_max - r_min) / (beta (1 - gamma)) - log n,

    where r_max and r_min count 0 as a reward (max(r, 0), min(r, 0)) if episodes can end.

    Proof: there the update pi [A - beta (log pi + H)] is 0, A is a difference of two values in
    [r_min, r_max] / (1 - gamma), and H <= log n. An episode that has ended earns 0 for ever. The
    floor without that 0 fails: one state, two actions that earn 1, one of which ends the episode.

    The printed floor fails (1) in visited states, where H is forgotten: bandits with n actions;
    (2) at an unvisited s* with phi(s*) = c phi(s), whose logits are c times as large; (3) at an
    s* of unit length, aligned with both of two visited states but beyond them: what differs
    between neighbours is extrapolated. An unvisited state has no floor: nothing is learned there.

    Check: these, each at a verified fixed point, and fixed points of tabular `mixed_problems`.
    """
    one = np.eye(1)
    visited = {n: _limit_at(one, one[0], actions=n, beta=0.5) for n in (4, 43)}
    scaled = {c: _limit_at(one, c * one[0]) for c in (2, 5, 10)}
    beyond = {angle: _extrapolated(angle) for angle in (60, 30, 20, 10)}
    log_pi, slack = _random_fixed_points(size)
    ended, without_zero, with_zero = _ending_or_not()
    fails = min(visited.values()) < -2 and min(scaled[2], beyond[10]) < -5
    return Finding(
        claim="Entropy keeps pi(a|s*) above exp(-r_max / (beta (1 - gamma)))",
        correction="Visited tabular states: log pi >= -(r_max - r_min)/(beta (1 - gamma)) - log n,"
        " where 0 counts as a reward if episodes end",
        paper="Theorem 1, beta > 0 (sandwich)",
        printed=not fails,
        corrected=bool(slack.min() >= -ROUNDING and ended >= with_zero),
        evidence=f"log pi: visited {visited[43]:.1f} (floor -2, n = 43); phi(s*) = 10 phi(s)"
        f" {scaled[10]:.0f} (floor -5); unit length, 10 degrees {beyond[10]:.1f} (floor -5)."
        f" Corrected, visited tabular states: never missed on {size.mdps:,} MDPs; to end or not"
        f" {ended:.1f} (floor {with_zero:.1f}; without counting 0 {without_zero:.1f})."
        " With the paper's beta and gamma the floor is e^-500,000 or e^-10,000",
        numbers={
            **{f"visited_{n}": value for n, value in visited.items()},
            **{f"scaled_{c}": value for c, value in scaled.items()},
            **{f"beyond_{angle}": value for angle, value in beyond.items()},
            "random_least_slack": slack.min(),
            "random_least_log_pi": log_pi.min(),
            "ended": ended,
            "ended_floor": with_zero,
            "ended_floor_without_zero": without_zero,
            "paper_floor_hybrid": -1 / (0.002 * (1 - 0.999)),
            "paper_floor_rnn": -1 / (0.01 * (1 - 0.99)),
        },
        curves={"angle": list(beyond), "log_probability": list(beyond.values()), "floor": -5.0},
    )


def _limit_at(
    features: Float[np.ndarray, "states dims"],
    rare: Float[np.ndarray, " dims"],
    *,
    actions: int = 2,
    beta: float = 0.2,
) -> float:
    """log pi(a|s*) where training ends: a bandit in each visited state, discount 0.

    The first action earns 1 in the last state; nothing else earns anything, and a is the last
    action. At the maximum of J + beta E[H] the logits are reward / beta.
    """
    states = len(features)
    reward = np.zeros((states, actions))
    reward[-1, 0] = 1.0
    mdp = MDP(
        transition=np.zeros((states, actions, states)),
        reward=reward,
        start=np.full(states, 1.0 / states),
        discount=np.asarray(0.0),
        valid=np.arange(actions) == np.zeros((states, 1)),
    )
    problem = Problem(mdp, features, rare, np.ones(actions, bool), actions - 1)
    theta = np.linalg.solve(features, reward / beta).T
    stationary = np.abs(gradient(problem, theta, beta=beta)).max()
    if stationary > IDENTITY:
        raise ArithmeticError(f"not a fixed point: the gradient is {stationary}")
    return float(log_policy(theta @ rare, None)[-1])


def _extrapolated(angle: float) -> float:
    """Two visited states at this angle, and s* of unit length, at 89 degrees from the first."""
    turns = np.deg2rad([0.0, angle, 89.0])
    seen = np.stack([np.cos(turns), np.sin(turns)], -1)
    return _limit_at(seen[:2], seen[2])


def _random_fixed_points(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """log pi at the fixed points of random tabular MDPs, and its distance from the floor."""
    rng = size.rng()
    mdp = mixed_problems(rng, size.mdps).mdp
    beta = np.exp(rng.uniform(np.log(0.05), 0.0, size.mdps))
    log_pi = _fixed_point(mdp, beta)
    ends = (mdp.transition.sum(-1) < 1 - IDENTITY).any((-2, -1))
    return log_pi, log_pi - _floor(mdp, beta, ends)[:, None, None]


def _ending_or_not() -> tuple[float, float, float]:
    """One state, two actions that earn 1; the second ends the episode, and so earns less in all.

    Its log pi at the fixed point; the floor without counting 0 as a reward, and with it.
    """
    transition = np.array([[[1.0], [0.0]]])
    valid = np.ones((1, 2), bool)
    mdp = MDP(transition, np.ones((1, 2)), np.ones(1), np.asarray(0.95), valid)
    beta = np.asarray(0.5)
    log_pi = _fixed_point(mdp, beta)
    without, counted = (_floor(mdp, beta, np.asarray(ends)) for ends in (False, True))
    return float(log_pi[0, 1]), float(without), float(counted)


def _fixed_point(
    mdp: MDP, beta: Float[np.ndarray, "*batch"]
) -> Float[np.ndarray, "*batch states actions"]:
    """log pi where training with the per-state bonus ends: pi proportional to exp(Q / beta)."""
    scale = beta[..., None, None]
    log_pi = log_policy(np.zeros(mdp.reward.shape), None)
    for _ in range(3000):
        result = evaluate(mdp, log_pi)
        away = np.abs(log_pi - result.advantages / scale + entropy(log_pi)[..., None]).max()
        if away < 1e-11:
            return log_pi
        log_pi = log_policy(0.8 * log_pi + 0.2 * result.action_values / scale, None)
    raise ArithmeticError(f"an MDP is not at its fixed point: off by {away}")


def _floor(
    mdp: MDP, beta: Float[np.ndarray, "*batch"], ends: Bool[np.ndarray, "*batch"]
) -> Float[np.ndarray, "*batch"]:
    """The right-hand side of `floor`."""
    most, least = mdp.reward.max((-2, -1)), mdp.reward.min((-2, -1))
    most, least = np.where(ends, most.clip(0.0), most), np.where(ends, least.clip(max=0.0), least)
    return -(most - least) / (beta * (1.0 - mdp.discount)) - np.log(mdp.actions)
