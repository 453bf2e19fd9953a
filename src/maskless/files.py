"""Writing results: never half a file."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from maskless.errors import MasklessError


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
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """The same for any content."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise MasklessError(f"Cannot write {path} ({error.strerror}).") from error
