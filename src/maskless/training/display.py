"""How training is going, on stderr: a bar and a table in a terminal, a line now and then in a pipe.

with TrainingDisplay("craftax", total_frames, ["masked", "unmasked"]) as display:
    display.update(frames, {"masked": {"return": 3.1, "valid_rate": 0.98}}, notes=[])
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from maskless.console import SafeConsole
from maskless.files import printable
from maskless.training.signals import write_to_stderr

COLUMNS: dict[str, tuple[str, str]] = {
    "return": ("return", ".2f"),
    "length": ("episode length", ".1f"),
    "valid_rate": ("valid actions", ".1%"),
    "mask_recall": ("mask recall", ".1%"),
    "mask_total_variation": ("mask TV", ".3f"),
}
"""What a row may hold: its key, heading and number format. Missing and NaN are shown as a dash.
Mask recall: of the valid actions, how many the classifier finds; an accuracy is high where nothing
is valid and nothing is found. Mask TV: how much of the policy is elsewhere under its masks."""

Rows = Mapping[str, Mapping[str, float]]


class TrainingDisplay:
    """The progress of one program: `doing` says what happens before the first `update`.

    The rate counts from the first update: what lies before it is compiling.
    """

    def __init__(
        self,
        title: str,
        total_frames: int,
        conditions: Sequence[str],
        console: Console | None = None,
        *,
        seconds_between_lines: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`total_frames` of all runs together, as `frames` in `update`; `seconds_between_lines`:
        the least time between two lines where stderr is not a terminal."""
        self._title, self._total, self._conditions = title, total_frames, tuple(conditions)
        self._console = console or SafeConsole("stderr")
        self._pause, self._clock = seconds_between_lines, clock
        self._start = clock()
        self._first: tuple[float, int] | None = None
        self._frames, self._rate = 0, 0.0
        self._doing: tuple[str, float] = ("compiling", self._start)
        self._rows: Rows = {}
        self._notes: tuple[str, ...] = ()
        self._announced: tuple[str, ...] = ()
        self._said: set[str] = set()
        self._last_line: tuple[float, int] | None = None
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._picture, console=self._console)

    def __enter__(self) -> "TrainingDisplay":
        self._start = self._clock()
        self._doing = (self._doing[0], self._start)
        if self._live:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()
        elif self._last_line and self._last_line[1] != self._frames:
            self._print_line()

    def doing(self, what: str) -> None:
        """What happens from now on until the first `update`, such as "compiling the updates"."""
        self._doing = (what, self._clock())
        if self._live:
            self._live.refresh()
        else:
            self._say(f"{self._title}: {what}, {_duration(self._clock() - self._start)}")

    def update(self, frames: int, rows: Rows, notes: Sequence[str] = ()) -> None:
        """`rows`: for each condition the means over its seeds, under the keys of `COLUMNS`;
        `notes`: the warnings that hold now."""
        now = self._clock()
        if self._first is None:
            self._first = (now, frames)
        elapsed, progressed = now - self._first[0], frames - self._first[1]
        if elapsed > 0:
            self._rate = progressed / elapsed
        self._frames, self._rows, self._notes = frames, rows, tuple(notes)
        if self._live:
            self._live.refresh()
        elif self._last_line is None or now - self._last_line[0] >= self._pause:
            self._print_line()

    def announce(self, line: str) -> None:
        """Something that happens between two updates, such as a signal; safe in any thread."""
        if self._live:
            self._announced += (line,)  # the next refresh, at most a quarter of a second away
        else:
            write_to_stderr(line)

    def _picture(self) -> Group:
        bar = Table.grid(padding=(0, 1))
        done = min(self._frames, self._total)
        title = Text(printable(self._title))
        bar.add_row(title, ProgressBar(total=self._total, completed=done, width=40))
        progress = Text("  ".join(self._progress()))
        notes = (*self._notes, *self._announced)
        warnings = [Text(printable(f"! {note}"), "yellow") for note in notes]
        return Group(bar, progress, self._table(), *warnings)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("condition", overflow="fold")
        for heading, _ in COLUMNS.values():
            table.add_column(heading, justify="right", no_wrap=True)
        for condition in self._conditions:
            table.add_row(Text(condition), *self._numbers(condition).values())
        return table

    def _progress(self) -> list[str]:
        parts = [f"{self._frames:,}/{self._total:,} frames"]
        if self._first is None:
            what, since = self._doing
            parts.append(f"{what} for {self._clock() - since:.0f} s")
        if self._rate > 0:
            parts.append(f"{self._rate:,.0f}/s")
        parts.append(_duration(self._clock() - self._start))
        if self._rate > 0:
            parts.append(f"{_duration(max(self._total - self._frames, 0) / self._rate)} left")
        return parts

    def _numbers(self, condition: str) -> dict[str, str]:
        row = self._rows.get(condition, {})
        return {
            heading: f"{row[key]:{form}}" if math.isfinite(row.get(key, math.nan)) else "–"
            for key, (heading, form) in COLUMNS.items()
        }

    def _print_line(self) -> None:
        parts = [f"{self._title}: {', '.join(self._progress())}"]
        for condition in self._conditions:
            known = {name: text for name, text in self._numbers(condition).items() if text != "–"}
            if known:
                numbers = ", ".join(f"{name} {text}" for name, text in known.items())
                parts.append(f"{condition}: {numbers}")
        self._say(" | ".join(parts))
        for note in self._notes:
            if note not in self._said:
                self._said.add(note)
                self._say(f"warning: {note}")
        self._last_line = (self._clock(), self._frames)

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
