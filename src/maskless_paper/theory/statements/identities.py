"""The gradient of a softmax policy: Lemmas 1, 2 and 4 of the paper, and the value of a no-op."""

import numpy as np

from maskless_paper.theory.ascent import Training, ascend, follow
from maskless_paper.theory.finding import IDENTITY, ROUNDING, Finding, Size
from maskless_paper.theory.gradients import complex_step_gradient, evaluate, gradient, policy_at
from maskless_paper.theory.mdp import (
    mixed_problems,
    random_problems,
    staircase_mdp,
    staircase_problem,
)


def logit_gradient(size: Size) -> Finding:
    """The gradient of J with respect to w_a is E_{s ~ d}[pi(a|s) A(s,a) phi(s)].

    Proof: the derivative of log pi(b|s) by the logit z_a is 1{a = b} - pi(a|s). Weighted with
    pi(b|s) A(s,b) and summed over b this is pi(a|s) A(s,a), since sum_b pi A = 0. The policy
    gradient theorem weights states by d / (1 - gamma); the chain rule adds phi(s).

    Check: against derivatives of J by complex steps, at random parameters, which use no formula.
    """
    rng = size.rng()
    problem = mixed_problems(rng, size.mdps)
    theta = rng.normal(size=problem.zeros().shape)
    error = np.abs(gradient(problem, theta) - complex_step_gradient(problem, theta)).max()
    return Finding(
        claim="The gradient of w_a is E_d[pi(a|s) A(s,a) phi(s)]",
        paper="Lemmas 1 and 4 (updates)",
        printed=bool(error <= IDENTITY),
        corrected=None,
        evidence=f"largest error {error:.0e} on {size.mdps:,} MDPs"
        " (J normalised by 1 - gamma, like d)",
        numbers={"error": error},
    )


def zero_sum(size: Size) -> Finding:
    """Under SGD the logit updates sum to 0 in every state, so that sum_j exp(sigma_j) >= n.

    Proof: sum_a pi (A - beta (log pi + H)) = 0 in each state, for the exact update as for each
    sampled pair, and so sum_a Delta w_a = 0. Jensen's inequality gives the rest.

    Check: exact and sampled, with and without entropy, on random MDPs.
    """
    problem = mixed_problems(size.rng(), size.mdps)
    largest, least = 0.0, np.inf
    for training in (
        Training(20, rate=3.0),
        Training(20, rate=3.0, beta=0.1),
        Training(20, rate=3.0, beta=0.1, entropy="full"),
        Training(20, rate=3.0, beta=0.1, samples=16),
    ):
        for iterate in ascend(problem, training, size.rng()):
            after = iterate.theta + iterate.change
            sigma = np.einsum("...ad,...d->...a", after, problem.rare)
            largest = max(largest, float(np.abs(iterate.change.sum(-2)).max()))
            least = min(least, float(np.exp(sigma).sum(-1).min()))
    actions = problem.mdp.actions
    return Finding(
        claim="Logit updates sum to zero (SGD, exact or sampled, with or without entropy)",
        paper="Lemma 2 (zero-sum)",
        printed=largest <= IDENTITY and least >= actions * (1 - ROUNDING),
        corrected=None,
        evidence=f"largest sum {largest:.0e}; the sum of exp(sigma) is never below n = {actions}",
        numbers={"largest_sum": largest, "least_partition": least},
    )


