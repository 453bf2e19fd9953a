"""Consoles that cannot stop the program that prints: what cannot be printed is dropped.

A pipe may lose its reader, a terminal its window, the disk behind `2> log` its room, and an
encoding may lack a character. None of that may cost minutes of playing or hours of training.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, Literal

from rich.console import Console
from rich.text import Text

from maskless.files import printable

_NUMBERS = {"stdout": 1, "stderr": 2}


class StandardStream:
    """What is `sys.stdout` or `sys.stderr` at the moment, as a file that never raises."""

    def __init__(self, name: Literal["stdout", "stderr"]):
        self._name = name
        self.error: OSError | ValueError | None = None
        """What went wrong first, if anything did."""

    def write(self, text: str) -> int:
        stream = self._stream
        if stream is not None:
            with self._dropping():
                try:
                    stream.write(text)
                except UnicodeEncodeError as error:  # nothing of the text was written
                    stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            with self._dropping():
                self._stream.flush()

    def isatty(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError(errno.EBADF, "there is no such stream")
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    def finish(self) -> OSError | ValueError | None:
        """Call it at the end of a command, before Python flushes a last time and complains. The
        error, if any, with which something that was printed did not arrive."""
        self.flush()
        error, self.error = self.error, None
        if error is not None:
            self._give_up()
        return error

    @property
    def _stream(self) -> IO[str] | None:
        """None where the program was started without one."""
        stream = getattr(sys, self._name)
        # While a bar is shown, rich puts a stream of its own there that prints above the bar.
        return getattr(stream, "rich_proxied_file", stream)

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        """Takes note of an error, and drops it."""
        try:
            yield
        except (OSError, ValueError) as error:
            self.error = self.error or error
            # A full disk may get room again; a reader or a terminal does not come back.
            if isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.EIO):
                self._give_up()

    def _give_up(self) -> None:
        """What is printed from now on goes nowhere, also what Python still holds back."""
        with contextlib.suppress(OSError, ValueError):
            if self.fileno() == _NUMBERS[self._name]:  # and not a file of the user's
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.fileno())
                os.close(nowhere)


class SafeConsole(Console):
    """A console on one of the two streams."""

    def __init__(self, name: Literal["stdout", "stderr"]):
        self._standard = StandardStream(name)
        file: Any = self._standard
        super().__init__(file=file, markup=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """All texts pass here: what somebody else chose, such as a name, may hold codes that move
        the cursor. Markup is for those who ask for it."""
        return super().render_str(printable(text), **how)

    def finish(self) -> OSError | ValueError | None:
        """See `StandardStream.finish`."""
        return self._standard.finish()
