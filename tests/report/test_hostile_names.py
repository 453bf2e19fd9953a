"""Names that a stranger chose are harmless in the terminal, on the page, in figures and files."""

import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from maskless.cli import main
from maskless.cli.common import OUT
from maskless.policy.artifact import _sealed
from maskless.report.page import Page
from maskless.report.style import label
from maskless.report.text import console_table

OLD_RUN = Path(__file__).parents[1] / "data" / "old-run"
NAMES = [
    "<script>alert(1)</script>",
    "../../outside/[/b]",
    "\x1b[2J\x1b]0;title\x07",
    "\u202eevil\u2066",
    "x" * 10_000,
    "a $x$ \\frac{$",
]


def is_harmless(text):
    return not any(code in text for code in ("\x1b[2J", "\x1b]0", "\x07", "\u202e", "\u2066"))


@pytest.fixture
def run(tmp_path):
    """A training with such names everywhere, in a folder with such a name."""
    folder = tmp_path / "inside" / "[b]javascript:$x$#?<i>"
    shutil.copytree(OLD_RUN, folder)
    for path in folder.rglob("config.json"):
        about = json.loads(path.read_text())
        about |= {"action_names": NAMES, "device": NAMES[2], "commit": NAMES[0]}
        about["config"] |= {"env": "../../outside/<script>", "env_options": {NAMES[3]: NAMES[2]}}
        path.write_text(json.dumps(about))
    for path in folder.rglob("policy.json"):
        about = json.loads(path.read_text()) | {"action_names": NAMES}
        rule = {"action": NAMES[2], "effect": "never", "threshold": None, "when": None}
        path.write_text(json.dumps(_sealed(about | {"overrides": [rule]})))
    place = folder / "masked" / "seed-0"
    shutil.copy(OLD_RUN / "evaluation.json", place)
    (place / "audit.json").write_text(json.dumps({"summary": " ".join(NAMES)}))
    (place / "audit.html").symlink_to("audit.html")  # a page that leads to itself
    return folder


def test_the_page_and_its_figures(run, tmp_path, capsys):
    main(["report", str(run)])
    assert is_harmless(capsys.readouterr().out)
    page = (run / "report.html").read_text()
    assert is_harmless(page)
    assert "<script" not in page
    assert 'href="javascript' not in page
    assert "default-src 'none'" in page
    for figure in (run / "figures").glob("*.svg"):
        ElementTree.parse(figure)
        assert is_harmless(figure.read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside"]
    assert [path.name for path in (tmp_path / "inside").iterdir()] == [run.name]


def test_no_figure_comes_from_another_folder(run, tmp_path):
    (tmp_path / "audit_errors.svg").write_text("<svg>secret</svg>")
    (run / "masked" / "seed-0" / "figures").symlink_to(tmp_path)
    with pytest.raises(SystemExit):
        main(["report", str(run)])
    assert not (run / "report.html").exists()


def test_rules_in_the_terminal(run, capsys):
    main(["override", str(run / "masked" / "seed-0"), "list"])
    said = capsys.readouterr().out
    assert is_harmless(said)
    assert "\\x1b[2J" in said
    assert "[/b]" in said


def test_tables_show_names_as_they_are(capsys):
    OUT.print(console_table(NAMES[2], NAMES, [NAMES], caption="[bold]x"))
    OUT.print("wrote [b]x[/b] [/]")
    said = capsys.readouterr().out
    assert is_harmless(said)
    assert "wrote [b]x[/b] [/]" in said
    assert "[bold]x" in said


def test_links_and_labels():
    page = Page("x")
    page.link("x", "javascript:alert(1)#?/audit.html")
    assert 'href="./javascript%3Aalert%281%29%23%3F/audit.html"' in page.html()
    assert label("a $x$\n" + "y" * 100) == "a \\$x\\$ " + "y" * 33 + "…"
