"""Where the time of an update goes on a GPU: its kernels, by the part of the program they serve.

The parts are the `jax.named_scope`s of the library; the compiler keeps their names with every
kernel that it makes. Matrix products of the vendor's library carry no name and are counted apart.
"""

import collections
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

PARTS = ("environment", "new levels", "network", "learning", "diagnostics", "novelty")
LIBRARY = re.compile("gemm|nvjet|cutlass|xmma|splitK|cublas")
LONGEST = 60
"""So many kernels are listed one by one."""


def profile(run: Callable[[], Any], program_text: str) -> dict[str, Any]:
    """Busy milliseconds and number of kernels of one call of `run`: in all, by part, and of those
    that take longest.

    `program_text`: `compiled.as_text()` of what runs. Empty where the device records no kernels.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        recorded = next(Path(folder).rglob("*.xplane.pb"))
        return sum_up(list(_kernels(recorded)), program_text)


def sum_up(kernels: list[tuple[str, float]], program_text: str) -> dict[str, Any]:
    """What `profile` says about kernels, each with its name and nanoseconds."""
    serves = _operations(program_text)
    by_part, by_kernel = _Times(), _Times()
    for name, nanoseconds in kernels:
        operation = serves.get(name.replace(".", "_"), "")
        scopes = re.findall("|".join(PARTS), operation)
        library = "matrix products (library)" if LIBRARY.search(name) else "other"
        by_part.add(scopes[-1] if scopes else library, nanoseconds)
        by_kernel.add((name[:60], operation[-90:]), nanoseconds)
    return {
        "busy_milliseconds": sum(by_part.time.values()) / 1e6,
        "kernels": len(kernels),
        "parts": {
            part: {"milliseconds": nanoseconds / 1e6, "kernels": by_part.count[part]}
            for part, nanoseconds in by_part.time.most_common()
        },
        "longest": [
            {
                "kernel": key[0],
                "operation": key[1],
                "milliseconds": round(nanoseconds / 1e6, 3),
                "times": by_kernel.count[key],
            }
            for key, nanoseconds in by_kernel.time.most_common(LONGEST)
        ],
    }


class _Times:
    """Nanoseconds and how often, of things with a name."""

    def __init__(self) -> None:
        self.time, self.count = collections.Counter[Any](), collections.Counter[Any]()

    def add(self, name: Any, nanoseconds: float) -> None:
        self.time[name] += int(nanoseconds)
        self.count[name] += 1


def _kernels(recorded: Path) -> Any:
    """(name, nanoseconds) of everything that ran on the GPU."""
    for plane in jax.profiler.ProfileData.from_file(str(recorded)).planes:
        if "GPU" not in plane.name:
            continue
        for line in plane.lines:
            if line.name.startswith("Stream"):
                yield from ((event.name, event.duration_ns) for event in line.events)


def _operations(program_text: str) -> dict[str, str]:
    """Name of each compiled operation -> what it serves: scopes, functions and the primitive."""
    found = {}
    for line in program_text.splitlines():
        operation = re.match(r'\s*(?:ROOT )?%?([\w.\-]+) = .*op_name="([^"]*)"', line)
        if operation:
            found[operation[1].replace(".", "_")] = operation[2]
    return found
