"""The command and the files it writes."""

import io
import json

import pytest
from rich.console import Console

import maskless_paper.theory
from maskless import MasklessError
from maskless.cli.theory import Theory
from maskless_paper import study_files
from maskless_paper.tables import theory
from maskless_paper.theory import Finding
from maskless_paper.theory.report import draw_theory, print_theory, save_theory


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
