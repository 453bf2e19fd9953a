"""`maskless eval` and `maskless.evaluate`, on a tiny training."""

import dataclasses
import io
import json
import math
import re

import pytest
from rich.console import Console

from maskless.cli.eval import Eval
from maskless.errors import MasklessError
from maskless.evaluation.summary import (
    Evaluation,
    RunEvaluation,
    Summary,
    evaluate,
    read_evaluation,
    recovered,
)
from maskless.report.evaluation import (
    clock_lines,
    evaluation_table,
    headlines,
    memory_lines,
    print_evaluation,
)


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
    assert list(focal) == ["oracle", "predicted", "predicted-forgetful", "none"]
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
    assert (folder / "evaluation-greedy.json").exists() is False
    Eval(folder, masks=("predicted",), episodes=8, envs=8, greedy=True).run()
    assert json.loads((folder / "evaluation.json").read_text()) == after
    greedy = json.loads((folder / "evaluation-greedy.json").read_text())
    assert greedy["settings"]["greedy"]
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
    assert [row[0] for row in table.rows] == ["unmasked", *[""] * 3, "masked-focal", *[""] * 3]
    assert [row[1] for row in table.rows][4:] == ["oracle", "predicted", "forgetful", "none"]
    assert table.notes[0] == "Means over 2 seeds of each condition."
    assert table.has_untrained
    kept = headlines(evaluated.runs)
    assert kept[0].startswith("unmasked: without masks it keeps")
    assert kept[1].startswith("masked-focal: under predicted masks it keeps")


def summary_of(mean, **changes):
    low, high = mean - 0.2, mean + 0.2
    return Summary(1024, mean, 0.03, low, high, 101.0, 1.0, 0.5, 0.004, 0.25, 0.5, 0.125, **changes)


def test_returns_below_zero_are_judged_by_what_the_masks_are_worth():
    masks = {
        "oracle": summary_of(-3.6),
        "predicted": summary_of(-4.0, stuck_share=0.0),
        "predicted-forgetful": summary_of(-11.6, stuck_share=0.54),
        "clone": summary_of(-3.6, stuck_share=0.0),
        "none": summary_of(-19.6, stuck_share=0.8, worst=-200.0),
    }
    name = "masked-loop:predicted_share=0.5"
    run = RunEvaluation(None, name, 0, 7, True, masks, clone=True)
    assert run.recovered == pytest.approx(
        {"oracle": 1, "predicted": 0.975, "predicted-forgetful": 0.5, "clone": 1, "none": 0}
    )
    assert headlines([run]) == [
        f"{name}: under predicted masks it earns -4.00, under the oracle's masks -3.60; of what the"
        " masks are worth, 98 % is recovered (-19.60 without any).",
        f"{name}: by its clone, without masks, it earns -3.60, under the oracle's masks -3.60; of"
        " what the masks are worth, 100 % is recovered (-19.60 without any).",
    ]
    assert recovered(3.0, 2.0, 2.0) is None
    settings = {"greedy": False, "episodes": 1024}
    for width in (60, 80, 100, 140):
        console = Console(width=width, record=True, file=io.StringIO())
        print_evaluation(Evaluation(None, "shop", ("done",), settings, [run]), console)
        text = console.export_text()
        # Whatever is dropped or folded, no number is cut.
        assert "…" not in text
        assert all(f"{x.mean_return:.2f} ± 0.03" in text for x in masks.values())
        assert re.search(r"forgetful +-11.60 ± 0.03.* 54.0", text)
    assert re.search(r"none +-19.60 ± 0.03 +-19.80 to -19.40 +-200.00", text)


