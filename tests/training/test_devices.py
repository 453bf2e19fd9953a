"""More devices, and more processes, give the numbers of one."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import safetensors.numpy

from maskless.cli.train import Train
from maskless.errors import MasklessError
from maskless.training import checkpoints, devices
from maskless.training.log import read_metrics

TESTS = Path(__file__).parents[1]
# Sums are added up in another order: see docs/training.md.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TRAIN = [sys.executable, "-m", "maskless", "train"]


def start(*arguments):
    """A process with two CPU devices. Compiling fast matters more here than running fast."""
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
    if jax.__version_info__ < (0, 11):  # later versions do not know this flag
        flags += " --xla_cpu_use_fusion_emitters=false"
    path = f"{TESTS}:{TESTS.parent / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    settings = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": path}
    return subprocess.Popen(
        [*map(str, arguments)], cwd=TESTS, env=os.environ | settings, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finish(process, timeout=300):
    output, _ = process.communicate(timeout=timeout)
    return process.returncode, output


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What on_two_devices.py found, for each network."""
    folder = tmp_path_factory.mktemp("devices")
    code, output = finish(start(sys.executable, TESTS / "training" / "on_two_devices.py", folder))
    assert code == 0, output
    return {net: dict(np.load(folder / f"{net}.npz")) for net in ("mlp", "gru")}


def of(found, way):
    return {name.partition("|")[2]: x for name, x in found.items() if name.startswith(f"{way}|")}


def assert_close(ours, theirs):
    """All whole numbers are the same (so every action, too), the others up to rounding."""
    assert ours
    for name, values in ours.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, theirs[name], err_msg=name, **CLOSE)
        else:
            np.testing.assert_array_equal(values, theirs[name], err_msg=name)


@pytest.mark.parametrize("net", ["mlp", "gru"])
@pytest.mark.parametrize(("way", "shape"), [("split_runs", (2, 1)), ("split_envs", (1, 2))])
def test_two_devices_give_the_numbers_of_one_after_ten_updates(trained, net, way, shape):
    divided, alone = of(trained[net], way), of(trained[net], "alone")
    assert tuple(divided.pop("mesh")) == shape
    assert tuple(alone.pop("mesh")) == (1, 1)
    assert any(name.startswith("0|params/") for name in divided)
    assert any(name.startswith("0|actor/worlds/states/") for name in divided)
    assert_close(divided, alone)


@pytest.mark.parametrize("net", ["mlp", "gru"])
@pytest.mark.parametrize("way", ["split_runs", "split_envs"])
def test_going_on_from_saved_states_changes_no_bit_on_the_same_devices(trained, net, way):
    whole, resumed = of(trained[net], way), of(trained[net], f"{way}_resumed")
    for name, values in resumed.items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)


UPDATES = 24
COMMAND = [
    *TRAIN, "--env", "toys:Tower", "--preset", "paper", "--conditions", "masked-kl", "--seeds", "2",
    "--width", "8",
    "--num-envs", "8", "--rollout", "8", "--minibatches", "2", "--epochs", "1",
    "--learning-rate", "1e-3", "--no-anneal", "--no-diagnostics", "--frames", str(UPDATES * 64),
]  # fmt: skip
RUNS = ("masked-kl/seed-0", "masked-kl/seed-1")


def both(*arguments):
    """Two processes of one training."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    flags = ["--distributed", "--coordinator", f"localhost:{port}", "--processes", "2", "--process"]
    return [start(*arguments, *flags, i) for i in range(2)]


def finish_both(processes):
    try:
        return list(zip(*(finish(process) for process in processes), strict=True))
    finally:
        for process in processes:
            process.kill()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A training in two processes with two devices each, of which one got SIGTERM."""
    folder = tmp_path_factory.mktemp("processes") / "run"
    keeping = ("--checkpoint-minutes", "0", "--keep", str(UPDATES))
    processes = both(*COMMAND, "--out", folder, *keeping)
    limit = time.monotonic() + 200
    while processes[0].poll() is None and time.monotonic() < limit:
        if max(checkpoints.updates(folder / RUNS[1] / "checkpoints"), default=0) >= 10:
            break
        time.sleep(0.002)
    processes[1].send_signal(signal.SIGTERM)
    codes, outputs = finish_both(processes)
    assert codes == (128 + signal.SIGTERM,) * 2, "\n".join(outputs)
    return folder, outputs


