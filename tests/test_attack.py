"""A small part of benchmarks/attack.py: nothing but successes and sentences."""

import importlib.util
import signal
import sys
from pathlib import Path

import pytest

SLOW_READERS = ("report", "eval", "calibrate", "export", "resume", "audit", "train")


@pytest.fixture(scope="module")
def attack():
    path = Path(__file__).parents[1] / "benchmarks" / "attack.py"
    spec = importlib.util.spec_from_file_location("attack", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["attack"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["attack"]


@pytest.fixture(scope="module")
def bases(attack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    attack.prepare(folder)
    return folder


@pytest.fixture
def folder(attack, bases, tmp_path, monkeypatch):
    """Where a case can be tried, in a current folder with a module that leaves a mark."""
    attack.shutil.copytree(bases, tmp_path, dirs_exist_ok=True)
    here = tmp_path / "here"
    here.mkdir()
    mark = tmp_path / "imported"
    (here / f"{attack.MODULE}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


@pytest.fixture
def watchdog():
    """A reader that waits is interrupted, and its test fails."""

    def bark(number, frame):
        raise TimeoutError("five minutes")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("base", ["base", "finished"])
def test_the_whole_folder_is_read(attack, folder, watchdog, base):
    """Otherwise every refusal below would be worth nothing."""
    root = folder / "case" / "run"
    attack.shutil.copytree(folder / base, root)
    for reader in ("act", "load", "load artifact", "tables", "columns", "override list", "finish"):
        assert attack._read(reader, root) == ("success", ""), reader


@pytest.mark.parametrize("damage", ["bytes", "structure", "kind", "code", "links"])
def test_damaged_folders_end_in_success_or_a_sentence(attack, folder, watchdog, damage):
    cases = (attack.make_case(number, seed=7) for number in range(10**6))
    chosen = (
        (case, dice)
        for case, dice in cases
        if case.damage == damage and case.reader not in SLOW_READERS
    )
    refused = 0
    for (case, dice), _ in zip(chosen, range(25), strict=False):
        outcome = attack.try_case(case, dice, folder)
        assert outcome.kind in ("success", "sentence"), outcome
        assert not outcome.hangs, outcome
        refused += outcome.kind == "sentence"
    assert refused > 3
