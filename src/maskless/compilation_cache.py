"""What was compiled once is not compiled again: JAX's cache, in the user's cache folder.

JAX's own settings come first: `JAX_COMPILATION_CACHE_DIR` says where, and
`JAX_ENABLE_COMPILATION_CACHE=false` switches it off.
"""

import hashlib
import os
import platform
from pathlib import Path

_VARIABLE = "JAX_COMPILATION_CACHE_DIR"
_SETTING = "jax_compilation_cache_dir"


def folder(parent: Path | None = None) -> Path:
    """Where this machine's programs are kept. A program may use all that the CPU it was compiled
    for can do, and would crash on another one: each kind of CPU has a folder of its own."""
    if parent is None:
        parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskless"
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), "")
    return parent / hashlib.sha256(f"{platform.machine()}{flags}".encode()).hexdigest()[:12]


def enable_for_process() -> None:
    """For a command: before JAX is imported, as importing it takes a second."""
    if not os.environ.get(_VARIABLE):
        os.environ[_VARIABLE] = str(folder())


def enable() -> None:
    """For a library call: in the JAX of this process, unless that has a cache already."""
    import jax

    if jax.config.values[_SETTING] is None:
        jax.config.update(_SETTING, str(folder()))
