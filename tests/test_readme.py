"""What the documents say is run and checked: code, and numbers from committed results."""

import json
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
def test_python_in_the_documents_runs(code):
    names = {}
    exec(compile(code, "documentation", "exec"), names)
    assert "maskless" in names


def test_the_example_environment_passes_its_own_audit():
    from maskless.diagnostics.validity import audit

    (code,) = blocks(ROOT / "docs/environments.md", "python")
    names = {}
    exec(code, names)
    assert audit(names["Countdown"](), states=500).errors("exact") == 0


def validity_table():
    """The README's table, from results/validity."""
    lines = [
        "| game | rules | works but is masked | does nothing but is allowed | errors |",
        "|---|---|---|---|---|",
    ]
    for game in ("craftax-classic", "craftax"):
        result = json.loads((ROOT / f"results/validity/{game}/validity.json").read_text())
        checked = result["states"] * len(result["effective"])
        for name in ("paper", "exact"):
            rules = result["rules"][name]
            masked = sum(rules["effective_but_masked"].values())
            dead = sum(rules["dead_but_valid"].values())
            share = 100 * (masked + dead) / checked
            lines.append(
                f"| {game} | {name} | {masked:,} | {dead:,} | {share:.1f} % of {checked:,} |"
            )
    return "\n".join(lines)


def test_the_readme_s_numbers_are_the_committed_ones():
    assert validity_table() in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target