def test_two_processes_give_the_numbers_of_one_after_ten_updates(stopped, trained):
    folder, outputs = stopped
    assert "4 of 4 devices" in outputs[0]
    alone = of(trained["mlp"], "alone")
    for number, run in enumerate(RUNS):
        saved = folder / run / "checkpoints" / "update-000010" / "state.safetensors"
        ours = safetensors.numpy.load_file(saved)
        assert_close({f"{number}|{name}": value for name, value in ours.items()}, alone)


def test_a_signal_to_one_process_stops_both_and_they_go_on(stopped):
    folder, outputs = stopped
    assert "SIGTERM" in outputs[1]
    assert f"maskless train --resume {folder}" in outputs[0].replace("\n", "")
    assert "--resume" not in outputs[1]  # the first process speaks for all
    newest = [checkpoints.updates(folder / run / "checkpoints")[-1] for run in RUNS]
    assert newest[0] == newest[1] < UPDATES
    resumed = both(*TRAIN, "--resume", folder, "--trust")
    codes, outputs = finish_both(resumed)
    assert codes == (0, 0), "\n".join(outputs)
    for run in RUNS:
        log = read_metrics(folder / run / "metrics.jsonl")
        assert [line["update"] for line in log] == list(range(1, UPDATES + 1))
        assert (folder / run / "policy" / "weights.safetensors").exists()


def test_processes_that_do_not_find_each_other_say_so():
    command = (
        "import maskless.training.processes as p; p.CONNECT_SECONDS = 1; import maskless.cli;"
        "maskless.cli.main(['train', '--env', 'staircase', '--distributed', '--coordinator',"
        "'localhost:1', '--processes', '2', '--process', '1'])"
    )
    code, output = finish(start(sys.executable, "-c", command))
    assert code == 2
    (sentence,) = output.strip().splitlines()
    assert "did not find each other at localhost:1 within 1 seconds" in sentence


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"processes": 2}, "--processes is for many processes: add --distributed"),
        ({"distributed": True, "coordinator": "here"}, "HOST:PORT, not 'here'"),
        ({"distributed": True, "processes": 0}, "--processes must be at least 1"),
        ({"distributed": True, "processes": 2, "process": 2}, "from 0 to --processes - 1, not 2"),
        ({"distributed": True, "coordinator": "a:1", "processes": 2}, "cannot be connected"),
    ],
)
def test_wrong_flags_are_refused(flags, complaint):
    with pytest.raises(MasklessError, match=complaint):
        Train(env="staircase", **flags).run()


@pytest.mark.parametrize(
    ("runs", "envs", "processes", "most", "shape"),
    [
        (16, 1024, 1, 1, (1, 1)),
        (16, 1024, 1, 8, (8, 1)),
        (2, 1024, 1, 8, (2, 4)),
        (1, 1024, 1, 8, (1, 8)),
        (3, 1024, 1, 8, (3, 2)),  # two idle
        (12, 1024, 1, 8, (6, 1)),  # two idle
        (5, 7, 1, 3, (1, 1)),
        (16, 1024, 2, 4, (8, 1)),
        (3, 1024, 2, 4, (3, 2)),  # one idle in each
        (3, 15, 2, 4, None),
    ],
)
def test_runs_are_divided_before_environments(runs, envs, processes, most, shape):
    assert devices.divide(runs, envs, processes, most) == shape


def test_a_number_of_processes_that_fits_nothing_is_refused(monkeypatch):
    there = [SimpleNamespace(process_index=process) for process in range(6)]
    monkeypatch.setattr(jax, "devices", lambda: there)
    with pytest.raises(MasklessError, match=r"6 processes .* start 1, 2 or 4 of them"):
        devices.mesh_for(runs=2, envs=8)


def test_one_device_needs_no_mesh():
    assert devices.mesh_for(runs=4, envs=8, at_most=1) is None
