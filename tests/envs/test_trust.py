"""No code is imported because a file names it; it is when the user names or trusts it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import maskless
from maskless import MasklessError
from maskless.cli import common
from maskless.envs import registry
from maskless.envs.trust import make_named_in_file, names_code
from maskless.evaluation.runs import environment_of, load_runs
from maskless.policy.artifact import _sealed
from maskless.training.folder import read_config
from maskless.training.request import request_again

OLD_RUN = Path(__file__).parents[1] / "data" / "old-run"


@pytest.mark.parametrize(
    ("env", "options", "code"),
    [
        ("staircase", {"length": 5}, False),
        ("object:Mine", {}, False),
        ("unknown", {}, False),
        ("gymnasium:Taxi-v3", {"is_rainy": True, "workers": 2, "map_name": "8x8"}, False),
        ("gymnasium:ALE/Pong-v5", {}, False),
        ("gymnasium:Taxi-v3", {"path": "../x"}, True),
        ("gymnasium:Taxi-v3", {"workers": 4096}, True),
        ("gymnasium:Taxi-v3", {"env_id": "os:system"}, True),
        ("gymnasium:Taxi-v3", {"desc": ["SFFF"]}, True),
        ("gymnasium:NetHackScore-v0", {"savedir": "x"}, True),
        ("gymnasium:stranger:Env-v0", {}, True),
        ("stranger:Env", {}, True),
        ("os:system", {"command": "true"}, True),
        ("maskless.envs.staircase:Staircase", {}, True),
    ],
)
def test_what_names_code(env, options, code):
    assert names_code(env, options) == code


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A folder whose environment is code, and that code where an import would find it."""
    place = tmp_path / "code"
    place.mkdir()
    (place / "stranger_env.py").write_text(
        "from maskless.envs.staircase import Staircase\n\nclass Env(Staircase):\n    pass\n"
    )
    monkeypatch.syspath_prepend(place)
    monkeypatch.delitem(sys.modules, "stranger_env", raising=False)
    run = tmp_path / "run"
    shutil.copytree(OLD_RUN, run)
    for path in (run / "config.json", *run.glob("*/*/config.json")):
        about = json.loads(path.read_text())
        about["config"]["env"] = "stranger_env:Env"
        path.write_text(json.dumps(about))
    for path in run.glob("*/*/checkpoints/*/checkpoint.json"):
        about = json.loads(path.read_text())
        about["identity"]["env"] = "stranger_env:Env"
        path.write_text(json.dumps(about))
    return run


def test_a_run_that_names_code(stranger):
    refused = r"config.json would import 'stranger_env' and call Env\(\): .*--env .*--trust"
    with pytest.raises(MasklessError, match=refused):
        load_runs(stranger)
    with pytest.raises(MasklessError, match=refused):
        maskless.train(folder=stranger, resume=True)
    policy = stranger / "masked" / "seed-0" / "policy"
    with pytest.raises(MasklessError, match=refused):
        load_runs(policy)
    with pytest.raises(MasklessError, match=refused):
        environment_of(policy.parent, maskless.load(policy))
    assert "stranger_env" not in sys.modules
    # Another environment is the user's choice, and is played without making the stranger's.
    assert load_runs(stranger, "staircase").home == "stranger_env:Env"
    assert "stranger_env" not in sys.modules
    assert load_runs(stranger, "stranger_env:Env").home == "staircase"
    assert load_runs(stranger, trust=True).env.made_from[0] == "stranger_env:Env"


def test_resuming_what_is_named_again_or_trusted(stranger):
    config, file = read_config(stranger), stranger / "config.json"
    for how in ({"env": "stranger_env:Env"}, {"trust": True}):
        assert type(request_again(config, file=file, **how).env).__name__ == "Env"
    with pytest.raises(MasklessError, match="goes on in its own environment"):
        request_again(config, file=file, env="staircase")


def test_a_policy_by_itself_and_a_config_packed_into_it(tmp_path):
    policy = tmp_path / "policy"
    shutil.copytree(OLD_RUN / "masked" / "seed-0" / "policy", policy)
    shutil.copy(OLD_RUN / "masked" / "seed-0" / "config.json", policy)
    path = policy / "policy.json"
    path.write_text(json.dumps(_sealed(json.loads(path.read_text()) | {"env": "os:system"})))
    with pytest.raises(MasklessError, match=r"policy.json would import 'os' and call system\(\)"):
        load_runs(policy)
    assert load_runs(policy, "staircase").config is None


def test_what_the_program_registers_may_be_named(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    maskless.register("mine", lambda length=3: maskless.make("staircase", length=length))
    assert make_named_in_file("mine", {"length": 4}, file=Path("x")).length == 4
    with pytest.raises(MasklessError, match="the option 'length' of staircase: it must be int"):
        make_named_in_file("staircase", {"length": "4"}, file=Path("x"))
    with pytest.raises(MasklessError, match="length must be from 1 to"):
        make_named_in_file("staircase", {"length": 10**12}, file=Path("x"))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["eval", "."], False),
        (["train", "--env", "gymnasium:Taxi-v3", "--conditions", "masked:gamma=1"], False),
        (["train", "--env", "mine:Env"], True),
        (["train", "--env=pkg.mine:Env"], True),
        (["validity", "gymnasium:mine:Env-v0"], True),
        (["eval", "RUN", "--trust"], True),
    ],
)
def test_the_current_folder_is_searched_for_what_was_typed(monkeypatch, tmp_path, arguments, found):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/somewhere"])
    common.import_from_here(arguments)
    assert sys.path == ["/somewhere"] + [str(tmp_path)] * found


@pytest.mark.parametrize("kind", ["fifo", "settings", "no text"])
def test_settings_of_matplotlib_in_the_current_folder_are_not_obeyed(tmp_path, kind):
    shutil.copytree(OLD_RUN, tmp_path / "run")
    path = tmp_path / "matplotlibrc"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes(b"text.usetex: True\n" if kind == "settings" else b"\xff\xfe")
    command = [sys.executable, "-m", "maskless", "report", "run"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100, capture_output=True)
    assert (tmp_path / "run" / "report.html").exists()
