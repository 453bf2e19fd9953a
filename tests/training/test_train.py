"""A training as its user sees it: the folder, being killed, going on, failing.

The program is compiled once, for the training that is never interrupted: all others have its
shapes, and find it in the compilation cache. Only the one that is killed is another process.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import maskless
from maskless.cli import main
from maskless.config import Config
from maskless.errors import MasklessError
from maskless.hyperparameters import Hyperparameters
from maskless.training import checkpoints, folder
from maskless.training.log import read_metrics

TESTS = Path(__file__).parents[1]
UPDATES = 40
ARGUMENTS = [
    "train", "--env", "toys:MaskedBandit", "--width", "16",
    "--num-envs", "16", "--rollout", "8", "--minibatches", "2", "--epochs", "1",
    "--conditions", "masked", "masked-kl", "--frames", str(UPDATES * 128),
    "--checkpoint-minutes", "0",
]  # fmt: skip
RUNS = ("masked/seed-0", "masked-kl/seed-0")


def start(*arguments):
    path = f"{TESTS}:{TESTS.parent / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    return subprocess.Popen(
        [sys.executable, "-m", "maskless", *arguments],
        cwd=TESTS, env=os.environ | {"PYTHONPATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def weights(place, run):
    return safetensors.numpy.load_file(place / run / "policy" / "weights.safetensors")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole") / "run"
    main([*ARGUMENTS, "--out", str(place)])
    return place


def same_end(place, uninterrupted):
    """The same parameters, bit for bit, and the same log but for the clock."""
    for run in RUNS:
        ours, theirs = weights(place, run), weights(uninterrupted, run)
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])
        logs = [read_metrics(f / run / "metrics.jsonl") for f in (place, uninterrupted)]
        for log in logs:
            for line in log:
                del line["seconds"]
        assert logs[0] == logs[1]


def kill_after(place, updates):
    """Starts a training and kills it once its second run has saved so many updates."""
    process = start(*ARGUMENTS, "--out", str(place))
    limit = time.monotonic() + 200
    try:
        while process.poll() is None and time.monotonic() < limit:
            if max(checkpoints.updates(place / RUNS[1] / "checkpoints"), default=0) >= updates:
                break
            time.sleep(0.002)
    finally:
        process.kill()
        output, _ = process.communicate()
    return process.returncode, output


def test_killed_at_a_random_moment_and_resumed(tmp_path, uninterrupted):
    seed = int(os.environ.get("MASKLESS_TEST_SEED", random.randrange(2**32)))
    print(f"MASKLESS_TEST_SEED={seed}")
    after = random.Random(seed).randrange(1, UPDATES // 2)
    code, output = kill_after(tmp_path / "run", after)
    assert code == -signal.SIGKILL, output
    assert not (tmp_path / "run" / RUNS[0] / "policy").exists()
    main(["train", "--resume", str(tmp_path / "run")])
    same_end(tmp_path / "run", uninterrupted)


def test_stopped_with_sigterm_and_resumed(tmp_path, uninterrupted, monkeypatch, capsys):
    place, save = tmp_path / "run", folder.save

    def signal_while_saving(config, program, states, update, *arguments, **options):
        if update == 12:
            signal.raise_signal(signal.SIGTERM)
        save(config, program, states, update, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(folder, "save", signal_while_saving)
        main([*ARGUMENTS, "--out", str(place)])
    output = capsys.readouterr().out.replace("\n", "")
    assert f"maskless train --resume {place}" in output
    saved = checkpoints.updates(place / RUNS[0] / "checkpoints")
    assert saved == [12, 13]  # the chunk that was going on was finished
    damaged = place / RUNS[0] / "checkpoints" / "update-000013"
    state = damaged / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-9])
    main(["train", "--resume", str(place)])
    warning = capsys.readouterr().err.replace("\n", "")
    assert "warning:" in warning
    assert damaged.name in warning
    same_end(place, uninterrupted)


def test_the_folder_tells_what_was_done(uninterrupted):
    config = json.loads((uninterrupted / "config.json").read_text())
    assert config["config"]["ppo"]["gae_lambda"] == 0.8
    assert config["versions"]["jax"]
    assert folder.read_config(uninterrupted).conditions == ("masked", "masked-kl")
    for run, condition in zip(RUNS, ("masked", "masked-kl"), strict=True):
        about = json.loads((uninterrupted / run / "config.json").read_text())
        assert (about["condition_name"], about["seed"]) == (condition, 0)
        assert about["condition"]["masked"] is True
        log = read_metrics(uninterrupted / run / "metrics.jsonl")
        assert [line["update"] for line in log] == list(range(1, UPDATES + 1))
        assert log[-1]["frames"] == UPDATES * 128
        assert len(log[-1]["probability_valid"]) == 4
        assert checkpoints.updates(uninterrupted / run / "checkpoints") == [UPDATES - 1, UPDATES]
        policy = json.loads((uninterrupted / run / "policy" / "policy.json").read_text())
        assert policy["action_names"] == ["first", "second", "third", "fourth"]


def test_a_folder_is_not_trained_into_twice(uninterrupted, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*ARGUMENTS, "--out", str(uninterrupted)])
    assert stop.value.code == 2
    assert "--resume" in capsys.readouterr().err


def small(**changes):
    settings = {
        "env": "toys:MaskedBandit",
        "width": 16,
        "frames": 128 * 30,
        "ppo": Hyperparameters(num_envs=16, rollout=8, minibatches=2, epochs=1),
        "diagnostics": False,
    } | changes
    return Config(**settings)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    maskless.register("exploding", "toys:Exploding")
    config = small(env="exploding")
    with pytest.raises(MasklessError, match=r"masked, seed 0, .*policy_loss became (nan|inf) in"):
        maskless.train(config, folder=tmp_path / "run", checkpoint_minutes=0)
    run = tmp_path / "run" / "masked" / "seed-0"
    kept = checkpoints.updates(run / "checkpoints")
    assert kept
    log = read_metrics(run / "metrics.jsonl")
    assert log[-1]["update"] == kept[-1]
    assert all(np.isfinite(line["value_loss"]) for line in log)
    with pytest.raises(MasklessError, match=f"update {kept[-1] + 1} "):
        maskless.train(folder=tmp_path / "run", resume=True, warn=lambda sentence: None)


def test_a_checkpoint_of_another_training_is_refused(tmp_path, uninterrupted):
    """Of the same environment, network and seed, but with other numbers."""
    place, run = tmp_path / "run", "masked/seed-0"
    shutil.copytree(uninterrupted, place)
    for path in (place / "config.json", *(place / run / "config.json" for run in RUNS)):
        about = json.loads(path.read_text())
        about["config"]["frames"] += 128
        path.write_text(json.dumps(about))
    said = []
    with pytest.raises(MasklessError, match="None of the checkpoints"):
        maskless.train(folder=place, resume=True, warn=said.append)
    assert any("frames" in sentence for sentence in said)
    assert checkpoints.updates(place / run / "checkpoints") == [UPDATES - 1, UPDATES]


OLD = TESTS / "data" / "old-run"
"""Four updates of the staircase by maskless 0.1.0 before `maskless.train` returned a `Training`;
all checkpoints but the second one's were removed, as if it had been killed then."""


def test_a_folder_of_an_older_version_is_evaluated_and_resumed(tmp_path):
    place = tmp_path / "old-run"
    shutil.copytree(OLD, place)
    expected = json.loads((OLD / "evaluation.json").read_text())
    episodes = expected["settings"]["episodes"]
    before = maskless.evaluate(place, episodes=episodes)
    assert [run.update for run in before.runs] == [2, 2]
    for run in ("masked/seed-0", "unmasked-kl/seed-0"):
        shutil.rmtree(place / run / "policy")
    training = maskless.train(folder=place, resume=True, warn=pytest.fail)
    assert training.complete
    for run in ("masked/seed-0", "unmasked-kl/seed-0"):
        old = weights(OLD, run)
        for name, values in weights(place, run).items():
            np.testing.assert_allclose(values, old[name], rtol=1e-5, atol=1e-7)
        assert maskless.load(OLD / run).action_names == training.policies[0].action_names
    again = training.evaluate(episodes=episodes)
    for ours, theirs in zip(again.to_json()["runs"], expected["runs"], strict=True):
        for masks, numbers in theirs["masks"].items():
            assert ours["masks"][masks] == pytest.approx(numbers, rel=1e-5)
