"""What the documents say is run and checked: code, and numbers from committed results."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "code",
    [block for document in DOCUMENTS for block in blocks(document, "python")],
    ids=lambda code: code.strip().splitlines()[-1][:40],
)
def test_python_in_the_documents_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "documentation", "exec"), names)
    assert "maskless" in names


def test_the_example_environment_passes_its_own_audit():
    from maskless.envs.mask_audit import audit

    (code,) = blocks(ROOT / "docs/environments.md", "python")
    names = {}
    exec(code, names)
    assert audit(names["Countdown"](), states=500).errors("exact") == 0


def test_the_readme_s_tables_are_those_of_the_committed_results():
    path = ROOT / "results/tables.py"
    tables = importlib.util.module_from_spec(
        spec := importlib.util.spec_from_file_location("tables", path)
    )
    spec.loader.exec_module(tables)
    text = (ROOT / "README.md").read_text()
    assert tables.fill(text) == text, "run: python results/tables.py"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target
