"""Arrays in safetensors files: no code in them, no more numbers than the file has bytes."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from maskless.errors import MasklessError
from maskless.files.reading import UnreadableError, opened

_LARGEST_HEADER = 2**22
"""Bytes: names and shapes of some 40,000 arrays. What reads them needs thirty times as many."""
_LENGTH_BYTES = 8


def parse_tensors(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name. The error says why there are none, not of which
    file."""
    _check_header(content[:_LENGTH_BYTES])
    try:
        return safetensors.numpy.load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise MasklessError(f"it is no safetensors file ({error})") from error


def read_tensors(path: Path, names: Iterable[str], *, most: int) -> dict[str, np.ndarray]:
    """These arrays of a safetensors file, and none of the others."""
    with opened(path, most=most) as file:
        _check_header(file.read(_LENGTH_BYTES))
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise UnreadableError(path, f"it is no such safetensors file ({error})") from error
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from error


def largest_file(shapes: Iterable[tuple[Iterable[int], np.dtype]]) -> int:
    """Bytes that a safetensors file with such arrays has at most."""
    numbers = sum(int(np.prod(list(shape), dtype=object)) * t.itemsize for shape, t in shapes)
    return _LENGTH_BYTES + _LARGEST_HEADER + numbers


def hash_of(path: Path, *, most: int) -> str:
    """The SHA-256 of a file, which is never in memory as a whole."""
    with opened(path, most=most) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_finite_weights(arrays: Mapping[str, Any]) -> None:
    """Refuses weights among which one is NaN or infinite: a policy would still give actions."""
    for name, array in arrays.items():
        values = np.asarray(array)
        if values.dtype.kind in "biu":
            continue
        wrong = int(values.size - np.isfinite(values).sum())
        if wrong:
            raise MasklessError(
                f"{wrong:,} of the {values.size:,} weights {name!r} are NaN or infinite"
            )


def _check_header(length: bytes) -> None:
    if len(length) < _LENGTH_BYTES or int.from_bytes(length, "little") > _LARGEST_HEADER:
        raise MasklessError("it is no safetensors file (its header is too long or missing)")
