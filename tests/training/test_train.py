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
from maskless.training import checkpoints, folder, session
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


def test_killed_at_random_moments_and_resumed():
    """A hundred kills: `python benchmarks/kill.py`."""
    seed = int(os.environ.get("MASKLESS_TEST_SEED", random.randrange(2**32)))
    print(f"MASKLESS_TEST_SEED={seed}")
    script = TESTS.parent / "benchmarks" / "kill.py"
    small = ["--kills", "1", "--updates", "400", "--seed", str(seed)]
    path = f"{TESTS.parent / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, script, *small], capture_output=True, text=True, timeout=400,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"kills": 1' in done.stdout


def test_stopped_with_sigterm_and_resumed(tmp_path, uninterrupted, monkeypatch, capsys):
    place, save = tmp_path / "run", folder.save

    def signal_while_saving(config, program, states, update, *arguments, **options):
        if update == 12:
            signal.raise_signal(signal.SIGTERM)
        save(config, program, states, update, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(folder, "save", signal_while_saving)
        with pytest.raises(SystemExit) as stop:
            main([*ARGUMENTS, "--out", str(place)])
    assert stop.value.code == 128 + signal.SIGTERM
    output = capsys.readouterr().out.replace("\n", "")
    assert f"maskless train --resume {place}" in output
    saved = checkpoints.updates(place / RUNS[0] / "checkpoints")
    assert saved == [12, 13]  # the chunk that was going on was finished
    damaged = place / RUNS[0] / "checkpoints" / "update-000013"
    state = damaged / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-9])
    main(["train", "--resume", str(place), "--trust"])
    warning = capsys.readouterr().err.replace("\n", "")
    assert "warning:" in warning
    assert damaged.name in warning
    same_end(place, uninterrupted)


def test_nothing_that_is_printed_can_stop_a_training(tmp_path, uninterrupted, monkeypatch):
    place = tmp_path / "run"
    reader, writer = os.pipe()
    os.close(reader)
    streams = open("/dev/full", "w", encoding="ascii"), os.fdopen(writer, "w")  # noqa: SIM115
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", streams[0])
        patched.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as stop:
            main([*ARGUMENTS, "--out", str(place)])
    assert stop.value.code == 2  # what it said did not arrive
    same_end(place, uninterrupted)
    for stream in streams:
        with pytest.raises(OSError, match=r"No space|Broken pipe"):
            stream.close()


def test_who_resumes_a_running_training_is_refused_and_disturbs_nothing(
    tmp_path, uninterrupted, capsys
):
    place = tmp_path / "run"
    process = start(*ARGUMENTS, "--out", str(place))
    try:
        limit = time.monotonic() + 200
        while not checkpoints.updates(place / RUNS[1] / "checkpoints"):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < limit
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)  # so that it does not end too soon
        for how in (
            ["train", "--resume", str(place), "--trust"],
            [*ARGUMENTS, "--out", str(place)],
        ):
            with pytest.raises(SystemExit) as stop:
                main(how)
            assert stop.value.code == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"is being written by process {process.pid} on" in said
        assert "already holds a training" in said
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0, output
    same_end(place, uninterrupted)


def test_a_training_is_the_same_wherever_it_was_stopped(tmp_path, monkeypatch):
    """Also between two lines of its log, each of which is for ten updates here."""
    monkeypatch.setattr(session, "LOG_LINES", 4)
    config, save = small(frames=128 * UPDATES), folder.save
    whole = maskless.train(config, folder=tmp_path / "whole", show=False)

    def signal_while_saving(config, program, states, update, *arguments, **options):
        if update == 13:
            signal.raise_signal(signal.SIGTERM)
        save(config, program, states, update, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(folder, "save", signal_while_saving)
        stopped = maskless.train(config, folder=tmp_path / "a", checkpoint_minutes=0, show=False)
    assert (stopped.update, stopped.stopped_by) == (14, "SIGTERM")
    assert [row["update"] for row in stopped.rows[0]] == [10]
    stopped.save(tmp_path / "b")
    for name in ("a", "b"):
        resumed = maskless.train(folder=tmp_path / name, resume=True, trust=True, show=False)
        for ours, theirs in zip(resumed.rows, whole.rows, strict=True):
            assert [row | {"seconds": 0} for row in ours] == [
                row | {"seconds": 0} for row in theirs
            ]
        ours, theirs = (weights(tmp_path / x, RUNS[0]) for x in (name, "whole"))
        for part in ours:
            np.testing.assert_array_equal(ours[part], theirs[part])


def test_the_folder_tells_what_was_done(uninterrupted):
    config = json.loads((uninterrupted / "config.json").read_text())
    assert config["config"]["ppo"]["rollout"] == 8
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
    sentence = r"masked, seed 0, .*policy_loss became (nan|inf) in"
    with pytest.raises(MasklessError, match=sentence) as failed:
        maskless.train(config, folder=tmp_path / "run", checkpoint_minutes=0)
    assert "The environment gave a reward that is not finite" in str(failed.value)
    run = tmp_path / "run" / "masked" / "seed-0"
    kept = checkpoints.updates(run / "checkpoints")
    assert kept
    assert f"The checkpoint of update {kept[-1]} is kept." in str(failed.value)
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
        maskless.train(folder=place, resume=True, trust=True, warn=said.append)
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
            # There was no memory of failures then.
            forgetful = f"{masks}-forgetful"
            here = ours["masks"][forgetful if forgetful in ours["masks"] else masks]
            for name, number in numbers.items():
                # Of the bootstrap half as many samples were drawn then.
                error = {"abs": 0.02} if name in ("low", "high") else {"rel": 1e-5}
                assert here[name] == pytest.approx(number, **error), (masks, name)
