"""Random SIGKILLs, each resumed until the training is finished, and compared bit for bit.

    python benchmarks/kill.py --out results/kill.json           # 100 kills
    python benchmarks/kill.py --kills 5 --seed 1

Two small trainings are never disturbed; one of them goes on to finish its policies. Others like
them are killed: while they start, at a random time, or at a random file operation (of all, or of
those of policies) plus up to two milliseconds, so that files are cut in the middle too. What was
killed is resumed, or started again where nothing was saved yet, and may be killed again. In the
end weights, metrics (but for the clock) and the last checkpoint must be those of the undisturbed
one. Exits with 1 if any is not.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from maskless.provenance import provenance

RUNS = ("masked/seed-0", "masked-kl/seed-0")
TRAIN = [
    *("train", "--env", "staircase", "--conditions", "masked", "masked-kl", "--width", "8"),
    *("--num-envs", "8", "--rollout", "8", "--minibatches", "1", "--epochs", "1"),
]
FINISHING = ["--finish", "3000"]
EVERY = 4
"""Of so many trainings, one finishes its policies."""
SAVING = ["--checkpoint-minutes", "0.002"]
KINDS = {"starting": 0.1, "time": 0.35, "file": 0.35, "export": 0.2}
FILE_EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}
NO_PLAN = {"kind": "none", "operation": 0, "delay": 0.0}
LONGEST = 300.0
"""Seconds after which a training that was not killed counts as hanging."""


def main() -> None:
    options = _options()
    made_with = provenance()
    work = Path(tempfile.mkdtemp(prefix="kill-"))
    try:
        result = _attack(options, work)
    finally:
        if not options.keep_folders:
            shutil.rmtree(work, ignore_errors=True)
    summary = {
        name: result[name] for name in ("kills", "by_kind", "inside", "trainings", "different")
    }
    print(json.dumps(summary, indent=1))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result | {"provenance": made_with}, indent=1) + "\n")
    sys.exit(bool(result["different"]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, default=2000, help="of each training")
    parser.add_argument("--only", choices=KINDS, help="kill like this only")
    parser.add_argument("--workers", type=int, default=1, help="trainings at a time")
    parser.add_argument("--out", type=Path, help="where to write what happened, as JSON")
    parser.add_argument("--keep-folders", action="store_true", help="to look at afterwards")
    return parser.parse_args()


@dataclasses.dataclass(frozen=True)
class Undisturbed:
    """What a training that is not killed comes to."""

    command: list[str]
    folder: Path
    operations: dict[str, int]
    """Of all files, and of those of policies."""
    seconds: float


def _undisturbed(name: str, command: list[str], work: Path) -> Undisturbed:
    folder = work / name
    # It saves as often as the others, so that its file operations are as many.
    outcome = _run([*command, "--out", str(folder), *SAVING], folder, NO_PLAN)
    if outcome["code"] != 0:
        raise SystemExit(f"The undisturbed training failed:\n{outcome['said']}")
    operations = json.loads((work / f"{name}.operations").read_text())
    return Undisturbed(command, folder, operations, outcome["training_seconds"])


def _attack(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    began = time.monotonic()
    train = [*TRAIN, "--frames", str(options.updates * 64)]
    plain = _undisturbed("undisturbed", train, work)
    finished = _undisturbed("finished", [*train, *FINISHING], work)
    kills: list[dict[str, Any]] = []
    different: list[str] = []
    numbers = itertools.count()

    def work_on() -> None:
        while len(kills) < options.kills:
            number = next(numbers)
            twin = finished if number % EVERY == EVERY - 1 else plain
            place = work / f"training-{number}"
            different.extend(_disturbed(place, number, twin, kills, options))
            print(f"{len(kills)} kills, different: {different}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        for done in [pool.submit(work_on) for _ in range(options.workers)]:
            done.result()
    inside = collections.Counter(kill["inside"] for kill in kills if kill["inside"])
    return {
        "seed": options.seed,
        "updates": options.updates,
        "kills": len(kills),
        "by_kind": dict(collections.Counter(kill["kind"] for kill in kills)),
        "inside": dict(inside.most_common()),
        "trainings": next(numbers),
        "different": different,
        "file_operations": plain.operations,
        "seconds": round(time.monotonic() - began),
        "all": kills,
    }


def _disturbed(
    place: Path,
    number: int,
    twin: Undisturbed,
    kills: list[dict[str, Any]],
    options: argparse.Namespace,
) -> list[str]:
    """A training that is killed and resumed until it ends: how it differs from its twin."""
    chance = random.Random(f"{options.seed} {number}")
    keep = [*SAVING, "--keep", str(1 + number % 2)]
    while True:
        resumed = (place / "config.json").exists()
        how = ["train", "--resume", str(place)] if resumed else [*twin.command, "--out", str(place)]
        plan = _plan(chance, twin, {options.only: 1.0} if options.only else KINDS)
        if len(kills) >= options.kills:
            plan = plan | NO_PLAN
        outcome = _run([*how, *keep], place, plan)
        if not outcome["killed"]:
            break
        about = {"training": place.name, "finishes": "--finish" in twin.command}
        kills.append(plan | about | {"resumed": resumed, "inside": outcome["inside"]})
    if outcome["code"] != 0:
        found = [f"{place.name}: ended with {outcome['code']}: {outcome['said']}"]
    else:
        found = [f"{place.name}: {what}" for what in _differences(place, twin.folder)]
    if not options.keep_folders:
        shutil.rmtree(place, ignore_errors=True)
    return found


def _plan(chance: random.Random, twin: Undisturbed, kinds: dict[str, float]) -> dict[str, Any]:
    (kind,) = chance.choices(list(kinds), list(kinds.values()))
    among = twin.operations.get(kind)
    return {
        "kind": kind,
        "operation": chance.randrange(1, among + 1) if among else 0,
        "delay": {
            "starting": chance.uniform(0.0, 8.0),
            "time": chance.uniform(0.0, twin.seconds),
        }.get(kind, chance.uniform(0.0, 0.002)),
    }


def _run(command: list[str], place: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """One process, killed as planned if it lives so long."""
    log, inside = place / RUNS[1] / "metrics.jsonl", Path(f"{place}.inside")
    inside.unlink(missing_ok=True)
    before = log.stat().st_mtime_ns if log.exists() else 0
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", str(place), json.dumps(plan), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    began = time.monotonic()
    first_line = began
    if plan["kind"] == "starting":
        _wait(process, plan["delay"])
    else:
        # The log is written anew at the start and then line by line.
        while process.poll() is None and time.monotonic() < began + LONGEST:
            if log.exists() and log.stat().st_mtime_ns > before and log.stat().st_size:
                break
            time.sleep(0.005)
        first_line = time.monotonic()
        _wait(process, plan["delay"] if plan["kind"] == "time" else LONGEST)
    process.kill()  # nothing, where it has ended
    said, _ = process.communicate()
    return {
        "killed": process.returncode == -signal.SIGKILL,
        "code": process.returncode,
        "said": said[-2000:],
        "inside": inside.read_text() if inside.exists() else None,
        "training_seconds": time.monotonic() - first_line,
    }


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _child() -> None:
    """`maskless` in this process, which counts its file operations in the folder and kills itself
    at the planned one."""
    place, plan, *command = sys.argv[2:]
    planned, told = json.loads(plan), list[str]()
    counts = {"file": 0, "export": 0}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and f"{place}/" in str(arguments[0]):
            part = _part(str(arguments[0]).removeprefix(place))
            counts["file"] += 1
            counts["export"] += part in ("policy", "finish")
            if counts.get(planned["kind"]) == planned["operation"] and not told:
                told.append(part)
                Path(f"{place}.inside").write_text(part)
                # In a thread, so that the operation and those after it go on until then.
                threading.Timer(planned["delay"], os.kill, (os.getpid(), signal.SIGKILL)).start()

    sys.addaudithook(hook)
    from maskless.cli import main as maskless

    maskless(command)
    Path(f"{place}.operations").write_text(json.dumps(counts))


def _part(path: str) -> str:
    """Which part of a folder a file belongs to."""
    parts = ("checkpoints", "policy", "metrics", "finish", "config")
    return next((part for part in parts if part in path), "other")


def _differences(place: Path, whole: Path) -> list[str]:
    """What is not as in the undisturbed training."""
    found = []
    for run in RUNS:
        ours, theirs = place / run, whole / run
        for name in ("policy/weights.safetensors", "policy/policy.json"):
            if not (ours / name).exists() or _bytes(ours / name) != _bytes(theirs / name):
                found.append(f"{run}/{name}")
        if _metrics(ours) != _metrics(theirs):
            found.append(f"{run}/metrics.jsonl")
        last = sorted((theirs / "checkpoints").iterdir())[-1].name
        if _bytes(ours / "checkpoints" / last / "state.safetensors") != _bytes(
            theirs / "checkpoints" / last / "state.safetensors"
        ):
            found.append(f"{run}/checkpoints/{last}")
    return found


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _metrics(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: x for name, x in row.items() if name != "seconds"} for row in rows]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child()
    else:
        main()
