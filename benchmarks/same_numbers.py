"""Do two versions of the code compute the same numbers, bit for bit, on this machine?

python benchmarks/same_numbers.py BEFORE/src AFTER/src [--out runs/same-numbers]

Ten updates of three worlds with three networks, with and without a classifier, and an evaluation
of each, through the command line of either version; then logs (but for the clock), weights and
evaluations are compared. About eight minutes a version on two cores. What is in OUT is not made
again.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WORLDS = ("staircase", "corridor-r2", "craftax-classic")
NETS = {
    "mlp": ("--num-envs", "32", "--rollout", "32", "--frames", "10240"),
    "gru": ("--num-envs", "32", "--rollout", "32", "--frames", "10240"),
    "hybrid": ("--num-envs", "16", "--rollout", "128", "--frames", "20480"),
}
SHARED = ("--preset", "cpu", "--minibatches", "4", "--width", "64", "--checkpoint-minutes", "100")
CONDITIONS = ("masked", "masked-kl", "unmasked", "masked-loop")


def record(source: Path, out: Path) -> None:
    """Trains and evaluates every case into `out` with the code in `source`."""
    environment = os.environ | {"PYTHONPATH": str(source.resolve())}
    maskless = [sys.executable, "-m", "maskless"]
    for env in WORLDS:
        for net, sizes in NETS.items():
            folder = out / f"{env}-{net}"
            if (folder / "evaluation.json").exists():
                continue
            print(f"{source}: {env}, {net}", flush=True)
            train = [*maskless, "train", "--env", env, "--net", net, *SHARED, *sizes]
            train += ["--conditions", *CONDITIONS, "--out", str(folder)]
            subprocess.run(train, env=environment, check=True, capture_output=True)
            evaluate = [*maskless, "eval", str(folder), "--episodes", "32", "--envs", "16"]
            subprocess.run(evaluate, env=environment, check=True, capture_output=True)


def numbers(folder: Path) -> dict[str, Any]:
    """What must be the same, by file."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("metrics.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found[str(path.relative_to(folder))] = [row | {"seconds": None} for row in rows]
    for path in sorted(folder.rglob("weights.safetensors")):
        found[str(path.relative_to(folder))] = path.read_bytes()
    for path in sorted(folder.glob("*/evaluation.json")):
        content = json.loads(path.read_text())
        runs = [run["masks"] for run in content["runs"]]
        found[str(path.relative_to(folder))] = (content["conditions"], content["settings"], runs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/same-numbers"))
    arguments = parser.parse_args()
    folders = [arguments.out / name for name in ("before", "after")]
    for source, folder in zip((arguments.before, arguments.after), folders, strict=True):
        record(source, folder)
    before, after = (numbers(folder) for folder in folders)
    different = [
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    ]
    for name in sorted(different):
        print(f"differs: {name}")
    print(f"{len(before)} files compared, {len(different)} differ")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
