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


def profile(run: Callable[[], Any], program_text: str) -> dict[str, Any]:
    """Busy milliseconds and number of kernels of one call of `run`, in all and by part.

    `program_text`: `compiled.as_text()` of what runs. Empty where the device records no kernels.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        recorded = next(Path(folder).rglob("*.xplane.pb"))
        kernels = list(_kernels(recorded))
    part_of = _parts(program_text)
    time, count = collections.Counter[str](), collections.Counter[str]()
    for name, nanoseconds in kernels:
        part = part_of.get(name.replace(".", "_")) or (
            "matrix products (library)" if LIBRARY.search(name) else "other"
        )
        time[part] += nanoseconds
        count[part] += 1
    return {
        "busy_milliseconds": sum(time.values()) / 1e6,
        "kernels": len(kernels),
        "parts": {
            part: {"milliseconds": nanoseconds / 1e6, "kernels": count[part]}
            for part, nanoseconds in time.most_common()
        },
    }


def _kernels(recorded: Path) -> Any:
    """(name, nanoseconds) of everything that ran on the GPU."""
    for plane in jax.profiler.ProfileData.from_file(str(recorded)).planes:
        if "GPU" not in plane.name:
            continue
        for line in plane.lines:
            if line.name.startswith("Stream"):
                yield from ((event.name, event.duration_ns) for event in line.events)


def _parts(program_text: str) -> dict[str, str]:
    """Name of each compiled operation -> the innermost part that it serves."""
    found = {}
    for line in program_text.splitlines():
        operation = re.match(r'\s*(?:ROOT )?%?([\w.\-]+) = .*op_name="([^"]*)"', line)
        if not operation:
            continue
        scopes = re.findall("|".join(PARTS), operation[2])
        if scopes:
            found[operation[1].replace(".", "_")] = scopes[-1]
    return found
