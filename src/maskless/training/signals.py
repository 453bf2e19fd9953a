"""Ctrl-C and SIGTERM as a wish: finish the current chunk, save, stop.

with StopRequest() as stop:
    while not (done or stop.requested):
        train_a_chunk()
"""

import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """While entered, the first SIGINT or SIGTERM sets `requested`; the second raises
    KeyboardInterrupt. Outside the main thread, where Python takes no signals, it does nothing.

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
        self._announce = announce or write_to_stderr
        self._count = 0
        self._lock = threading.RLock()
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
        self._old_handlers = {number: signal.signal(number, self._handle) for number in _SIGNALS}
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
                if number in _SIGNALS:
                    self._note(signal.Signals(number))
            return bool(received)

    def _note(self, received: signal.Signals) -> None:
        self._count += 1
        if self._count == 1:
            self.requested, self.signal_name = True, received.name
            self._announce(
                f"{received.name}: finishing the current chunk and saving it; once more stops at"
                " once."
            )


def write_to_stderr(line: str) -> None:
    """Past Python's buffers, which the interrupted thread may be in the middle of."""
    os.write(2, f"maskless: {line}\n".encode())
