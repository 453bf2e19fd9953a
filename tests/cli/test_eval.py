"""`maskless eval` and `maskless.evaluate`, on a tiny training."""

import json
import math
import re

import numpy as np
import pytest

from maskless.cli.eval import Eval
from maskless.errors import MasklessError
from maskless.evaluation.summary import (
    bootstrap_interval,
    evaluate,
    read_evaluation,
    standard_error,
)
from maskless.report.evaluation import evaluation_table, headlines


@pytest.fixture(scope="module")
def evaluated(training):
    """All runs under all masks, played once."""
    evaluation = evaluate(training, episodes=20, num_envs=8, seed=1)
    evaluation.save()
    return evaluation


def test_all_runs_play_complete_episodes_under_all_masks(evaluated):
    assert [(run.condition, run.seed) for run in evaluated.runs] == [
        ("unmasked", 0),
        ("unmasked", 1),
        ("masked-focal", 0),
        ("masked-focal", 1),
    ]
    for run in evaluated.runs:
        for masks, found in run.masks.items():
            assert found.episodes == 24  # 20, rounded up to fill 8 environments
            assert 1 <= found.length <= 8
            assert found.low <= found.mean_return <= found.high
            assert masks != "oracle" or found.invalid_share == found.changed_share == 0
            assert found.success_rate == found.achievements  # the one achievement is the goal
    assert evaluated.runs[0].masks["none"].invalid_share > 0.1


def test_predicted_without_a_classifier_is_none_and_the_untrained_head_is_beside_it(evaluated):
    unmasked, focal = evaluated.runs[0].masks, evaluated.runs[2].masks
    assert list(unmasked) == ["oracle", "predicted", "none", "untrained"]
    assert unmasked["predicted"] == unmasked["none"] != unmasked["untrained"]
    assert list(focal) == ["oracle", "predicted", "none"]
    assert focal["predicted"] != focal["none"]


def test_a_run_alone_gets_the_numbers_it_has_among_the_others(training, evaluated, capsys):
    folder = training / "masked-focal" / "seed-1"
    before = json.loads((folder / "evaluation.json").read_text())
    Eval(folder, masks=("predicted",), episodes=20, envs=8, seed=1).run()
    printed = capsys.readouterr().out
    after = json.loads((folder / "evaluation.json").read_text())
    assert after["runs"][0]["masks"].keys() == {"predicted"}
    one, many = (x["runs"][0]["masks"]["predicted"] for x in (after, before))
    assert one["mean_return"] == pytest.approx(many["mean_return"], rel=1e-5)
    assert one["changed_share"] == pytest.approx(many["changed_share"], abs=0.02)
    assert re.search(r"masked-focal +predicted +-?[\d.]+ ± [\d.]+", printed)
    assert "24 complete episodes" in printed
    evaluated.save()


def test_what_is_saved_can_be_read_back(training, evaluated):
    assert read_evaluation(training).to_json() == evaluated.to_json()
    written = json.loads((training / "evaluation.json").read_text())
    assert written["provenance"]["versions"]["jax"]
    assert written["conditions"]["unmasked"]["oracle"]["seeds"] == 2
    alone = read_evaluation(training / "unmasked" / "seed-1")
    assert [run.masks for run in alone.runs] == [evaluated.runs[1].masks]
    assert read_evaluation(training / "nowhere") is None


def test_seeds_are_summed_up_as_their_mean_and_range(evaluated):
    means = [run.masks["none"].mean_return for run in evaluated.runs[:2]]
    spread = evaluated.spreads["unmasked"]["none"]
    assert spread.mean == pytest.approx(sum(means) / 2)
    assert spread.deviation == pytest.approx(abs(means[0] - means[1]) / math.sqrt(2))
    assert (spread.lowest, spread.highest) == (min(means), max(means))
    table = evaluation_table(evaluated.runs, evaluated.achievement_names)
    row = next(row for row in table.rows if row[1] == "none")
    assert row[2] == f"{spread.mean:.2f} ± {spread.deviation:.2f}"
    assert [row[0] for row in table.rows] == ["unmasked", "", "", "", "masked-focal", "", ""]
    assert table.notes[0] == "Means over 2 seeds of each condition."
    assert table.has_untrained
    kept = headlines(evaluated.runs)
    assert kept[0].startswith("unmasked: without masks it keeps")
    assert kept[1].startswith("masked-focal: under predicted masks it keeps")


def test_the_bootstrap_interval_agrees_with_the_normal_one_where_that_is_right():
    values = np.random.default_rng(5).normal(3.0, 2.0, 4000)
    low, high = bootstrap_interval(values)
    error = standard_error(values)
    assert error == pytest.approx(2.0 / math.sqrt(4000), rel=0.05)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)
    assert math.isnan(standard_error(values[:1]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"masks": ("oracel",)}, "did you mean 'oracle'"),
        ({"episodes": 0}, "at least one episode"),
        ({"env": "corridor-r2"}, "has other actions"),
    ],
)
def test_mistakes_are_one_sentence(training, changes, says):
    with pytest.raises(MasklessError, match=says):
        evaluate(training, **changes)


def test_folders_that_are_no_trainings_are_refused(training, tmp_path):
    with pytest.raises(MasklessError, match="is not the folder of a training"):
        evaluate(tmp_path)
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    run = training / "unmasked" / "seed-0"
    (unfinished / "config.json").write_text((run / "config.json").read_text())
    with pytest.raises(MasklessError, match="no checkpoint yet"):
        evaluate(unfinished)
    with pytest.raises(MasklessError, match="at least 1"):
        Eval(training, episodes=float("nan")).run()
