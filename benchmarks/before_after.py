"""Is a tree of ours slower than an older one? Every case of `maskless bench --suite gpu`, in turn.

    git archive a04e1a3 src | tar x -C OLD
    python benchmarks/before_after.py OLD/src src --precision bfloat16 --out results/bench

Each tree has a process of its own, which compiles everything; then both measure one case after the
other, never at the same time. (Two processes share the GPU's memory: neither takes it all at once.)
"""

import fcntl
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro


@dataclass(frozen=True)
class Arguments:
    """Which trees, and what is measured."""

    before: tyro.conf.Positional[Path]
    after: tyro.conf.Positional[Path]
    suite: str = "gpu"
    only: tuple[str, ...] = ()
    precision: str = "float32"
    seconds: float = 5.0
    out: Path = Path("runs/bench")


def main() -> None:
    arguments = tyro.cli(Arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    processes = []
    for name in ("before", "after"):
        (arguments.out / f".{name}").unlink(missing_ok=True)
        source = str(getattr(arguments, name).resolve())
        paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "JAX_ENABLE_COMPILATION_CACHE": "false",
        }
        command = [sys.executable, __file__, "measure", name, _as_json(arguments)]
        processes.append(subprocess.Popen(command, env=environment))
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(1)
    merge(arguments.out, arguments.suite)


def _as_json(arguments: Arguments) -> str:
    return json.dumps(vars(arguments), default=str)


def measure(name: str, arguments: dict[str, Any]) -> None:
    """One tree, in a process whose PYTHONPATH begins with it."""
    benchmark = importlib.import_module("maskless.benchmark")
    out, results = Path(arguments["out"]), []
    for function in ("_upstream_speed", "_measure"):
        setattr(benchmark, function, one_at_a_time(getattr(benchmark, function), name, out))

    def keep(result: dict[str, Any]) -> None:
        results.append(result)
        case = f"{result['env']} {result['net']} x {result['runs']}"
        print(f"{name}: {case}: {result['frames_per_second']:,} frames/s", flush=True)
        (out / f".{name}.json").write_text(json.dumps(results))

    suite = benchmark.cases(arguments["suite"], tuple(arguments["only"]))
    how = {key: arguments[key] for key in ("seconds", "precision")}
    benchmark.measure(suite, on_result=keep, **how)


def one_at_a_time(function: Callable, name: str, out: Path) -> Callable:
    """Waits until both processes have compiled, and then for the other's measurement."""

    def call(*args: Any) -> Any:
        (out / f".{name}").touch()
        while not all((out / f".{other}").exists() for other in ("before", "after")):
            time.sleep(0.1)
        with (out / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = function(*args)
        time.sleep(0.2)  # the other's turn
        return result

    return call


def merge(out: Path, suite: str) -> None:
    from maskless.files import write_json
    from maskless.provenance import provenance

    before, after = (
        json.loads((out / f".{name}.json").read_text()) for name in ("before", "after")
    )
    rows = [
        {
            "case": f"{new['env']} {new['net']} x {new['runs']}",
            "before": old["frames_per_second"],
            "after": new["frames_per_second"],
            "ratio": round(new["frames_per_second"] / old["frames_per_second"], 4),
            "compile_seconds": [old["compile_seconds"], new["compile_seconds"]],
            "memory_bytes": [old["memory_bytes"], new["memory_bytes"]],
            "updates": [old["updates"], new["updates"]],
            "precision": new["precision"],
        }
        for old, new in zip(before, after, strict=True)
    ]
    write_json(out / f"before-after-{suite}.json", provenance() | {"results": rows})
    for row in rows:
        print(f"{row['case']}: {row['before']:,} -> {row['after']:,} ({row['ratio']:.3f})")
    for name in ("before", "after"):
        (out / f".{name}").unlink()
        (out / f".{name}.json").unlink()


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main()
