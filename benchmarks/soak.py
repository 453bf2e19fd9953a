"""Does anything grow? An hour of training and a million decisions, looked at from outside.

    python benchmarks/soak.py                                   # an hour and more
    python benchmarks/soak.py --minutes 2 --decisions 1e4 --out /tmp/soak

Trains for half of the time in JAX and for half in a Gymnasium environment with worker processes,
both with checkpoints all the time, as `maskless train` and stopped with SIGTERM; then a policy of
the first decides, one observation at a time, in JAX and in NumPy. Every few seconds the memory
(resident, of all processes together), threads and open files of the process are noted. Writes
soak.json and soak.svg; exits with 1 if anything grew.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maskless.provenance import provenance

COLUMNS = ("memory", "threads", "files")
TRAININGS = {
    "training (staircase)": ["--env", "staircase"],
    "training (Gymnasium, 2 workers)": [
        *("--env", "gymnasium:Taxi-v3", "--env-options", "workers=2"),
    ],
}
SAME = [
    *("--conditions", "masked", "masked-kl", "--width", "32", "--num-envs", "32"),
    *("--rollout", "32", "--minibatches", "2", "--epochs", "1"),
    *("--frames", "1e9", "--checkpoint-minutes", "0.1"),
]
WARM_UP = 0.2
"""This part of the time is left out: caches fill, and the allocator finds its size."""
GROWTH = 0.02
"""So much more memory at the end than after warming up counts as noise."""


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    made_with = provenance()
    work = Path(tempfile.mkdtemp(prefix="soak-"))
    phases: dict[str, dict[str, Any]] = {}
    try:
        for number, (name, flags) in enumerate(TRAININGS.items()):
            folder = work / str(number)
            command = ["-m", "maskless", "train", *flags, *SAME, "--out", str(folder)]
            phases[name] = _watch(command, options.minutes * 60 / len(TRAININGS))
            phases[name] |= _trained(folder)
        # A training that is stopped exports no policy: its checkpoint does.
        _run("-m", "maskless", "export", str(work / "0" / "masked-kl" / "seed-0"))
        phases |= _watch_deciding(work / "0" / "masked-kl" / "seed-0", options)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    grew = [f"{name}: {what}" for name, phase in phases.items() for what in _growing(phase)]
    for phase in phases.values():
        phase["seconds"] = phase["samples"][-1][0]
    result = {"provenance": made_with, "minutes": options.minutes, "grew": grew, "phases": phases}
    (options.out / "soak.json").write_text(_json(result))
    _draw(phases, options.out / "soak.svg")
    for name, phase in phases.items():
        print(f"{name}: {json.dumps(phase['summary'])}")
    print(f"grew: {', '.join(grew) or 'nothing'}")
    sys.exit(bool(grew))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="of training")
    parser.add_argument("--decisions", type=float, default=1e6)
    parser.add_argument(
        "--deciding-minutes", type=float, default=float("inf"), help="no longer than this"
    )
    parser.add_argument("--out", type=Path, default=Path("results/soak"))
    parser.add_argument("--decide", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--numpy", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.decide is not None and options.numpy:
        _decide_in_numpy(options.decide, int(options.decisions))
        sys.exit()
    if options.decide is not None:
        _decide(options.decide, int(options.decisions), options.deciding_minutes)
        sys.exit()
    return options


def _watch_deciding(policy: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """With and without JAX."""
    decide = [__file__, "--decide", str(policy), "--decisions", str(options.decisions)]
    decide += ["--deciding-minutes", str(options.deciding_minutes)]
    return {
        "deciding": _watch(decide, None),
        "deciding (NumPy)": _watch([*decide, "--numpy"], None),
    }


def _decide_in_numpy(policy_folder: Path, decisions: int) -> None:
    """The same as below, without JAX."""
    import numpy as np

    from maskless import runtime

    policy = runtime.load(policy_folder)
    observation = np.zeros(policy.fields[0].shape, policy.fields[0].dtype)
    for number in range(decisions):
        policy.act(observation, rng=number)
    print(decisions)


def _decide(policy_folder: Path, decisions: int, minutes: float) -> None:
    """In a process of its own: what a deployed policy does. Prints how many decisions it made."""
    import jax
    import numpy as np

    import maskless

    policy = maskless.load(policy_folder)
    random = np.random.default_rng(0)
    env = maskless.make("staircase")
    observation, _ = env.reset(jax.random.key(0))
    ends, done = time.monotonic() + 60 * minutes, 0
    for number in range(decisions):
        if time.monotonic() > ends:
            break
        done += 1
        if number % 1000 == 0:  # new keys now and then: making them is not what is measured
            keys = list(jax.random.split(jax.random.key(int(random.integers(2**31))), 1000))
        policy.act(observation, key=keys[number % 1000])
    assert policy.counts["actions"] == done
    print(done)


def _watch(command: list[str], seconds: float | None) -> dict[str, Any]:
    """Runs Python with `command`, for some seconds or until it ends; what was seen of it."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        samples = _sample(process, seconds)
    finally:
        process.kill()
    said = process.communicate()[0].strip()
    expected = 0 if seconds is None else 128 + signal.SIGTERM
    if process.returncode != expected:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    decided = {"decisions": int(said)} if said.isdecimal() else {}
    return decided | {"summary": _summary(samples), "samples": samples}


