"""One writer per folder: refused while another writes, free as soon as that one is gone."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from maskless.cli import main
from maskless.cli.train import Train
from maskless.errors import MasklessError
from maskless.training import lock
from maskless.training.folder import training_of

OLD_RUN = Path(__file__).parents[1] / "data" / "old-run"
HOLDER = """
import os, sys, time
from pathlib import Path
from maskless.training import lock

with lock.writing(Path(sys.argv[1]), print):
    child = os.fork()  # as an environment may do
    if child == 0:
        print(os.getpid(), flush=True)  # it has got so far, on a busy machine too
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
"""


def test_one_writes_and_the_other_hears_who(tmp_path):
    with (
        lock.writing(tmp_path, pytest.fail),
        pytest.raises(MasklessError, match=f"is being written by process {os.getpid()} on .*since"),
        lock.writing(tmp_path, pytest.fail),
    ):
        pytest.fail("two writers")
    with lock.writing(tmp_path, pytest.fail):
        pass


def test_the_lock_ends_with_its_process_and_is_not_inherited(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", HOLDER, str(tmp_path)]
    paths = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
    ) as process:
        child = int(process.stdout.readline())
        try:
            with (
                pytest.raises(MasklessError, match=f"process {process.pid} "),
                lock.writing(tmp_path, pytest.fail),
            ):
                pytest.fail("two writers")
            process.kill()
            process.wait()
            os.kill(child, 0)  # it lives
            with lock.writing(tmp_path, pytest.fail):
                pass
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_no_lock(tmp_path, kind):
    place, precious = tmp_path / lock.LOCK_FILE, tmp_path / "precious"
    precious.write_text("precious")
    make = {"link": lambda: place.symlink_to(precious), "fifo": lambda: os.mkfifo(place)}
    make.get(kind, place.mkdir)()
    with (
        pytest.raises(MasklessError, match=r"Cannot write .*\.lock .*: remove it, or"),
        lock.writing(tmp_path, pytest.fail),
    ):
        pytest.fail("it is locked")
    assert precious.read_text() == "precious"


def test_a_run_is_locked_in_its_training(tmp_path):
    training = tmp_path / "training"
    shutil.copytree(OLD_RUN, training)
    run, alone = training / "masked" / "seed-0", tmp_path / "a" / "b"
    assert training_of(run) == training
    assert training_of(training) == training
    shutil.copytree(run, alone)  # a lock above it would be somebody else's
    assert training_of(alone) == alone


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    said = []
    with lock.writing(tmp_path, said.append):
        pass
    assert "cannot be locked (No locks available)" in said[0]


def test_a_new_training_in_a_folder_that_another_is_about_to_use(tmp_path, capsys):
    place = tmp_path / "run"
    place.mkdir()
    with lock.writing(place, pytest.fail), pytest.raises(SystemExit) as stop:
        main(["train", "--env", "staircase", "--frames", "1e6", "--out", str(place)])
    assert stop.value.code == 2
    assert f"process {os.getpid()} on" in capsys.readouterr().err.replace("\n", " ")
    assert [path.name for path in place.iterdir()] == [lock.LOCK_FILE]


def test_a_default_name_is_taken_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = Train(env="staircase")
    with command._folder(makes_it=True) as first, command._folder(makes_it=True) as second:
        assert (first.name, second.name) == ("staircase-mlp-1", "staircase-mlp-2")
        (second / "config.json").touch()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["staircase-mlp-2"]
