"""Lemma 3 and Theorem 1 without entropy: when a rare action is suppressed, and what bounds it."""

import dataclasses

import numpy as np

from maskless.envs.staircase import DESCEND
from maskless_paper.theory.ascent import Training, follow
from maskless_paper.theory.finding import ROUNDING, Finding, Size
from maskless_paper.theory.gradients import evaluate, log_policy, logit_updates, policy_at
from maskless_paper.theory.mdp import (
    Problem,
    aligned_features,
    mixed_problems,
    random_problems,
    staircase_mdp,
    staircase_problem,
    with_bias,
)


def dominance_gap(size: Size) -> Finding:
    """Printed: if the best valid action beats a by delta > 0, then A(s,a) <= -delta (1 - pi(a|s)).

    The proof replaces Q(a') by the larger Q(b*) in V, which makes V larger and A smaller: the
    inequality is reversed. What holds: with gap = max_b Q(s,b) - Q(s,a),

        A(s,a) >= -(1 - pi(a|s)) gap.

    Proof: V <= pi(a) Q(a) + (1 - pi(a)) (Q(a) + gap). No margin makes A negative: only V does.

    Check: one counterexample, and random values and policies with a margin (100 times as many as
    MDPs elsewhere; each is a bandit).
    """
    q, pi = np.array([1.0, 0.0, 0.5]), np.array([0.01, 0.98, 0.01])  # the last one is invalid
    advantage, allowed = q[2] - pi @ q, -(q[0] - q[2]) * (1 - pi[2])
    rng = size.rng()
    values = rng.random((100 * size.mdps, 5))
    policies = rng.dirichlet(np.ones(5), 100 * size.mdps)
    gap = values[:, :-1].max(-1) - values[:, -1]
    some = gap > 0
    found = (values[:, -1] - (values * policies).sum(-1))[some]
    bound = (-(1 - policies[:, -1]) * gap)[some]
    return Finding(
        claim="A margin delta > 0 makes A(s,a) <= -delta (1 - pi(a|s))",
        correction="A(s,a) >= -gap (1 - pi(a|s)): a margin says nothing about the sign of A",
        paper="Lemma 3 (dominance gap)",
        printed=bool(advantage <= allowed and (found <= bound).all()),
        corrected=bool((found >= bound - ROUNDING).all()),
        evidence=f"counterexample: A = +{advantage:.3f}, the lemma says <= {allowed:.3f};"
        f" on {len(found):,} random bandits it fails in {(found > bound).mean():.0%}, A > 0 in"
        f" {(found > 0).mean():.0%}; the reversed inequality never fails",
        numbers={
            "advantage": advantage,
            "allowed": allowed,
            "violated_share": (found > bound).mean(),
            "positive_share": (found > 0).mean(),
            "least_slack_reversed": (found - bound).min(),
        },
    )


def theorem(size: Size) -> Finding:
    """Printed: if (i) a valid action beats a by a margin and (ii) kappa > 0, then
    pi_T(a|s*) <= e^-K_T / n. Corrected: replace (i) by A(s,a) <= 0 at the visited states. Without
    any condition it holds with -A in place of |A| in K_T. Exact gradients and SGD only; for the
    rest see `theorem_with_samples` and `theorem_under_adam`.

    Proof: by `logit_gradient` the logit of a at s* changes by eta phi(s*) . E_d[pi A phi] in each
    step, which is -kappa where A <= 0; the rest is `zero_sum` and Jensen. When is A <= 0? For a
    no-op of reward r where r <= (1 - gamma) V(s) (`no_op_advantage`); where time passes, where
    waiting is no better than what the policy does. V > 0 is enough for a no-op without reward only.

    Check: `mixed_problems`, with rewards for invalid actions, ends, and time that passes; those
    of them that satisfy (i), (ii) and V > 0 throughout, but not A <= 0. Counterexample to the
    printed one: a corridor with a valid action that ends in a pit, where V < 0 at first.
    """
    mixed = mixed_problems(size.rng(), size.mixed)
    record = follow(mixed, Training(200, rate=3.0))
    excess = (record.log_probability - record.log_bound(mixed.mdp.actions)).max(0)
    signed = (record.log_probability + record.corrected + np.log(mixed.mdp.actions)).max()
    inside = record.largest_advantage <= 0
    as_printed = (record.least_gap > 0) & (record.least_rate > 0) & (record.least_value > 0)
    outside = as_printed & ~inside
    broken = (excess[outside] > ROUNDING).mean() if outside.any() else 0.0
    pit_problem = staircase_problem(mdp=staircase_mdp(pit=-20.0))
    pit = follow(pit_problem, Training(500, rate=2.0))
    pit_excess = np.exp((pit.log_probability - pit.log_bound(6)).max())
    conditions = pit.least_gap > 0 and pit.least_rate > 0
    rise = 6 * np.exp(pit.log_probability.max())
    return Finding(
        claim="Under (i) and (ii), pi_T(a|s*) <= e^-K_T / n",
        correction="It holds under A(s,a) <= 0 at the visited states (a no-op: r <= (1-gamma) V);"
        " with -A for |A|, always. Exact gradients, SGD",
        paper="Theorem 1, beta = 0",
        printed=not (conditions and pit_excess > 1 + ROUNDING),
        corrected=bool(excess[inside].max() <= ROUNDING and signed <= ROUNDING),
        evidence=f"a pit (V < 0 at first; gap >= {pit.least_gap:.2f}, kappa > 0): pi rises to"
        f" {rise:.2f}/n and is up to {pit_excess:.2f} x the bound. Where invalid actions pay or"
        f" time passes, (i), (ii) and V > 0 do not save it: {broken:.0%} of {outside.sum()} MDPs."
        f" A <= 0: no violation on {inside.sum():,}; -A for |A|: none on {size.mixed:,}",
        numbers={
            "pit_excess": pit_excess,
            "pit_rise": rise,
            "pit_least_gap": float(pit.least_gap),
            "pit_least_rate": float(pit.least_rate),
            "pit_least_value": float(pit.least_value),
            "inside": inside.sum(),
            "inside_log_excess": excess[inside].max(),
            "signed_log_excess": signed,
            "positive_values_share": outside.mean(),
            "positive_values_broken": broken,
        },
    )