def _sample(process: subprocess.Popen[str], seconds: float | None) -> list[list[float]]:
    """[seconds since the start, memory, threads, files], every now and then."""
    began, pause = time.monotonic(), 1.0
    samples: list[list[float]] = []
    while process.poll() is None:
        now = time.monotonic() - began
        if seconds is not None and now > seconds:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=300)
            break
        if seen := _look(process.pid):
            samples.append([round(now, 1), *seen])
        if len(samples) >= 600:  # as many as a figure needs
            samples, pause = samples[::2], 2 * pause
        time.sleep(pause)
    return samples


def _look(pid: int) -> tuple[float, int, int] | None:
    """MiB of the process and its children; its threads and its open files."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        processes = [pid, *map(int, children)]
        memory = sum(_status(each, "VmRSS") for each in processes) / 1024
        return round(memory, 1), _status(pid, "Threads"), len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, ValueError):  # it is just ending
        return None


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise ValueError(name)


def _summary(samples: list[list[float]]) -> dict[str, list[float]]:
    """After warming up and at the end: the median of a fifth of the time each."""
    end = samples[-1][0]
    early = [row for row in samples if WARM_UP * end <= row[0] < 2 * WARM_UP * end]
    late = [row for row in samples if row[0] >= (1 - WARM_UP) * end]
    return {
        name: [statistics.median(row[column] for row in part) for part in (early, late)]
        for column, name in enumerate(COLUMNS, start=1)
    }


def _growing(phase: dict[str, Any]) -> list[str]:
    """What is more at the end than it was after warming up."""
    allowed: dict[str, Callable[[float], float]] = {
        "memory": lambda before: before * (1 + GROWTH),
        "threads": lambda before: before,
        "files": lambda before: before + 1,  # one may be open at the moment
    }
    return [
        f"{name} from {before:g} to {after:g}"
        for name, (before, after) in phase["summary"].items()
        if after > allowed[name](before)
    ]


def _trained(folder: Path) -> dict[str, int]:
    metrics = (folder / "masked" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    frames = json.loads(metrics[-1])["frames"] if metrics else 0
    return {"frames": frames, "lines": len(metrics)}


def _run(*command: str) -> None:
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


def _json(result: dict[str, Any]) -> str:
    """Indented, with each sample in one line."""
    text = json.dumps(result, indent=1)
    rows = re.compile(r"\[\s+([^][{}]*?)\s+\]")
    return rows.sub(lambda row: f"[{' '.join(row[1].split())}]", text) + "\n"


def _draw(phases: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(COLUMNS), len(phases), figsize=(4 * len(phases), 6), sharex="col", squeeze=False
    )
    labels = ("memory (MiB)", "threads", "open files")
    for column, (name, phase) in enumerate(phases.items()):
        minutes = [row[0] / 60 for row in phase["samples"]]
        axes[0][column].set_title(name, fontsize=10)
        axes[-1][column].set_xlabel("minutes")
        for row in range(len(COLUMNS)):
            values = [sample[row + 1] for sample in phase["samples"]]
            axes[row][column].plot(minutes, values, linewidth=1)
            axes[row][column].set_ylim(0, 1.15 * max(values))
            if column == 0:
                axes[row][column].set_ylabel(labels[row])
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
