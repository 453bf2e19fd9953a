"""Commit, versions and device: what it takes to get the same numbers again."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

from maskless import kernels

_RECORDED = (
    *("maskless", "jax", "jaxlib", "flax", "optax", "numpy"),
    *("craftax", "gymnasium", "nle", "minihack"),
)


def provenance() -> dict[str, Any]:
    """For a JSON file beside what was computed."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _RECORDED},
        "device": jax.devices()[0].device_kind,
        "kernels": kernels.pallas_requested(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The checkout's commit, marked when it has changes. Where the code was copied without its
    history, MASKLESS_COMMIT names the commit."""
    if named := os.environ.get("MASKLESS_COMMIT"):
        return named
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() or None