def dominance_condition(size: Size) -> Finding:
    """Printed: invalid actions are strictly worse than a valid one "in every case", so (i) holds.

    Corrected: an invalid no-op of reward r is pushed down in s exactly where r < (1 - gamma) V(s).

    Proof: `no_op_advantage`. So with a reward that nobody has reached yet nothing happens; where
    moving costs and doing nothing is free, the invalid action is reinforced; a penalty on invalid
    actions alone suppresses it.

    Check: the corridor with these three rewards; the direction of the update on random MDPs with
    rewards of either sign.
    """
    outcomes = {}
    for name, mdp in {
        "sparse": staircase_mdp(progress=0.0),
        "step_cost": staircase_mdp(progress=0.0, step=-0.03),
        "penalty": staircase_mdp(progress=0.0, invalid=-0.01),
    }.items():
        record = follow(staircase_problem(mdp=mdp), Training(5000))
        outcomes[name] = float(6 * np.exp(record.log_probability[-1]))
    rng = size.rng()
    reward = rng.uniform(-0.2, 0.2, size.mdps)
    problem = random_problems(rng, size.mdps, rewards=(-1.0, 1.0), invalid=reward)
    log_pi = policy_at(problem, rng.normal(size=problem.zeros().shape))
    result = evaluate(problem.mdp, log_pi)
    update = logit_updates(problem.mdp, log_pi, result)[..., problem.action]
    below = reward[:, None] < (1 - problem.mdp.discount[:, None]) * result.values
    return Finding(
        claim="Invalid actions are always dominated, whatever the reward",
        correction="An invalid no-op of reward r falls exactly where r < (1 - gamma) V(s)",
        paper="Sec. 3, condition (i)",
        printed=all(value < 1 for value in outcomes.values()),
        corrected=bool(((update < 0) == below).all()),
        evidence="pi(descend|s*) x n after 5,000 steps: reward never reached"
        f" {outcomes['sparse']:.2f}, moving costs 0.03 {outcomes['step_cost']:.2f},"
        f" only invalid actions cost 0.01 {outcomes['penalty']:.2f}. Pushed down exactly where"
        f" r < (1 - gamma) V: in all states of {size.mdps:,} MDPs ({below.mean():.0%} are)",
        numbers={**outcomes, "pushed_down_share": below.mean()},
    )


