"""Ctrl-C, SIGTERM and SIGHUP as a wish: finish the current chunk, save, stop.

with StopRequest() as stop:
    while not (done or stop.requested):
        train_a_chunk()
"""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from maskless.files import printable

_HANGUP: int | None = getattr(signal, "SIGHUP", None)


class StopRequest:
    """While entered, the first SIGINT, SIGTERM or SIGHUP sets `requested`; the second raises
    KeyboardInterrupt. SIGHUP, of a terminal that was closed, comes once from the terminal and once
    from the shell: it is a wish however often, and none where `nohup` has silenced it. Outside
    the main thread, where Python takes no signals, all this does nothing.

    Python runs signal handlers only between two of its instructions, and a compiled chunk is one
    long instruction. So that the user hears at once that the signal has arrived, a thread listens
    to the pipe that Python's C code writes each signal to. The chunk itself cannot be interrupted:
    the KeyboardInterrupt comes when it returns.
    """

    def __init__(self, announce: Callable[[str], None] | None = None):
        """`announce` is given the one line to show, in another thread; by default it goes to
        stderr."""
        self.requested = False
        self.signal_name: str | None = None
        self.exits_at_once = False
        """Set it while there is nothing to save, as in compiling: the next signal then ends the
        process, without unwinding. (XLA's threads would be torn down under its feet.)"""
        self._announce = announce or write_to_stderr
        self._count = 0
        self._lock = threading.RLock()
        self._signals = [signal.SIGINT, signal.SIGTERM]
        if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:
            self._signals.append(signal.Signals(_HANGUP))
        self._old_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._old_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._old_handlers = {n: signal.signal(n, self._handle) for n in self._signals}
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._old_handlers:
            return
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._writer)  # ends the listener
        self._listener.join()
        os.close(self._reader)
        self._old_handlers = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, as soon as Python is back there. Signals of one kind that came
        meanwhile reach it as one, so the pipe has to be asked how many there were."""
        self._receive()
        if self._count > 1:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        """In a thread of its own, at the moment of the signal."""
        is_open = True
        while is_open:
            select.select([self._reader], [], [])
            is_open = self._receive()

    def _receive(self) -> bool:
        """Takes note of what is in the pipe. False when it has been closed."""
        with self._lock:
            try:
                received = os.read(self._reader, 64)
            except BlockingIOError:
                return True
            for number in received:
                if number in self._signals:
                    self._note(signal.Signals(number))
            return bool(received)

    def _note(self, received: signal.Signals) -> None:
        if self.exits_at_once:
            show_cursor = "\x1b[?25h\n" if os.isatty(2) else ""  # a live display has hidden it
            write_to_stderr(f"{received.name}: stopped while compiling.", show_cursor)
            os._exit(128 + received)
        self._count += received != _HANGUP
        if not self.requested:
            self.requested, self.signal_name = True, received.name
            self._announce(
                f"{received.name}: finishing the current chunk and saving it; once more stops at"
                " once."
            )


def write_to_stderr(line: str, before: str = "") -> None:
    """Past Python's buffers, which the interrupted thread may be in the middle of."""
    with contextlib.suppress(OSError):  # nobody may be listening any more
        os.write(2, f"{before}maskless: {printable(line)}\n".encode())
