"""A training as its user sees it: the folder, being killed, going on, failing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import maskless
from maskless.config import Config, Hyperparameters
from maskless.errors import MasklessError
from maskless.training import checkpoints
from maskless.training.log import read_metrics
from maskless.training.train import Keeping, read_config, resume, train

TESTS = Path(__file__).parents[1]
UPDATES = 120
COMMAND = [
    sys.executable, "-m", "maskless", "train", "--env", "toys:MaskedBandit", "--width", "16",
    "--num-envs", "16", "--rollout", "8", "--minibatches", "2", "--epochs", "2",
    "--conditions", "masked", "masked-kl", "--frames", str(UPDATES * 128),
    "--checkpoint-minutes", "0",
]  # fmt: skip
RUNS = ("masked/seed-0", "masked-kl/seed-0")


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory):
    """The same program in every process: compiled by the first."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(tmp_path_factory.mktemp("compiled"))
    yield
    del os.environ["JAX_COMPILATION_CACHE_DIR"]


def start(*arguments):
    environment = os.environ | {"PYTHONPATH": f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen(
        [*arguments], cwd=TESTS, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finish(process, timeout=200):
    output, _ = process.communicate(timeout=timeout)
    return process.returncode, output


def weights(folder, run):
    return safetensors.numpy.load_file(folder / run / "policy" / "weights.safetensors")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    code, output = finish(start(*COMMAND, "--out", str(folder)))
    assert code == 0, output
    return folder


def same_end(folder, uninterrupted):
    """The same parameters, bit for bit, and the same log but for the clock."""
    for run in RUNS:
        ours, theirs = weights(folder, run), weights(uninterrupted, run)
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])
        logs = [read_metrics(f / run / "metrics.jsonl") for f in (folder, uninterrupted)]
        for log in logs:
            for line in log:
                del line["seconds"]
        assert logs[0] == logs[1]


def interrupt(folder, number, after_updates):
    """Starts a training and sends a signal once its second run has saved so many updates."""
    process = start(*COMMAND, "--out", str(folder))
    limit = time.monotonic() + 150
    place = folder / RUNS[1] / "checkpoints"
    while process.poll() is None and time.monotonic() < limit:
        if max(checkpoints.updates(place), default=0) >= after_updates:
            break
        time.sleep(0.002)
    process.send_signal(number)
    return finish(process)


def test_killed_at_a_random_moment_and_resumed(tmp_path, uninterrupted):
    after = int(np.random.default_rng(time.time_ns()).integers(1, UPDATES // 2))
    code, _ = interrupt(tmp_path / "run", signal.SIGKILL, after)
    assert code == -signal.SIGKILL
    assert not (tmp_path / "run" / RUNS[0] / "policy").exists()
    code, output = finish(start(*COMMAND[:4], "--resume", str(tmp_path / "run")))
    assert code == 0, output
    same_end(tmp_path / "run", uninterrupted)


def test_stopped_with_sigterm_and_resumed(tmp_path, uninterrupted):
    code, output = interrupt(tmp_path / "run", signal.SIGTERM, 20)
    assert code == 0, output
    assert f"maskless train --resume {tmp_path / 'run'}" in output.replace("\n", "")
    damaged = max((tmp_path / "run" / RUNS[0] / "checkpoints").iterdir())
    state = damaged / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-9])
    code, output = finish(start(*COMMAND[:4], "--resume", str(tmp_path / "run")))
    assert code == 0, output
    assert "warning:" in output
    assert damaged.name in output.replace("\n", "")
    same_end(tmp_path / "run", uninterrupted)


def test_the_folder_tells_what_was_done(uninterrupted):
    config = json.loads((uninterrupted / "config.json").read_text())
    assert config["config"]["ppo"]["gae_lambda"] == 0.8
    assert config["versions"]["jax"]
    assert read_config(uninterrupted).conditions == ("masked", "masked-kl")
    for run, condition in zip(RUNS, ("masked", "masked-kl"), strict=True):
        about = json.loads((uninterrupted / run / "config.json").read_text())
        assert (about["condition_name"], about["seed"]) == (condition, 0)
        log = read_metrics(uninterrupted / run / "metrics.jsonl")
        assert [line["update"] for line in log] == list(range(1, UPDATES + 1))
        assert log[-1]["frames"] == UPDATES * 128
        assert len(log[-1]["probability_valid"]) == 4
        assert checkpoints.updates(uninterrupted / run / "checkpoints") == [UPDATES - 1, UPDATES]
        policy = json.loads((uninterrupted / run / "policy" / "policy.json").read_text())
        assert policy["action_names"] == ["first", "second", "third", "fourth"]


def test_a_folder_is_not_trained_into_twice(uninterrupted):
    code, output = finish(start(*COMMAND, "--out", str(uninterrupted)))
    assert code == 2
    assert "--resume" in output


def small(**changes):
    settings = {
        "env": "toys:MaskedBandit",
        "width": 16,
        "frames": 128 * 30,
        "ppo": Hyperparameters(num_envs=16, rollout=8, minibatches=2, epochs=2),
    } | changes
    return Config(**settings)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    maskless.register("exploding", "toys:Exploding")
    config = small(env="exploding")
    with pytest.raises(MasklessError, match=r"masked, seed 0, .*policy_loss became (nan|inf) in"):
        train(config, tmp_path / "run", keeping=Keeping(checkpoint_minutes=0))
    run = tmp_path / "run" / "masked" / "seed-0"
    kept = checkpoints.updates(run / "checkpoints")
    assert kept
    log = read_metrics(run / "metrics.jsonl")
    assert log[-1]["update"] == kept[-1]
    assert all(np.isfinite(line["value_loss"]) for line in log)
    with pytest.raises(MasklessError, match=f"update {kept[-1] + 1} "):
        resume(tmp_path / "run", warn=lambda sentence: None)


def test_a_checkpoint_of_another_training_is_refused(tmp_path, uninterrupted):
    config = small()
    train(config, tmp_path / "run")
    mine = tmp_path / "run" / "masked" / "seed-0" / "checkpoints"
    for old in list(mine.iterdir()):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    foreign = max((uninterrupted / RUNS[0] / "checkpoints").iterdir())
    foreign_copy = mine / foreign.name
    foreign_copy.mkdir()
    for file in foreign.iterdir():
        (foreign_copy / file.name).write_bytes(file.read_bytes())
    said = []
    with pytest.raises(MasklessError, match="None of the checkpoints"):
        resume(tmp_path / "run", warn=said.append)
    assert any("frames" in sentence for sentence in said)
    assert foreign_copy.exists()
