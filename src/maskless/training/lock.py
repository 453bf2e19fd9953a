"""One training writes into a folder at a time; who reads there is never asked.

with lock.writing(folder, warn):
    ...

The lock is the operating system's (flock), on the file `.lock` in the folder: it ends with the
process that holds it, however that ends. The file stays; what it says is for people.
"""

import contextlib
import errno
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from maskless.errors import MasklessError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"
_HELD_BY_ANOTHER = (errno.EWOULDBLOCK, errno.EACCES)
_NO_FILE = (errno.ELOOP, errno.EINVAL, errno.EISDIR)
_held: set[int] = set()


@contextlib.contextmanager
def writing(folder: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Inside, no other training that uses this lock writes into the folder, which must exist.

    Refused with a sentence while another does. `warn` is told where the file system has no locks.
    """
    descriptor = _open(folder)
    _held.add(descriptor)
    try:
        _lock(descriptor, folder, warn)
        _describe(descriptor)
        yield
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)  # nobody
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _open(folder: Path) -> int:
    path = folder / LOCK_FILE
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no regular file")
    except OSError as error:
        reason = "it is a link" if error.errno == errno.ELOOP else error.strerror
        advice = "remove it, or" if error.errno in _NO_FILE else "make it writable, or"
        raise MasklessError(
            f"Cannot write {path} ({reason}): {advice} choose another folder."
        ) from error
    return descriptor


def _lock(descriptor: int, folder: Path, warn: Callable[[str], None]) -> None:
    reason = "this system has none"
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno in _HELD_BY_ANOTHER:
                raise MasklessError(
                    f"{folder} is being written by {_holder(descriptor)}: wait until that has"
                    " ended, stop it, or choose another folder."
                ) from error
            reason = os.strerror(error.errno or errno.ENOLCK)
    warn(f"{folder} cannot be locked ({reason}): make sure that no other training writes into it.")


def _describe(descriptor: int) -> None:
    """For whoever finds the folder locked. Not being able to say it is no reason to stop."""
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode() + b"\n", 0)


def _holder(descriptor: int) -> str:
    try:
        about = json.loads(os.pread(descriptor, 1000, 0))
        pid, host, since = int(about["pid"]), str(about["host"])[:80], str(about["since"])[:40]
        return f"process {pid} on {host} (since {since})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"  # that is just beginning, or ending


def _leave_to_parent() -> None:
    """A forked child would hold the lock on when the training has died."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