def alignment_sign(size: Size) -> Finding:
    """Printed: suppression whenever phi(s*) is "not orthogonal" to the visited features.
    Corrected: whenever its inner product with all of them is positive, given A(s,a) < 0 there.

    Proof: kappa = eta sum_s d(s) pi |A| phi(s*) . phi(s), a sum of positive terms; pi <= e^-K / n.
    Exact gradients and SGD. By samples log pi < -log n on average (`theorem_with_samples`). Under
    Adam we know no proof; it is checked only.

    Check: the corridor with the shared part of phi(s*) turned round; random positive features.
    """
    corridor = follow(staircase_problem(np.array([-0.8, 0.0, 0.8])), Training(5000))
    opposite, orthogonal, aligned = (6 * np.exp(corridor.log_probability[-1])).tolist()
    random = mixed_problems(size.rng(), 2 * size.mixed)  # the second half is positive
    record = follow(random, Training(100, rate=3.0))
    inside = (record.largest_advantage < 0) & (np.arange(2 * size.mixed) >= size.mixed)
    rates = record.least_rate[inside]
    probabilities = random.mdp.actions * np.exp(record.log_probability[-1, inside])
    adam = follow(random, Training(100, rate=1e-2, optimizer="adam"))
    under_adam = (adam.largest_advantage < 0) & (np.arange(2 * size.mixed) >= size.mixed)
    adam_largest = random.mdp.actions * np.exp(adam.log_probability[-1, under_adam].max())
    return Finding(
        claim="phi(s*) not orthogonal to the visited features is enough for suppression",
        correction="Positive inner products are, where A(s,a) < 0",
        paper="Sec. 4; appendix, Proposition",
        printed=opposite < 1,
        corrected=bool(rates.min() > 0 and probabilities.max() < 1),
        evidence=f"pi x n: alignment -0.8 {opposite:.2f}, 0 {orthogonal:.2f}, 0.8 {aligned:.3f}."
        f" Positive inner products, A < 0: suppressed on all of {inside.sum():,} MDPs"
        f" (Adam: too, at most {adam_largest:.2f}/n; not proven)",
        numbers={
            "opposite": opposite,
            "orthogonal": orthogonal,
            "aligned": aligned,
            "random_least_rate": rates.min(),
            "random_largest": probabilities.max(),
            "adam_largest": adam_largest,
        },
    )


def output_bias(size: Size) -> Finding:
    """Printed: features that isolate s* protect it. Corrected: with an output bias they do not;
    condition (ii) has to be measured on [phi, 1].

    Proof: a bias is a feature that is 1 in every state, so that every inner product of [phi, 1]
    is larger by 1 than that of phi; then `alignment_sign`.

    Check: orthogonal features, with and without a bias, in the corridor and in random MDPs.
    """
    without = follow(staircase_problem(0.0), Training(5000)).log_probability[-1]
    biased = follow(staircase_problem(0.0, bias=True), Training(5000)).log_probability[-1]
    random = mixed_problems(size.rng(), size.mixed)
    seen = with_bias(np.eye(random.mdp.states + 1))
    isolated = dataclasses.replace(random, features=seen[:-1], rare=seen[-1])
    record = follow(isolated, Training(100, rate=3.0))
    inside = record.largest_advantage < 0
    probabilities = random.mdp.actions * np.exp(record.log_probability[-1, inside])
    return Finding(
        claim="Features that isolate s* (orthogonal phi) prevent suppression",
        correction="Only without an output bias: what counts are the inner products of [phi, 1]",
        paper="Sec. 4, condition (ii)",
        printed=bool(np.exp(biased) * 6 >= 1 - ROUNDING),
        corrected=bool(record.least_rate[inside].min() > 0 and probabilities.max() < 1),
        evidence=f"orthogonal features with an output bias: pi falls from 1/6 to"
        f" {np.exp(biased):.1e}; without one it stays 1/6. With a bias and A < 0: suppressed on all"
        f" of {inside.sum():,} MDPs",
        numbers={
            "biased": np.exp(biased),
            "without": np.exp(without),
            "random_largest": probabilities.max(),
        },
    )


def unvisited(size: Size) -> Finding:
    """Printed: s* has d_pi(s*) = 0 until it is visited. But a softmax policy tries everything, so
    that every state that can be reached has d_pi(s*) > 0 at all times.

    "Unvisited" has to mean "not in the samples so far". With the exact gradient, which sees s*
    with its true weight, `descend` dips and comes back; the fewer samples, the deeper the dip.

    Check: a corridor with the ladder as one of its states and a goal of 5, exact gradients and
    64 runs with one sampled state-action pair per update.
    """
    length, runs = 16, 64
    mdp = staircase_mdp(length, ladder=True, goal=5.0)
    seen = aligned_features(length + 1, np.full(runs, 0.8))
    problem = Problem(mdp, seen, seen[:, -1], mdp.valid[-1], DESCEND)
    exact = follow(problem, Training(500)).log_probability[:, 0]
    sampled = follow(problem, Training(500, samples=1), size.rng()).log_probability
    uniform = log_policy(np.zeros(mdp.reward.shape), None)
    visitation = evaluate(mdp, uniform).visitation[-1]
    dip = int(exact.argmin())
    back = dip + int((exact[dip:] > np.log(1 / 6)).argmax())
    sampled_dip = float(np.median(np.exp(sampled.min(0))))
    return Finding(
        claim="Before it is visited, s* has d(s*) = 0",
        paper="Sec. 3",
        printed=bool(visitation == 0),
        corrected=None,
        evidence=f"d(s*) = {visitation:.1e} for the uniform policy. Exact gradients: pi dips to"
        f" {np.exp(exact[dip]):.3f} and is above 1/6 again after {back} steps; with one sample"
        f" per update it dips to {sampled_dip:.4f} (median)",
        numbers={
            "visitation": visitation,
            "dip": np.exp(exact[dip]),
            "recovered_after": back,
            "sampled_dip": sampled_dip,
        },
    )