def zero_sum_under_adam(size: Size) -> Finding:
    """Under Adam neither the sum nor the bound pi <= exp(sigma_a) / n survives.

    Adam divides each coordinate by its own scale. One action rises and n - 1 fall, all at the
    same speed, so that the sum goes down by about (n - 2) rates per step. Then Jensen gives
    sum_j exp(sigma_j) >= n exp(mean sigma) only, which is less than n (`theorem_under_adam`).

    Check: the corridor with 43 actions, exact gradients, 3,000 steps of Adam at 1e-3.
    """
    actions = 43
    problem = staircase_problem(mdp=staircase_mdp(actions=actions))
    record = follow(problem, Training(3000, rate=1e-3, optimizer="adam"))
    sigma = record.theta @ problem.rare
    excess = np.exp(record.log_probability[-1] - sigma[problem.action] + np.log(actions))
    return Finding(
        claim="... and so it does in PPO, which trains with Adam",
        paper="Lemma 2, used in Sec. 4",
        printed=bool(abs(sigma.sum()) <= ROUNDING and excess <= 1 + ROUNDING),
        corrected=None,
        evidence=f"the sum falls to {sigma.sum():.0f}; pi is {excess:.1f} x exp(sigma_a)/n",
        numbers={"sum": sigma.sum(), "excess": excess},
    )


def no_op_advantage(size: Size) -> Finding:
    """A no-op of reward r has the advantage r - (1 - gamma) V(s), whatever the policy.

    Proof: it stays in s, so Q(s,a) = r + gamma V(s); subtract V(s).

    So an invalid action without reward is pushed down exactly where V(s) > 0, and up where
    V(s) < 0. This is what the paper needs in place of its Lemma 3. The gap follows: with p the
    probability of all invalid actions, the best valid action is better by V (1 - gamma) / (1 - p)
    at least, since the valid ones have to bring the average up to V.

    Where time passes meanwhile (in Craftax, hunger and monsters go on), a is no such no-op: it is
    worth what waiting is worth, A(s,a) = r + gamma E V(s') - V(s), and V(s) > 0 does not tell its
    sign.

    Check: the first on random rewards of either sign, the second where V > 0; the share of states
    of `mixed_problems` with V > 0 in which an invalid action of no reward is better than average.
    """
    rng = size.rng()
    reward = rng.uniform(-1.0, 1.0, size.mdps)
    anything = random_problems(rng, size.mdps, rewards=(-1.0, 1.0), invalid=reward)
    theta = rng.normal(size=anything.zeros().shape)
    result = evaluate(anything.mdp, policy_at(anything, theta))
    less = (1.0 - anything.mdp.discount[:, None]) * result.values
    error = np.abs(result.advantages[..., anything.action] - (reward[:, None] - less)).max()

    problem = random_problems(rng, size.mdps)
    mdp, log_pi = problem.mdp, policy_at(problem, theta)
    result = evaluate(mdp, log_pi)
    less = (1.0 - mdp.discount[:, None]) * result.values
    invalid = np.where(mdp.valid, 0.0, np.exp(log_pi)).sum(-1)
    best = np.where(mdp.valid, result.action_values, -np.inf).max(-1)
    slack = best - result.action_values[..., problem.action] - less / (1.0 - invalid)
    holds = error <= IDENTITY and slack.min() >= -IDENTITY
    better = _waiting_is_better(size)
    return Finding(
        claim="A no-op has A(s,a) = r - (1 - gamma) V(s): without reward it falls where V(s) > 0",
        paper="not in it (replaces Lemma 3)",
        printed=bool(holds),
        corrected=None,
        evidence=f"largest error {error:.0e} on {size.mdps:,} MDPs;"
        f" the gap is never below V (1 - gamma)/(1 - p). Where time passes instead, A > 0 in"
        f" {better:.0%} of the states with V > 0",
        numbers={"error": error, "least_slack": slack.min(), "waiting_is_better": better},
    )


def _waiting_is_better(size: Size) -> float:
    """The share of states with V > 0 where an invalid action, in which time passes, has A > 0."""
    problem = mixed_problems(size.rng(), size.mixed)
    result = evaluate(problem.mdp, policy_at(problem, problem.zeros()))
    states = np.arange(problem.mdp.states)
    stays = problem.mdp.transition[:, states, problem.action, states] == 1.0
    unpaid = problem.mdp.reward[..., problem.action] == 0.0
    some = ~stays & unpaid & (result.values > 0)
    return float((result.advantages[..., problem.action] > 0)[some].mean())
