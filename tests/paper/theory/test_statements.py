"""The statements: each verdict, each margin, and that the checks can fail; and the command and its
files, here because to check all statements takes half a minute."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import maskless_paper.theory
from maskless import MasklessError
from maskless.cli.theory import Theory
from maskless_paper import study_files
from maskless_paper.tables import theory
from maskless_paper.theory import (
    STATEMENTS,
    Finding,
    Size,
    Training,
    follow,
    mixed_problems,
    random_problems,
    staircase_problem,
)
from maskless_paper.theory.report import draw_theory, print_theory, save_theory

ROOT = Path(__file__).parents[3]
VERDICTS = {
    "logit_gradient": "holds",
    "zero_sum": "holds",
    "zero_sum_under_adam": "false as printed",
    "dominance_gap": "holds after correction",
    "no_op_advantage": "holds",
    "dominance_condition": "holds after correction",
    "theorem": "holds after correction",
    "theorem_with_samples": "holds after correction",
    "theorem_under_adam": "holds after correction",
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
    "mask_removal": "holds",
}


def test_every_verdict(findings):
    assert {name: finding.verdict for name, finding in findings.items()} == VERDICTS
    assert list(VERDICTS) == list(STATEMENTS)
    for name, finding in findings.items():
        assert bool(finding.correction) == (finding.corrected is not None), name
        assert "Proof" in STATEMENTS[name].__doc__ or finding.corrected is None, name


def test_the_committed_numbers_are_found_again(findings):
    """What docs/theory.md quotes from results/studies/theory.json, to rounding and sampling."""
    committed = json.loads((ROOT / "results/studies/theory.json").read_text())
    assert committed["mdps"] == 1000
    for name, finding in findings.items():
        there = committed["statements"][name]
        assert there["verdict"] == finding.verdict, name
        assert there["numbers"] == pytest.approx(finding.numbers, rel=1e-3, abs=1e-9), name


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("logit_gradient", "error"),
        ("zero_sum", "largest_sum"),
        ("no_op_advantage", "error"),
        ("transfer", "error"),
        ("transfer", "pairwise_error"),
        ("mask_removal", "formula_error"),
        ("mask_removal", "price_error"),
        ("entropy_gradient", "error"),
        ("regularised_objective", "error_full"),
        ("masked_gradient", "gradient"),
        ("masked_gradient", "moved"),
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
        ("theorem", "inside", 500, 700),
        ("theorem", "positive_values_share", 0.05, 0.2),
        ("theorem", "positive_values_broken", 0.3, 0.7),
        ("theorem_with_samples", "missed_1", 0.5, 1),
        ("theorem_with_samples", "drift", 0, 4),
        ("theorem_under_adam", "missed", 0.1, 0.5),
        ("theorem_under_adam", "factor", 2, 10),
        ("no_op_advantage", "waiting_is_better", 0.02, 0.5),
        ("transfer", "passed_0.4", 0.3, 0.5),
        ("transfer", "passed_0.8", 0.7, 0.9),
        ("transfer", "offset_passed_0.4", 0.8, 1),
        ("unvisited", "visitation", 1e-6, 1e-2),
        ("unvisited", "sampled_dip", 1e-4, 0.02),
        ("alignment_sign", "opposite", 1.02, 2),
        ("alignment_sign", "orthogonal", 1 - 1e-12, 1 + 1e-12),
        ("alignment_sign", "aligned", 0, 0.01),
        ("alignment_sign", "adam_largest", 0, 1),
        ("output_bias", "biased", 0, 0.002),
        ("output_bias", "without", 1 / 6 - 1e-12, 1 / 6 + 1e-12),
        ("decay_law", "slope_1.0", -1.05, -0.95),
        ("decay_law", "slope_0.3", -0.80, -0.70),
        ("decay_law", "least_power_r2", 0.999, 1),
        ("decay_law", "largest_exponential_r2", 0, 0.85),
        ("decay_law", "early_exponential_r2", 0.98, 1),
        ("decay_law", "early_power_r2", 0, 0.92),
        ("decay_law", "adam_exponential_r2", 0.99, 1),
        ("decay_law", "adam_power_r2", 0, 0.9),
        ("tightness", "ratio_3", 10, 1e3),
        ("tightness", "ratio_43", 100, 1e4),
        ("tightness", "share_6", 0.15, 0.25),
        ("tightness", "share_43", 0.02, 0.05),
        ("regularised_objective", "median_off", 0.05, 0.3),
        ("entropy_rate", "log_excess_defined", 10, 1e3),
        ("entropy_rate", "log_excess_printed", 10, 1e3),
        ("entropy_rate", "corrected_0.05", 0.0, 1.0),
        ("floor", "visited_4", -2.35, -2.33),
        ("floor", "scaled_10", -50.1, -49.9),
        ("floor", "beyond_10", -29, -28),
        ("floor", "ended", -38.1, -37.9),
        ("floor", "ended_floor_without_zero", -0.7, -0.69),
        ("soft_mask", "added_25", 0.9, 1),
        ("soft_mask", "replaced_-25", 0.9, 1),
        ("decoupling", "goes_on_last", 0, 0.05),
        ("decoupling", "ends_last", 0.95, 1),
        ("decoupling", "sampled_largest", 0, 1 + 1e-9),
        ("decoupling", "adam_above", 0.3, 0.6),
        ("decoupling", "adam_largest", 1.5, 2.5),
        ("mask_removal", "bandits_least_drop", 0.001, 0.1),
        ("mask_removal", "corridors_that_fall", 0.95, 1),
        ("mask_removal", "kept_0.0", 0.95, 1),
        ("mask_removal", "kept_0.8", 0.2, 0.6),
        ("mask_removal", "priced_0.8", -0.2, 0.2),
        ("mask_removal", "adam_0.8", 0, 0.85),
        ("mask_removal", "ladder_invalid", 0.03, 0.1),
    ],
)
def test_margins(findings, statement, number, least, most):
    assert least <= findings[statement].numbers[number] <= most


def test_another_seed_gives_the_same_verdicts():
    for name in (
        *("zero_sum", "no_op_advantage", "dominance_gap", "theorem", "theorem_with_samples"),
        *("theorem_under_adam", "transfer", "floor", "masked_gradient"),
    ):
        assert STATEMENTS[name](Size(seed=77, mdps=200)).verdict == VERDICTS[name]


def test_few_random_mdps_are_enough_for_the_verdicts():
    for name in (
        *("no_op_advantage", "theorem", "theorem_with_samples", "theorem_under_adam", "floor"),
        *("alignment_sign", "output_bias", "transfer", "masked_gradient"),
    ):
        assert STATEMENTS[name](Size(mdps=1)).verdict == VERDICTS[name], name


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


def test_mixed_problems_end_pay_and_pass_time():
    problem = mixed_problems(np.random.default_rng(3), 400)
    mdp, action = problem.mdp, problem.action
    going_on = mdp.transition.sum(-1)
    ends = (going_on < 1 - 1e-12).any((1, 2))
    pays = (mdp.reward[..., action] != 0).any(-1)
    stays = mdp.transition[:, np.arange(5), action, np.arange(5)] == 1.0
    for share in (ends.mean(), pays.mean(), stays.all(-1).mean()):
        assert 0.35 < share < 0.65
    assert (stays.all(-1) | ~stays.any(-1)).all()
    np.testing.assert_allclose(going_on[~mdp.valid], 1.0)  # an invalid action ends nothing
    waiting = np.where(mdp.valid[..., None], np.nan, mdp.transition)
    passes = ~stays.all(-1)
    spread = np.nanmax(waiting[passes], -2) - np.nanmin(waiting[passes], -2)
    assert spread.max() == 0.0  # all invalid actions of a state lead where waiting leads


# The command and its files.


def test_files_and_figures_can_be_redrawn_from_the_json(findings, tmp_path):
    written = save_theory(findings, tmp_path, {"seed": 0})
    assert all(path.stat().st_size > 0 for path in written)
    content = json.loads((tmp_path / "theory.json").read_text())
    assert content["provenance"] == {"seed": 0}
    assert content["statements"]["theorem"]["verdict"] == "holds after correction"
    again = tmp_path / "again"
    again.mkdir()
    draw_theory(content["statements"], again)
    for path in again.glob("*.svg"):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_the_table_names_every_statement(findings):
    console = Console(file=io.StringIO(), width=120)
    print_theory(findings, console)
    text = console.file.getvalue()
    assert "Lemma 3" in text
    assert "6 holds, 14 holds after correction, 3 false as printed" in text


@pytest.mark.parametrize(
    ("printed", "corrected", "verdict"),
    [
        (True, None, "holds"),
        (False, None, "false as printed"),
        (False, True, "holds after correction"),
        (False, False, "correction fails"),
    ],
)
def test_a_verdict_follows_from_what_was_found(printed, corrected, verdict):
    finding = Finding("claim", "here", printed, corrected, "evidence", {})
    assert finding.verdict == verdict


def test_the_command_stops_with_an_error_when_a_correction_fails(findings, tmp_path, monkeypatch):
    failing = Finding("claim", "here", False, False, "evidence", {})
    monkeypatch.setattr(maskless_paper.theory.report, "draw_theory", lambda *arguments: [])
    monkeypatch.setattr(
        maskless_paper.theory, "check_all", lambda size, progress: findings | {"theorem": failing}
    )
    with pytest.raises(SystemExit, match="1"):
        Theory(out=tmp_path).run()
    assert (tmp_path / "theory.json").exists()


def test_the_experiment_is_what_the_command_checks(findings, tmp_path, monkeypatch):
    sizes, said = [], []

    def check_all(size, progress):
        sizes.append(size.mdps)
        return findings

    monkeypatch.setattr(theory, "check_all", check_all)
    (result,) = theory.compute("smoke", said.append).values()
    assert sizes == [10] == [result["mdps"]]
    assert said == ["theory: 23 statements checked."]
    study_files.write_result(tmp_path / "theory.json", result)
    (table,) = theory.tables(study_files.read_studies(tmp_path))
    assert [row[2] for row in table.rows] == [one.verdict for one in findings.values()]


def test_nothing_to_check_is_refused(tmp_path):
    with pytest.raises(MasklessError, match="mdps"):
        Theory(out=tmp_path, mdps=0).run()
