"""Every number on the pages is that of the committed results."""

import importlib.util
import re
from pathlib import Path

import PIL.Image
import pytest

from maskless_paper.claims.verdicts import judge_all
from maskless_paper.plans import make_plan

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "results" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_agree_with_the_results(tables):
    for path, content in tables.texts().items():
        assert path.read_text() == content, f"{path}: run python results/tables.py"


def test_figures_are_there_and_every_one_is_on_a_page():
    shown = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / target).exists(), target
            shown.add((page.parent / target).resolve())
    figures = ROOT / "results" / "figures"
    assert {path.resolve() for path in figures.rglob("*.png")} <= shown


@pytest.mark.slow
def test_figures_are_those_of_the_results(tables, tmp_path):
    tables.draw(tmp_path)
    committed = ROOT / "results" / "figures"
    names = [
        {path.relative_to(folder) for path in folder.rglob("*.png")}
        for folder in (tmp_path, committed)
    ]
    assert names[0] == names[1]
    for name in names[0]:
        drawn, there = (PIL.Image.open(folder / name) for folder in (tmp_path, committed))
        if drawn.text["Software"] != there.text["Software"]:
            pytest.skip(f"the figures are of {there.text['Software']}, which draws otherwise")
        assert drawn.tobytes() == there.tobytes(), f"{name}: run python results/tables.py"


def test_committed_studies_are_of_a_known_plan(tables):
    for name, result in (*tables.STUDIES.items(), *tables.SMALL.items()):
        assert result["study"] == name
        assert result["scale"] != "smoke"
        if "config" in result:
            plan = make_plan(name, result["scale"])
            assert tuple(result["config"]["conditions"]) == plan.conditions
            assert result["config"]["env"] == plan.config.env


def test_verdicts_that_an_audit_found_unfair_follow_from_the_data(tables):
    """Each was ticked, crossed or left open once although our runs said something else."""
    judged = {one.claim.number: one for one in judge_all(tables.STUDIES)}

    def holds(number, study, part):
        (check,) = [one for one in judged[number].checks[study] if part in one.says]
        return check.holds

    assert holds("1", "full-mlp", "below 0.0001") is None  # the seeds disagree
    assert holds("8", "corridor-gru", "masked-kl: about 0.4") is True  # there it is so
    assert holds("8", "full-mlp", "masked-kl: about 0.4") is False
    assert judged["13"].counts[:2] == (0, 0)  # a hundredth of the budget, and one seed
    assert judged["13"].missing == ("classic-gru",)
    assert holds("15", "corridor-gru", "0.1 to 0.3") is False  # -9.9 is not 0.1 to 0.3
    assert holds("16", "corridor-gru", "`masked`: 16 %") is None  # other hyperparameters
    assert holds("16", "corridor-gru", "sooner") is True  # never is later
    assert judged["19"].counts[:2] == (0, 0)  # another game and network
    assert judged["20"].counts.verdict == "yes so far"  # a quarter of the frames
    assert holds("20b", "predictor", "above masked") is None  # two seeds
    assert judged["4"].counts.not_run == 4
