"""What all commands print with: the consoles and a progress bar."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

OUT = Console()
ERR = Console(stderr=True)


class ProgressBar:
    """A bar with rate and time left on stderr; calling it moves it."""

    def __init__(self, title: str, total: int, unit: str):
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} " + unit),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=ERR,
        )
        self._task = self._bar.add_task(title, total=total, rate="")
        self._total = total
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> Any:
        self._bar.start()
        return self._update

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def _update(self, done: int, what: str) -> None:
        # The rate counts from the first report: what lies before it is compiling.
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        elapsed, progressed = now - self._first[0], done - self._first[1]
        rate = f"{progressed / elapsed:,.0f}/s" if elapsed > 0 and progressed else ""
        self._bar.update(self._task, completed=min(done, self._total), rate=rate, description=what)
