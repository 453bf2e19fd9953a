"""Writing results: never half a file, and always with where they come from."""

import importlib.metadata
import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import jax

from maskless.errors import MasklessError
from maskless.kernels import asked_for

_RECORDED = (
    *("maskless", "jax", "jaxlib", "flax", "optax", "numpy"),
    *("craftax", "gymnasium", "nle", "minihack"),
)


def output_folder(path: Path) -> Path:
    """Makes the folder and tries to write in it, before the long work begins."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise MasklessError(
            f"Cannot write to {path} ({error.strerror}): choose another folder with --out."
        ) from error
    return path


def write_json(path: Path, content: Any) -> None:
    """Replaces the file as a whole: a full disk or a kill leaves the old one."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """The same for any text."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise MasklessError(f"Cannot write {path} ({error.strerror}).") from error


def provenance() -> dict[str, Any]:
    """Commit, versions and device: what somebody needs to get the same numbers again."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _RECORDED},
        "device": jax.devices()[0].device_kind,
        "kernels": asked_for(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The checkout's commit, marked when it has changes. Where the code was copied without its
    history, whoever copied it can name the commit in MASKLESS_COMMIT."""
    here = Path(__file__).parent
    if named := os.environ.get("MASKLESS_COMMIT"):
        return named
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() or None
