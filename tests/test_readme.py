"""The code in the documents runs, and their links lead somewhere.

tests/paper/test_committed.py checks their numbers.
"""

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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target
