"""Every number on the pages is that of the committed results."""

import importlib.util
from pathlib import Path

import pytest

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


def test_figures_are_there(tables):
    for name in ("README.md", "docs/findings.md", "docs/claims.md"):
        page = ROOT / name
        for line in page.read_text().splitlines():
            if line.startswith("!["):
                target = line.rpartition("(")[2].rstrip(")")
                assert (page.parent / target).exists(), target


def test_committed_studies_are_of_a_known_plan(tables):
    for name, result in (*tables.STUDIES.items(), *tables.SMALL.items()):
        assert result["study"] == name
        assert result["scale"] != "smoke"
        if "config" in result:
            plan = make_plan(name, result["scale"])
            assert tuple(result["config"]["conditions"]) == plan.conditions
            assert result["config"]["env"] == plan.config.env
