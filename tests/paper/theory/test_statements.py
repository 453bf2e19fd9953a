"""The statements: each verdict, each margin, and that the checks can fail."""

import numpy as np
import pytest

from maskless_paper.theory import (
    STATEMENTS,
    Size,
    Training,
    follow,
    random_problems,
    staircase_problem,
)

VERDICTS = {
    "logit_gradient": "holds",
    "zero_sum": "holds",
    "zero_sum_under_adam": "false as printed",
    "dominance_gap": "holds after correction",
    "no_op_advantage": "holds",
    "dominance_condition": "holds after correction",
    "theorem": "holds after correction",
    "unvisited": "false as printed",
    "alignment_sign": "holds after correction",
    "output_bias": "holds after correction",
    "transfer": "holds after correction",
    "decay_law": "holds after correction",
    "tightness": "false as printed",
    "entropy_gradient": "holds",
    "regularised_objective": "holds after correction",
    "entropy_rate": "holds after correction",
    "floor": "holds after correction",
    "masked_gradient": "holds",
    "soft_mask": "holds after correction",
    "decoupling": "holds after correction",
}


def test_every_verdict(findings):
    assert {name: finding.verdict for name, finding in findings.items()} == VERDICTS
    assert list(VERDICTS) == list(STATEMENTS)
    for name, finding in findings.items():
        assert bool(finding.correction) == (finding.corrected is not None), name
        assert "Proof" in STATEMENTS[name].__doc__ or finding.corrected is None, name


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("logit_gradient", "error"),
        ("zero_sum", "largest_sum"),
        ("no_op_advantage", "error"),
        ("transfer", "error"),
        ("entropy_gradient", "error"),
        ("regularised_objective", "error_full"),
        ("masked_gradient", "gradient"),
    ],
)
def test_identities_hold_to_rounding(findings, statement, number):
    assert findings[statement].numbers[number] <= 1e-12


@pytest.mark.parametrize(
    ("statement", "number", "least", "most"),
    [
        # counterexamples, by a clear margin
        ("zero_sum_under_adam", "sum", -120, -50),
        ("zero_sum_under_adam", "excess", 2.5, 10),
        ("dominance_gap", "advantage", 0.48, 0.49),
        ("dominance_gap", "allowed", -0.50, -0.49),
        ("dominance_gap", "violated_share", 0.999, 1),
        ("dominance_gap", "positive_share", 0.35, 0.40),
        ("dominance_condition", "sparse", 1 - 1e-12, 1 + 1e-12),
        ("dominance_condition", "step_cost", 1.2, 2),
        ("dominance_condition", "penalty", 0, 0.2),
        ("dominance_condition", "pushed_down_share", 0.2, 0.8),
        ("theorem", "pit_excess", 1.3, 2),
        ("theorem", "pit_rise", 1.05, 2),
        ("theorem", "pit_least_gap", 0.01, 1),
        ("theorem", "pit_least_rate", 1e-6, 1),
        ("theorem", "pit_least_value", -100, -1),
        ("theorem", "random_least_value", 1e-3, 1),
        ("unvisited", "visitation", 1e-6, 1e-2),
        ("unvisited", "sampled_dip", 1e-4, 0.02),
        ("alignment_sign", "opposite", 1.02, 2),
        ("alignment_sign", "orthogonal", 1 - 1e-12, 1 + 1e-12),
        ("alignment_sign", "aligned", 0, 0.01),
        ("output_bias", "biased", 0, 0.002),
        ("output_bias", "without", 1 / 6 - 1e-12, 1 / 6 + 1e-12),
        ("decay_law", "slope_1.0", -1.05, -0.95),
        ("decay_law", "slope_0.3", -0.80, -0.70),
        ("decay_law", "least_power_r2", 0.999, 1),
        ("decay_law", "largest_exponential_r2", 0, 0.85),
        ("tightness", "ratio_3", 10, 1e3),
        ("tightness", "ratio_43", 100, 1e4),
        ("tightness", "share_6", 0.15, 0.25),
        ("tightness", "share_43", 0.02, 0.05),
        ("regularised_objective", "largest_off", 0.1, 1),
        ("entropy_rate", "log_excess_defined", 10, 1e3),
        ("entropy_rate", "log_excess_printed", 10, 1e3),
        ("entropy_rate", "corrected_0.05", 0.0, 1.0),
        ("floor", "visited_4", -2.35, -2.33),
        ("floor", "scaled_10", -50.1, -49.9),
        ("floor", "beyond_10", -29, -28),
        ("soft_mask", "added_25", 0.9, 1),
        ("soft_mask", "replaced_-25", 0.9, 1),
        ("decoupling", "goes_on_last", 0, 0.05),
        ("decoupling", "ends_last", 0.95, 1),
    ],
)
def test_margins(findings, statement, number, least, most):
    assert least <= findings[statement].numbers[number] <= most


def test_another_seed_gives_the_same_verdicts():
    for name in ("zero_sum", "no_op_advantage", "dominance_gap", "theorem", "floor"):
        assert STATEMENTS[name](Size(seed=77, mdps=200)).verdict == VERDICTS[name]


def test_the_bound_of_the_theorem_does_fail_where_values_are_negative():
    problem = random_problems(np.random.default_rng(1), 200, rewards=(-1.0, 0.0))
    record = follow(problem, Training(100, rate=3.0))
    violated = (record.log_probability > record.log_bound(5) + 1e-9).any(0)
    assert record.least_value.max() < 0
    assert violated[100:].all()  # positive features: reinforced, not suppressed


def test_a_wrong_sign_of_the_entropy_term_is_noticed():
    record = follow(staircase_problem(), Training(2000, beta=0.2))
    assert (record.log_probability + record.corrected + np.log(6)).max() <= 1e-9
    assert (record.log_probability + record.printed + np.log(6)).max() > 1
