"""Every statement of the paper's theory that can be checked, in the paper's order.

Each is a function whose docstring gives the statement and a sketch of its proof, and which returns
what a numerical check found: `check_all`, or one by one.
"""

from collections.abc import Callable

from maskless_paper.theory.finding import Finding, Size, Statement
from maskless_paper.theory.statements import (
    decay,
    entropy,
    identities,
    mask_removal,
    masking,
    optimizers,
    suppression,
    transfer,
)

STATEMENTS: dict[str, Statement] = {
    function.__name__: function
    for function in (
        identities.logit_gradient,
        identities.zero_sum,
        identities.zero_sum_under_adam,
        suppression.dominance_gap,
        identities.no_op_advantage,
        suppression.dominance_condition,
        suppression.theorem,
        optimizers.theorem_with_samples,
        optimizers.theorem_under_adam,
        suppression.unvisited,
        suppression.alignment_sign,
        suppression.output_bias,
        transfer.transfer,
        decay.decay_law,
        decay.tightness,
        entropy.entropy_gradient,
        entropy.regularised_objective,
        entropy.entropy_rate,
        entropy.floor,
        masking.masked_gradient,
        masking.soft_mask,
        masking.decoupling,
        mask_removal.mask_removal,
    )
}


def check_all(
    size: Size, progress: Callable[[int, str], None] = lambda done, name: None
) -> dict[str, Finding]:
    """Checks every statement; `progress` is called with the number done and the last name."""
    findings = {}
    for number, (name, statement) in enumerate(STATEMENTS.items(), start=1):
        findings[name] = statement(size)
        progress(number, name)
    return findings
