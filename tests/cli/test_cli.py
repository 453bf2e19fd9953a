"""The command line as a user types it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from maskless import __version__ as version
from maskless import cli

TESTS = Path(__file__).parents[1]


def maskless(*arguments, cwd=TESTS, columns=160):
    """Runs `maskless ...` from the folder of the toys, which are a user's own environments."""
    return subprocess.run(
        [sys.executable, "-m", "maskless", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": str(columns)},
    )


def test_a_closed_pipe_is_no_error():
    """As in `maskless train --help | head`."""
    command = [sys.executable, "-m", "maskless", "train", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        said = run.stderr.read()
    assert said == b""
    assert run.returncode == 141


def test_a_demo_takes_the_place_of_nothing_but_a_demo(tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(TESTS / "data" / "old-run", run)
    with pytest.raises(SystemExit):
        cli.main(["demo", "--out", str(run)])
    assert "holds something else than a demo" in capsys.readouterr().err.replace("\n", " ")
    assert (run / "masked" / "seed-0" / "metrics.jsonl").exists()


@pytest.mark.parametrize(("options", "said"), [({}, True), ({"rules": "paper"}, False)])
def test_craftax_says_once_that_its_default_masks_have_errors(options, said):
    from maskless.training.request import make_request, remarks

    lines = list(remarks(make_request("craftax-classic", env_options=options), numbers_too=True))
    assert lines[0].startswith("preset paper: 1,024 environments x 64 steps, 4 epochs of 8")
    assert ["rules=exact" in line for line in lines[1:]] == [True] * said


def test_a_program_is_compiled_once_for_all_commands(tmp_path):
    """In the user's cache folder, or where JAX was told."""
    script = (
        "from maskless import cli, compilation_cache; compilation_cache.enable_for_process();"
        "import jax; print(jax.config.jax_compilation_cache_dir)"
    )
    clean = {name: x for name, x in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}

    def place(**variables):
        command = [sys.executable, "-c", script]
        return subprocess.check_output(command, text=True, env=clean | variables).strip()

    assert Path(place(XDG_CACHE_HOME=str(tmp_path))).parent == tmp_path / "maskless"
    assert place(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own")) == str(tmp_path / "own")


def test_version():
    run = maskless("--version")
    assert (run.returncode, run.stdout) == (0, f"maskless {version}\n")


def test_envs_lists_what_there_is():
    run = maskless("envs", columns=80)
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stdout.splitlines() if line.strip()]
    rows = {line.split()[0]: re.split(r"  +", line.strip()) for line in lines}
    assert rows["craftax"][1:] == ["43", "100,000 steps", "paper*, exact, prudent"]
    assert rows["mazewalk-9x9"][1] == "8"
    assert "staircase" in rows
    assert "gymnasium:Taxi-v3" in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80


def test_envs_lists_observations_where_there_is_room(monkeypatch, capsys):
    from maskless.cli import envs

    monkeypatch.setattr(envs, "OUT", Console(width=120))
    envs.Envs().run()
    printed = capsys.readouterr().out
    assert "float32[8268]" in printed
    assert "glyphs int8[9, 9]" in printed


def test_validity_prints_a_table_and_writes_json_and_figures(tmp_path):
    out = tmp_path / "deep" / "er"
    options = ("--env-options", "rules=exact", "episode_limit=9")
    run = maskless("validity", "toys:Tower", *options, "--states", 300, "--out", out)
    assert run.returncode == 0, run.stderr
    assert "rules exact: 0 of" in run.stdout
    written = json.loads((out / "validity.json").read_text())
    assert written["rules"]["exact"]["errors"] == 0
    assert written["rules"]["wrong"]["errors"] > 0
    assert written["provenance"]["versions"]["jax"]
    assert written["states"] >= 300
    assert sorted(path.name for path in out.iterdir()) == [
        "validity.json",
        "validity.png",
        "validity.svg",
    ]
    assert (out / "validity.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_envs_show_draws_the_level_and_plays_in_it():
    run = maskless("envs", "show", "mazewalk-9x9", "--steps", 3, "--seed", 4)
    assert run.returncode == 0, run.stderr
    assert "what the player sees" in run.stdout
    assert "the whole level" in run.stdout
    assert run.stdout.count("@") == 5  # twice at the start, then once per step
    assert [f"step {n}:" in run.stdout for n in (1, 2, 3, 4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["envs", "show", "corridor-r4"], "did you mean 'corridor-r"),
        (["envs", "show"], "choose one of"),
        (["train", "--env", "staircase", "--lr", "1e-3"], "--lr is called --learning-rate here"),
        (["envs", "show", "craftax"], "has no view for the terminal"),
        (["validity", "craftx"], "did you mean 'craftax'?"),
        (["validity", "toys:Lame"], "has no 'reset'"),
        (["validity", "nowhere:Env"], "importable.module:ClassOrFunction"),
        (["validity", "toys:Tower", "--states", "0"], "at least one state"),
        (["validity", "toys:Tower", "--out", "/proc/no"], "choose another folder with --out"),
        (["valdity"], "did you mean 'validity'?"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, says, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert says in err
    assert err.strip().count("\n") == 0
    assert out == ""


def test_a_mistake_shows_no_traceback():
    run = maskless("validity", "toys:Lame")
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_of_every_command_shows_an_example_and_explains_each_flag(
    command, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "160")
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert f"Example: maskless {command}" in printed
    flags = [line for line in printed.splitlines() if line.startswith("│ --")]
    assert all(len(line.strip("│ ").split("  ", 1)) == 2 for line in flags), printed


def test_unknown_flags_are_refused():
    with pytest.raises(SystemExit) as end:
        cli.main(["envs", "--colour"])
    assert end.value.code == 2


HELP = """
import sys
from maskless.cli import main
try:
    main(["--help"])
finally:
    print([name for name in ("jax", "tyro", "matplotlib", "craftax") if name in sys.modules])
"""


def test_help_lists_all_commands_without_importing_what_they_need():
    run = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    *lines, imported = run.stdout.splitlines()
    assert imported == "[]"
    listed = {line.split()[0] for line in lines if line.strip()}
    assert listed >= cli.COMMANDS.keys()
