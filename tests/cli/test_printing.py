"""What a command has computed is saved, also where nothing of it can be printed."""

import contextlib
import json
import os
import shutil
import sys

import pytest

from maskless.cli import main
from maskless.cli.export import Export

COMMANDS = {
    "eval": (["eval", "RUN", "--episodes", "8", "--envs", "8"], "evaluation.json"),
    "audit": (
        ["audit", "RUN", "--states", "50", "--episodes", "8", "--envs", "8"],
        "audit.json",
    ),
    "calibrate": (["calibrate", "RUN", "--episodes", "16", "--envs", "8"], "policy/policy.json"),
    "override": (
        ["override", "RUN", "add", "--action", "kick", "--never"],
        "policy/policy.json",
    ),
    "export": (["export", "RUN", "--format", "stablehlo"], "policy/policy.stablehlo"),
    "report": (["report", "RUN"], "report.html"),
}


@pytest.fixture(scope="module")
def run(training, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "copy" / "masked-focal" / "seed-0"
    shutil.copytree(training / "masked-focal" / "seed-0", run)
    Export(run).run()
    return run


@contextlib.contextmanager
def lost(**streams):
    """sys.stdout or sys.stderr as one that takes nothing: a "pipe" without a reader, or a "disk"
    without room, in an encoding without most of our characters."""
    before = {name: getattr(sys, name) for name in streams}
    for name, kind in streams.items():
        if kind == "pipe":
            reader, writer = os.pipe()
            os.close(reader)
            setattr(sys, name, os.fdopen(writer, "w", encoding="utf-8"))
        else:
            setattr(sys, name, open("/dev/full", "w", encoding="ascii"))  # noqa: SIM115
    try:
        yield
    finally:
        for name, stream in before.items():
            with contextlib.suppress(OSError):  # what is still in it
                getattr(sys, name).close()
            setattr(sys, name, stream)


@pytest.mark.parametrize("name", COMMANDS)
def test_saved_with_nothing_printed(name, run):
    arguments, saved = COMMANDS[name]
    before = (run / saved).stat().st_mtime_ns if (run / saved).exists() else None
    command = [str(run) if each == "RUN" else each for each in arguments]
    with lost(stdout="disk", stderr="pipe"), pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2  # what was printed did not arrive
    assert (run / saved).stat().st_mtime_ns != before
    if saved.endswith("json"):
        json.loads((run / saved).read_text())


def test_nobody_reads_the_table(run):
    """As in `maskless eval RUN | true`: no error."""
    (run / "evaluation.json").unlink(missing_ok=True)
    with lost(stdout="pipe"):
        main(["eval", str(run), "--episodes", "8", "--envs", "8", "--masks", "none"])
    assert (run / "evaluation.json").exists()
