"""What all commands print with: consoles that never stop a command, and a progress bar."""

import contextlib
import errno
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from maskless.console import SafeConsole
from maskless.errors import MasklessError
from maskless.files import printable

OUT = SafeConsole("stdout")
ERR = SafeConsole("stderr")


def say(text: str) -> None:
    """A line on stdout, as it stands: a path may have brackets, and no line is broken."""
    OUT.print(text, markup=False, highlight=False, soft_wrap=True)


def warn(sentence: str) -> None:
    """A line on stderr."""
    ERR.print(Text.assemble(("warning: ", "yellow"), printable(sentence)), soft_wrap=True)


def say_error(sentence: str) -> None:
    """Why a command ends."""
    line = Text.assemble(("maskless:", "bold red"), " ", printable(sentence, _LONGEST_ERROR))
    ERR.print(line, soft_wrap=True)


_LONGEST_ERROR = 2000
# "--env=my_module:Mine", "my_module:Mine", "gymnasium:my_module:Mine-v0"; not "gymnasium:Taxi-v3".
_MODULE = re.compile(r"(--[\w-]+=)?(gymnasium:)?(?!gymnasium:)[^\W\d][\w.]*:[\w./-]+")


def import_from_here(arguments: Sequence[str]) -> None:
    """Modules in the current folder are found when the user has typed the name of one, or trusts
    what a folder names; never otherwise: the folder may be a stranger's."""
    if "--trust" in arguments or any(map(_MODULE.fullmatch, arguments)):
        sys.path.append(str(Path.cwd()))


def ignore_matplotlibrc() -> None:
    """matplotlib obeys a `matplotlibrc` in the current folder, which may be a stranger's: it can
    have LaTeX run, or be a fifo. Where one lies, matplotlib is imported from elsewhere, first."""
    if os.path.lexists("matplotlibrc"):
        with contextlib.chdir(Path(__file__).parent):
            importlib.import_module("matplotlib")


def check_output() -> None:
    """Call it when a command has done its work: says when what was meant for a file did not get
    there. That somebody stopped reading is no error."""
    error = OUT.finish()
    if isinstance(error, OSError) and error.errno not in (errno.EPIPE, errno.EBADF):
        raise MasklessError(
            f"Not all that was printed could be written ({error.strerror}). What the command saved"
            " is there as a whole."
        )


def env_options(texts: Sequence[str]) -> dict[str, Any]:
    """What --env-options says: NAME=VALUE, values as JSON has them or as they stand."""
    return dict(_option(text) for text in texts)


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise MasklessError(f"An option of the environment is NAME=VALUE, not {text!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


class ProgressBar:
    """A bar with rate and time left on stderr; calling it moves it."""

    def __init__(self, title: str, total: int, unit: str):
        self._bar = Progress(
            # Where there is no room, the description is folded and no number is cut.
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} " + unit),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("left"),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
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
