"""Writing results: never half a file, and never through a link."""

import contextlib
import json
import math
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from maskless.errors import MasklessError
from maskless.files.names import slug

_ABANDONED_SECONDS = 3600.0
"""A partial file that was not touched for so long is left over from a kill."""


def output_folder(path: Path) -> Path:
    """Makes the folder and tries to write in it, before the long work begins."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MasklessError(
            f"Cannot write to {path} ({reason}): choose another folder with --out."
        ) from error
    return path


def check_writable(folder: Path) -> Path:
    """Tries to write in a folder that is there, before the long work begins."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise MasklessError(
            f"Cannot write to {folder} ({error.strerror}): make it writable, or copy it to where"
            " you may write."
        ) from error
    return folder


def write_json(path: Path, content: Any) -> None:
    """Replaces the file as a whole: a full disk or a kill leaves the old one. JSON has neither NaN
    nor infinity: they become null."""
    write_bytes(path, as_json(content))


def as_json(content: Any) -> bytes:
    """What `write_json` writes."""
    return (json.dumps(_finite(content), indent=1, allow_nan=False) + "\n").encode()


def write_text(path: Path, text: str) -> None:
    """The same for any text."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """The same for any content."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise MasklessError(f"Cannot write {path} ({error.strerror}).") from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` on leaving, unless there was an error.

    Until then it has a name that nobody can guess, and it must not exist: a link that lies there
    would lead to somebody else's file. A link in the place of `path` is replaced, not followed.
    """
    partial = path.with_name(f".{slug(path.name)}.{secrets.token_hex(4)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(partial, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # without this a power cut could leave the name without content
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    """Partial files of this one that kills have left."""
    with contextlib.suppress(OSError):
        for leftover in path.parent.glob(f".{slug(path.name)}.*.partial"):
            if time.time() - leftover.lstat().st_mtime > _ABANDONED_SECONDS:
                leftover.unlink()


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
