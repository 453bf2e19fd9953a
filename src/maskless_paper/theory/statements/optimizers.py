"""What samples and Adam leave of the theorem."""

import numpy as np

from maskless_paper.theory.ascent import Training, follow
from maskless_paper.theory.finding import ROUNDING, Finding, Size
from maskless_paper.theory.mdp import mixed_problems

STANDARD_ERRORS = 5.0
"""A mean that is 0 in theory may be this many of its standard errors away."""


def theorem_with_samples(size: Size) -> Finding:
    """Printed: the theorem is about policy gradients; PPO's come from samples, and with those
    pi_T(a|s*) <= e^-K_T / n fails. Corrected: with -A for |A| in K_T, under SGD,

        E[log pi_T(a|s*)] <= -E[K_T] - log n,

    and in every single run pi_T(a|s*) <= e^z / n, where z is the logit of a at s*.

    Proof: each sampled update sums to 0 over the actions, whatever the advantage is taken to be, so
    the second is Jensen's inequality as in `zero_sum`. Given theta, the mean of the sampled update
    is the exact one, so that z + K_T has mean 0 at all times (it is a martingale).

    Check: `mixed_problems` with 1 and with 16 state-action pairs per update: the second exactly,
    the mean of z + K_T within 5 standard errors of 0.
    """
    problem = mixed_problems(size.rng(), size.mixed)
    uniform = np.log(problem.mdp.actions)
    missed, single, drift = {}, -np.inf, 0.0
    for samples in (1, 16):
        record = follow(problem, Training(100, rate=3.0, samples=samples), size.rng())
        inside = record.largest_advantage <= 0
        excess = (record.log_probability + record.defined + uniform).max(0)[inside]
        missed[samples] = float((excess > ROUNDING).mean())
        single = max(single, float((record.log_probability + record.fallen + uniform).max()))
        away = (record.corrected - record.fallen)[-1]
        drift = max(drift, float(abs(away.mean()) / (away.std() / np.sqrt(len(away)))))
    return Finding(
        claim="... also with sampled gradients, as in PPO",
        correction="On average: E[log pi_T] <= -E[K_T] - log n; in each run pi_T <= e^z / n",
        paper="Theorem 1, used in Sec. 6",
        printed=max(missed.values()) == 0.0,
        corrected=single <= ROUNDING and drift <= STANDARD_ERRORS,
        evidence=f"A <= 0 throughout, yet e^-K_T / n is missed at some time in {missed[1]:.0%} of"
        f" the runs with 1 sample per update, {missed[16]:.0%} with 16. E[z + K_T] is 0 within"
        f" {drift:.1f} standard errors; e^z / n is never missed on {size.mixed:,} MDPs",
        numbers={
            "missed_1": missed[1],
            "missed_16": missed[16],
            "single_log_excess": single,
            "drift": drift,
        },
    )


def theorem_under_adam(size: Size) -> Finding:
    """Printed: the theorem, for PPO, which trains with Adam. Corrected: K_T has no part in it. What
    holds for any optimizer, any samples and any rewards is

        pi_T(a|s*) <= e^(z_a - z) / n,    z the mean of all logits at s*.

    Proof: Jensen's inequality, sum_j e^z_j >= n e^z. SGD keeps z = 0 (`zero_sum`) and z_a = -K_T.
    Adam keeps neither: it divides each coordinate by its own scale, so that n - 1 falling actions
    pull the mean down with them (`zero_sum_under_adam`).

    Check: `mixed_problems`, exact gradients, 300 steps of Adam at 1e-2.
    """
    problem = mixed_problems(size.rng(), size.mixed)
    uniform = np.log(problem.mdp.actions)
    record = follow(problem, Training(300, rate=1e-2, optimizer="adam"))
    inside = record.largest_advantage <= 0
    excess = (record.log_probability + record.defined + uniform).max(0)[inside]
    centred = float((record.log_probability + record.fallen + uniform).max())
    missed, factor = float((excess > ROUNDING).mean()), float(np.exp(excess.max()))
    return Finding(
        claim="... also under Adam",
        correction="pi_T <= e^(z_a - mean z) / n: only the fall below the mean logit counts",
        paper="Theorem 1, used in Sec. 6",
        printed=missed == 0.0,
        corrected=centred <= ROUNDING,
        evidence=f"A <= 0 throughout, yet e^-K_T / n is missed in {missed:.0%} of {inside.sum():,}"
        f" MDPs, by a factor of up to {factor:.1f}; e^(z_a - mean z) / n never on {size.mixed:,}",
        numbers={"missed": missed, "factor": factor, "centred_log_excess": centred},
    )
