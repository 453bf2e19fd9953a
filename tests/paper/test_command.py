"""`maskless reproduce` as a user types it."""

import subprocess
import sys
from typing import get_args, get_type_hints

import pytest

from maskless.cli import main
from maskless.cli.reproduce import Reproduce
from maskless_paper.plans import SCALES
from maskless_paper.studies import STUDIES
from maskless_paper.tables import EXPERIMENTS


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


def test_without_a_name_it_lists_what_there_is_and_what_it_costs(capsys):
    main(["reproduce", "--scale", "paper"])
    said = capsys.readouterr().out
    for name in (*EXPERIMENTS, *STUDIES):
        assert name in said
    assert "1000 M" in said  # frames of a run
    assert "200 M" in said


def test_help_shows_an_example_and_explains_each_flag(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    assert "Example: maskless reproduce" in said
    flags = [line for line in said.splitlines() if line.startswith("│ --")]
    assert all(len(line.strip("│ ").split("  ", 1)) == 2 for line in flags), said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["table-mask"], "did you mean 'table-masks'?"),
        (["table-masks", "--studies", "classic"], "study"),
        (["theory", "--minutes", "0"], "above 0"),
        (["table-masks", "--frames", "10", "--scale", "cpu"], "one update"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, says, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *arguments, "--out", str(tmp_path), "--runs", str(tmp_path)])
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""


def test_the_scales_of_the_command_are_those_of_the_plans():
    assert get_args(get_type_hints(Reproduce)["scale"]) == SCALES


def test_other_commands_do_not_import_the_paper():
    """In a fresh process, as `python -X importtime -m maskless --help` would show."""
    code = (
        "import sys; from maskless.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "loaded = [name for name in sys.modules if name.startswith('maskless_paper')]\n"
        "sys.exit(f'imported: {loaded}' if loaded else 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for command in ("reproduce", "theory"):
        assert command in run.stdout