@pytest.mark.parametrize(
    ("env", "masks", "stuck", "length", "hinted"),
    [
        ("gymnasium:Shop-v0", "none", 0.0, 200.0, True),
        ("shop:Shop", "predicted-forgetful", 0.0, 200.0, True),
        ("gymnasium:Shop-v0", "none", 0.001, 200.0, False),  # some failures are seen
        ("gymnasium:Shop-v0", "none", math.nan, 200.0, False),  # an evaluation from before
        ("gymnasium:Shop-v0", "none", 0.0, 2.0, False),  # an invalid action ends an episode
        ("gymnasium:Shop-v0", "predicted", 0.0, 200.0, False),  # it remembers
        ("craftax", "none", 0.0, 200.0, False),  # the light changes by itself, as is known
    ],
)
def test_a_clock_that_hides_every_failure_is_pointed_out(env, masks, stuck, length, hinted):
    tried = dataclasses.replace(
        summary_of(1.0), stuck_share=stuck, length=length, invalid_share=0.3
    )
    run = RunEvaluation(None, "masked", 0, 7, True, {"oracle": summary_of(2.0), masks: tried})
    evaluation = Evaluation(None, env, (), {"greedy": False, "episodes": 8}, [run])
    assert bool(clock_lines(evaluation)) == hinted
    console = Console(width=80, record=True, file=io.StringIO())
    print_evaluation(evaluation, console)
    assert ("clock_fields" in console.export_text()) == hinted


@pytest.mark.parametrize(
    ("lost", "said"), [(20.0, True), (0.1, True), (0.08, False), (-1.0, False)]
)
def test_a_memory_that_costs_return_is_pointed_out(lost, said):
    masks = {
        "oracle": summary_of(2.0),
        "predicted": summary_of(1.0 - lost, stuck_share=0.3),
        "predicted-forgetful": summary_of(1.0, stuck_share=0.3),
    }
    runs = [RunEvaluation(None, "masked", seed, 7, True, masks) for seed in range(2)]
    lines = memory_lines(Evaluation(None, "shop:Shop", (), {}, runs))
    assert [line.startswith("masked, predicted: the memory") for line in lines] == [True] * said


def test_evaluations_from_before_there_was_a_memory_can_be_read(evaluated, tmp_path):
    content = evaluated.to_json()
    for run in content["runs"]:
        del run["clone"], run["recovered"]
        for numbers in run["masks"].values():
            del numbers["stuck_share"], numbers["worst"]
    (tmp_path / "evaluation.json").write_text(json.dumps(content))
    read = read_evaluation(tmp_path)
    assert math.isnan(read.runs[0].masks["none"].stuck_share)
    assert read.runs[0].masks["none"].mean_return == evaluated.runs[0].masks["none"].mean_return
    table = evaluation_table(read.runs, read.achievement_names)
    for column in ("stuck %", "worst"):
        assert {row[table.header.index(column)] for row in table.rows} == {"–"}


def test_an_evaluation_with_thousands_of_rows_is_no_table(evaluated, tmp_path):
    content = evaluated.to_json()
    for run in content["runs"]:
        run["masks"] |= {f"x{n}": run["masks"]["none"] for n in range(2000)}
    (tmp_path / "evaluation.json").write_text(json.dumps(content))
    with pytest.raises(MasklessError, match="rows, and a table at most 4,000"):
        read_evaluation(tmp_path)


def test_an_evaluation_is_printed_as_a_table():
    worst = {"predicted": summary_of(7.25, worst=-20.0, stuck_share=0.0), "none": summary_of(-9.5)}
    run = RunEvaluation(None, "masked<b>", 3, 7, True, worst)
    evaluation = Evaluation(None, "taxi", (), {}, [run])
    assert str(evaluation).splitlines() == [
        "taxi",
        "condition  seed  masks      return        worst   invalid %  stuck %",
        "masked<b>  3     predicted  7.25 ± 0.03   -20.00  0.40       0.00",
        "masked<b>  3     none       -9.50 ± 0.03  –       0.40       –",
    ]
    page = evaluation._repr_html_()
    assert page.count("<tr>") == 3
    assert "<td>masked&lt;b&gt;</td>" in page


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"masks": ("oracel",)}, "did you mean 'oracle'"),
        ({"masks": ("clone",)}, "None of these runs has a clone"),
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
