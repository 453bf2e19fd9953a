"""Every experiment from end to end, on a toy: made, stopped, gone on with, run twice.

All in one file, so that all share one compiled program.
"""

import dataclasses
import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from maskless.conditions import condition
from maskless.errors import MasklessError
from maskless_paper import tables
from maskless_paper.claims.claims import CLAIMS
from maskless_paper.claims.page import claims_page
from maskless_paper.claims.verdicts import VERDICTS, judge_all
from maskless_paper.plans import make_plan
from maskless_paper.reproduce import reproduce
from maskless_paper.run import run_study
from maskless_paper.studies import STUDIES, TABLE_ONE
from maskless_paper.study_files import read_result, read_studies
from maskless_paper.tables import EXPERIMENTS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLAN = make_plan("classic-mlp", "smoke")
DRAWN = ("classic-mlp", "corridor-gru", "full-hybrid")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The folder that `maskless reproduce all --scale smoke` leaves, and what it printed.

    Of Table 1, which is the same toy nine times, every game is drawn with one network. The theory
    is not checked again here: theory/test_report.py does that.
    """
    folder = tmp_path_factory.mktemp("smoke")
    printed, said = io.StringIO(), []
    committed = read_result(ROOT / "results" / "studies" / "theory.json")["statements"]
    findings = {
        name: SimpleNamespace(to_json=lambda statement=statement: statement)
        for name, statement in committed.items()
    }
    studies = [name for name in STUDIES if name not in TABLE_ONE or name in DRAWN]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables.theory, "check_all", lambda size, progress: findings)
        reproduce(
            tuple(EXPERIMENTS),
            "smoke",
            out=folder / "out",
            runs=folder / "runs",
            studies=studies,
            console=Console(file=printed, width=200),
            say=said.append,
        )
    for name in STUDIES.keys() - studies:
        plan = make_plan(name, "smoke")
        run_study(plan, folder / "out" / "studies", runs=folder / "runs", say=said.append)
    return folder, printed.getvalue(), said


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_makes_its_tables_and_figures(name, smoke):
    folder, printed, _ = smoke
    made = json.loads((folder / "out" / "tables" / f"{name}.json").read_text())
    assert made
    page = (folder / "out" / "tables" / f"{name}.md").read_text()
    for table in made:
        assert table["rows"]
        assert all(len(row) == len(table["header"]) for row in table["rows"])
        assert f"## {table['title']}" in page
    assert f"tables/{name}.md" in printed
    drawn = folder / "out" / "figures" / name
    pictures = list(drawn.glob("*.png")) if drawn.is_dir() else [drawn.with_suffix(".png")]
    assert pictures
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_a_study_says_what_was_done_and_what_came_out(smoke):
    folder, _, _ = smoke
    result = read_result(folder / "out" / "studies" / "predictor.json")
    plan = make_plan("predictor", "smoke")
    assert result["complete"]
    assert result["frames"] == result["planned_frames"] == plan.config.frames
    assert "toy" in result["stands_in"]
    assert result["sessions"][-1]["versions"]["jax"]
    assert {entry["frames"] for entry in result["evaluations"]} == {512, 1024}
    assert len(result["evaluations"]) == 2 * len(plan.conditions) * plan.config.seeds * 3
    for entry in result["evaluations"]:
        assert entry["unfinished"] == 0
        assert entry["low"] <= entry["mean_return"] <= entry["high"]
        assert entry["masks"] != "oracle" or entry["invalid_share"] == 0
    runs = [(log["condition"], log["seed"]) for log in result["logs"]]
    assert runs == [(name, seed) for name in plan.conditions for seed in (0, 1)]
    for log in result["logs"]:
        assert log["frames"] == [256, 512, 768, 1024]
        rate = log["valid_rate"]
        assert max(rate) < 1 if not condition(log["condition"]).masked else min(rate) == 1
        assert len(log["actions"]["descend"]["probability_valid"]) == 4


def test_all_studies_are_trained_once_and_none_again(smoke):
    folder, _, said = smoke
    studies = read_studies(folder / "out" / "studies")
    assert set(studies) == {*STUDIES, "theory"}
    assert sum("evaluated at" in line for line in said) == 2  # budgets of the one training
    plan = make_plan("lambda", "smoke")
    said = []
    again = run_study(plan, folder / "again", runs=folder / "runs", say=said.append)
    assert "not repeated" in said[0]
    assert again == studies["lambda"]
    assert json.loads((folder / "again" / "lambda.json").read_text()) == again


def test_a_table_can_be_made_of_some_studies(smoke, tmp_path):
    folder, _, _ = smoke
    printed = io.StringIO()
    reproduce(
        ("deployment",),
        "smoke",
        out=tmp_path,
        runs=folder / "runs",
        studies=("classic-mlp",),
        console=Console(file=printed, width=200),
        say=lambda line: None,
    )
    assert [path.name for path in (tmp_path / "studies").iterdir()] == ["classic-mlp.json"]
    assert "masked-focal" in printed.getvalue()
    assert "masked-loop" not in printed.getvalue()


def test_every_claim_can_be_judged_when_its_studies_are_there(smoke):
    judged = judge_all(read_studies(smoke[0] / "out" / "studies"))
    assert [one.claim for one in judged] == list(CLAIMS)
    for one in judged:
        assert set(one.checks) == set(one.claim.studies)
        assert one.counts.verdict in VERDICTS
    page = claims_page(judged)
    assert all(f"## Claim {claim.number}:" in page for claim in CLAIMS)
    # What is so on the toy too: masks allow valid actions only.
    rates = next(one for one in judged if one.claim.number == "2").checks["full-gru"]
    assert [check.holds for check in rates] == [False, True]


def test_numbers_are_those_of_a_run_s_own_log(smoke):
    folder, _, _ = smoke
    log = next(
        log
        for log in read_result(folder / "out" / "studies" / "classic-mlp.json")["logs"]
        if (log["condition"], log["seed"]) == ("unmasked", 1)
    )
    path = folder / "runs" / "smoke" / "toy" / "unmasked" / "seed-1" / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    np.testing.assert_allclose(log["return"], [row["return"] for row in rows], rtol=1e-4)
    there = [row["probability_valid"][2] for row in rows]
    np.testing.assert_allclose(
        np.array(log["actions"]["descend"]["probability_valid"], float),
        np.array(there, float),
        rtol=1e-4,
    )


@pytest.fixture(scope="module")
def stopped(smoke, tmp_path_factory):
    """A study whose time was up at once, and its folder. After `smoke`, whose program it is."""
    folder = tmp_path_factory.mktemp("stopped")
    result = run_study(PLAN, folder / "out", runs=folder / "runs", minutes=0.01, say=lambda x: None)
    return folder, result


def numbers(result):
    """All that does not depend on the clock or the machine."""
    return {name: value for name, value in result.items() if name not in ("seconds", "sessions")}


def test_stopped_when_the_time_is_up_with_what_is_there(stopped):
    folder, result = stopped
    assert not result["complete"]
    assert result["frames"] == 256  # one update
    assert result["planned_frames"] == 1024
    assert {entry["frames"] for entry in result["evaluations"]} == {256}
    assert read_result(folder / "out" / "classic-mlp.json") == result


def test_the_same_configuration_run_twice_gives_the_same_numbers(stopped, smoke):
    """Even when one of the two was stopped and went on."""
    folder, before = stopped
    resumed = run_study(PLAN, folder / "out", runs=folder / "runs", say=lambda x: None)
    assert resumed["complete"]
    assert [session["until_frames"] for session in resumed["sessions"]] == [256, 1024]
    earlier = [entry for entry in resumed["evaluations"] if entry["frames"] == 256]
    assert earlier == before["evaluations"]
    whole = read_result(smoke[0] / "out" / "studies" / "classic-mlp.json")
    assert len(whole["sessions"]) == 1
    later = [entry for entry in resumed["evaluations"] if entry["frames"] > 256]
    assert numbers(resumed | {"evaluations": later}) == numbers(whole)


def test_a_folder_with_another_configuration_is_refused(smoke):
    other = dataclasses.replace(PLAN, config=dataclasses.replace(PLAN.config, seeds=1))
    with pytest.raises(MasklessError, match="another configuration"):
        run_study(other, smoke[0] / "other", runs=smoke[0] / "runs")


def test_results_of_another_scale_are_not_overwritten(smoke, tmp_path):
    with pytest.raises(MasklessError, match="scale smoke"):
        reproduce(
            ("lambda-sweep",), "cpu", out=smoke[0] / "out", runs=tmp_path, console=None, say=print
        )


def test_unknown_names_are_refused(tmp_path):
    for names, studies, says in (
        (("table-mask",), (), "table-masks"),
        (("theory",), ("classic-mlp",), "study of theory"),
    ):
        with pytest.raises(MasklessError, match=says):
            reproduce(names, "smoke", out=tmp_path, runs=tmp_path, studies=studies, console=None)
