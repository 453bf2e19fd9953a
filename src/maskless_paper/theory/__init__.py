"""The paper's theory, made executable: exact policy gradients for linear softmax policies.

problem = staircase_problem(alignment=0.8)            # Figure 1, before the ladder is seen
record = follow(problem, Training(steps=1000))        # exact gradient ascent
record.log_probability[-1]                            # log pi(descend | ladder)

mdp             small MDPs with features: random ones, and the paper's staircase
doors           corridors in which `open` is valid at the doors only
gradients       values, visitation and exact gradients
ascent          training by gradient ascent, and what becomes of one action's probability
statements/     every result of the paper, as printed and as corrected, with a check of each
finding         what a check found
report          `maskless theory`: the findings as a table, a file and figures
"""

from maskless_paper.theory.ascent import Iterate, Suppression, Training, ascend, follow
from maskless_paper.theory.doors import doors_bandit, winding_corridors
from maskless_paper.theory.finding import Finding, Size
from maskless_paper.theory.gradients import (
    Evaluation,
    complex_step_gradient,
    entropy,
    evaluate,
    gradient,
    log_policy,
    objective,
    policy_at,
    policy_at_rare,
)
from maskless_paper.theory.mdp import (
    MDP,
    Problem,
    aligned_features,
    mixed_problems,
    random_problems,
    staircase_mdp,
    staircase_problem,
    with_bias,
)
from maskless_paper.theory.statements import STATEMENTS, check_all

__all__ = [
    "MDP",
    "STATEMENTS",
    "Evaluation",
    "Finding",
    "Iterate",
    "Problem",
    "Size",
    "Suppression",
    "Training",
    "aligned_features",
    "ascend",
    "check_all",
    "complex_step_gradient",
    "doors_bandit",
    "entropy",
    "evaluate",
    "follow",
    "gradient",
    "log_policy",
    "mixed_problems",
    "objective",
    "policy_at",
    "policy_at_rare",
    "random_problems",
    "staircase_mdp",
    "staircase_problem",
    "winding_corridors",
    "with_bias",
]
