"""Reading a file that may be anything: only regular files, and none larger than it may be."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maskless.errors import MasklessError

LARGEST_TEXT = 2**24
"""Bytes of what is no log and has no arrays, 16 MiB."""

_IN_TRAININGS = "config.json"
"""What every folder of a training, and of one of its runs, holds."""


class UnreadableError(MasklessError):
    """A file that cannot be used. `reason`: why, for a sentence of the caller's own."""

    def __init__(self, path: Path, reason: str, advice: str = ""):
        self.path, self.reason = path, reason
        super().__init__(f"{path} cannot be used: {reason}{advice and '; ' + advice}.")


class MissingError(UnreadableError):
    """There is no such file."""


@contextmanager
def opened(path: Path, *, most: int, follow: bool = True) -> Iterator[io.BufferedReader]:
    """The file, open for reading, if it is a regular one of at most `most` bytes.

    What is no file is not opened at all: opening a fifo can wait for ever, and opening a device can
    do anything. `follow`: links are followed.
    """
    try:
        _check_kind(path, os.stat(path, follow_symlinks=follow), most)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        flags |= getattr(os, "O_BINARY", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(os.open(path, flags), "rb") as file:
            _check_kind(path, os.fstat(file.fileno()), most)  # it may have been replaced since
            yield file
    except FileNotFoundError as error:
        raise MissingError(path, "there is no such file") from error
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from error
    except ValueError as error:  # a name that no file can have
        raise UnreadableError(path, str(error)) from error


def read_bytes(path: Path, *, most: int = LARGEST_TEXT, follow: bool = True) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    with opened(path, most=most, follow=follow) as file:
        content = file.read(most + 1)
    if len(content) > most:  # it has grown
        raise UnreadableError(path, f"it has more than {_in_words(most)}")
    return content


def check_inside(folder: Path, path: Path) -> Path:
    """`path`, a part of `folder`; refused where a link leads elsewhere, for what is written there
    would overwrite somebody else's files."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a circle of links
        inside = False
    if not inside:
        raise MasklessError(
            f"{path} is a link that leads out of {folder}: name the folder it leads to instead."
        )
    return path


def check_named(path: Path) -> Path:
    """`path` as the user has typed it; refused where it goes through the folder of a training or a
    run, and a link there leads out of it."""
    named = Path(os.path.abspath(path))
    for above in named.parents[:3]:
        if os.path.isfile(above / _IN_TRAININGS):
            check_inside(above, named)
    return path


def _check_kind(path: Path, status: os.stat_result, most: int) -> None:
    kinds = {
        stat.S_IFREG: "",
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a fifo",
        stat.S_IFSOCK: "a socket",
    }
    if kind := kinds.get(stat.S_IFMT(status.st_mode), "a device"):
        raise UnreadableError(path, f"it is {kind} and not a file")
    if status.st_size > most:
        size = f"it has {_in_words(status.st_size)}"
        raise UnreadableError(path, f"{size}, and such a file has at most {_in_words(most)}")


def _in_words(size: int) -> str:
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
