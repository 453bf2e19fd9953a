"""`maskless bench`: how fast training is on this machine."""

import dataclasses
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from maskless.cli.common import OUT
from maskless.errors import MasklessError


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure training: frames per second, memory, compile time, and the ratio to upstream's game.

    Example: maskless bench --suite cpu

    Example: maskless bench --suite gpu --only corridor-r5 --out results/bench
    """

    suite: str = "cpu"
    """gpu: the paper's settings, many runs together. cpu: what two cores can do."""
    only: tuple[str, ...] = ()
    """Only the cases of these environments or networks."""
    seconds: float = 5.0
    """How long each case is measured, about."""
    precision: str = "float32"
    """What the networks compute in: float32 or bfloat16."""
    out: Path = Path("runs/bench")
    """Folder for train-SUITE.json."""

    def run(self) -> None:
        from maskless.benchmark import cases, measure
        from maskless.files import output_folder, write_json
        from maskless.provenance import provenance

        if not self.seconds > 0:
            raise MasklessError(f"--seconds must be above 0, not {self.seconds}.")
        suite = cases(self.suite, self.only)
        path = output_folder(self.out) / f"train-{self.suite}.json"
        started = time.monotonic()
        results: list[dict[str, Any]] = []

        def keep(result: dict[str, Any]) -> None:
            results.append(result)
            run = {"suite": self.suite, "seconds": round(time.monotonic() - started, 1)}
            write_json(path, provenance() | run | {"results": results})
            OUT.print(
                f"{time.monotonic() - started:4.0f} s  {result['env']} {result['net']} x"
                f" {result['runs']}: {result['frames_per_second']:,} frames/s"
                f" ({len(results)} of {len(suite)})"
            )

        OUT.print(f"compiling {len(suite)} programs; this takes minutes")
        measure(suite, seconds=self.seconds, precision=self.precision, on_result=keep)
        OUT.print(bench_table(results))
        OUT.print(f"wrote {path}", soft_wrap=True)


def bench_table(results: list[dict[str, Any]]) -> Table:
    from maskless.report.text import console_table

    header = (
        *("environment", "network", "runs", "frames/s", "target", "/ upstream's\nstep"),
        *("ms per\nupdate", "memory", "compiled\nin"),
    )
    rows = [
        [
            found["env"],
            found["net"],
            str(found["runs"]),
            f"{found['frames_per_second']:,}",
            f"{found['target']:,}" if found["target"] else "",
            f"{found['ratio']:.2f}" if "ratio" in found else "",
            f"{found['milliseconds_per_update']:.0f}",
            f"{found['memory_bytes'] / 2**30:.1f} GiB",
            f"{found['compile_seconds']:.0f} s",
        ]
        for found in results
    ]
    title = "training, learning and diagnostics included"
    return console_table(title, header, rows, text_columns=2)
