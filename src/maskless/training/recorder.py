"""What is logged and shown while a program trains."""

import contextlib
import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from maskless.conditions import condition
from maskless.config import Config
from maskless.diagnostics.suppression_warning import SuppressionWatch, warning_lines
from maskless.training.display import Rows, TrainingDisplay
from maskless.training.folder import run_folders
from maskless.training.log import Row, RunLog, Sink, plain_row, read_run
from maskless.training.metrics import by_condition, rows_of
from maskless.training.program import Program

Sinks = Callable[[Path], Sequence[Sink]]
"""Where else the log of the run in this folder goes, such as TensorBoard."""


def no_sinks(folder: Path) -> Sequence[Sink]:
    return ()


class Recorder:
    """The metrics of all runs, in memory and in the log of each run's folder, and the display.
    Enter it."""

    def __init__(
        self,
        config: Config,
        program: Program,
        folder: Path | None,
        sinks: Sinks,
        done: int,
        *,
        show: bool = True,
    ):
        """`folder`: the training's; None: nothing is written. `done`: the updates after which the
        training goes on; what was logged of later ones is removed."""
        self._config, self._program, self._done, self._show = config, program, done, show
        self._folders = [None] * len(config.runs) if folder is None else run_folders(config, folder)
        self._sinks = sinks
        self._shown: tuple[Rows, list[str]] = ({}, [])
        self._frames_of_all = config.frames_per_update * len(config.runs)

    def __enter__(self) -> "Recorder":
        config = self._config
        with contextlib.ExitStack() as closing:
            self._runs = [
                closing.enter_context(_RunRecorder(place, run, self._program, sinks, self._done))
                for place, run in zip(self._folders, config.runs, strict=True)
                for sinks in [() if place is None else self._sinks(place)]
            ]
            title, total = _title(config, self._program), config.updates * self._frames_of_all
            console = None if self._show else Console(file=io.StringIO())
            self._display = TrainingDisplay(title, total, config.conditions, console)
            closing.enter_context(self._display)
            self._closing = closing.pop_all()
        self._began = time.monotonic() - max(run.seconds_before for run in self._runs)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._closing.__exit__(*exception)

    @property
    def rows(self) -> list[list[Row]]:
        """All rows of every run so far, those of earlier sessions included."""
        return [run.rows for run in self._runs]

    def doing(self, what: str) -> None:
        """What happens until the first chunk is done."""
        self._display.doing(what)

    def announce(self, line: str) -> None:
        """Something that happens between two chunks; safe in any thread."""
        self._display.announce(line)

    def write(self, done: int, metrics: dict[str, np.ndarray]) -> list[Row]:
        """Logs one chunk, [updates, runs, ...], and gives its rows, one for each run."""
        rows = rows_of(self._config, done, metrics, time.monotonic() - self._began)
        logged = [run.write(row) for run, row in zip(self._runs, rows, strict=True)]
        notes = [note for run in self._runs for note in run.notes]
        means = by_condition(self._config, rows)
        self._shown = means, notes
        self.show(done)
        return logged

    def show(self, done: int) -> None:
        """How far the training is."""
        self._display.update(done * self._frames_of_all, *self._shown)


def _title(config: Config, program: Program) -> str:
    title = f"{config.env}, {config.net}, {len(config.runs)} runs"
    if jax.device_count() == 1:
        return title
    used = 1 if program.mesh is None else program.mesh.size
    return f"{title}, {used} of {jax.device_count()} devices"


class _RunRecorder:
    """One run's log, and its warnings."""

    def __init__(
        self,
        folder: Path | None,
        run: tuple[str, int],
        program: Program,
        sinks: Sequence[Sink],
        done: int,
    ):
        self._log = None if folder is None else RunLog(folder, sinks)
        self.rows: list[Row] = []
        if self._log is not None:
            self._log.truncate_after(done)
            self.rows = read_run(self._log.path.parent, program.learner.env.num_actions)
        self.seconds_before = self.rows[-1].get("seconds", 0.0) if self.rows else 0.0
        self._name = f"{run[0]}, seed {run[1]}"
        # Under a mask nothing is suppressed by choosing what does not work.
        watched = program.learner.config.diagnostics and not condition(run[0]).masked
        self._watch = SuppressionWatch(program.learner.env.action_names) if watched else None
        self.notes: list[str] = []
        for row in self.rows:
            self._warn(row)

    def write(self, row: Row) -> Row:
        row = plain_row(row | self._warn(row))
        if self._log is not None:
            self._log.write([row])
        self.rows.append(row)
        return row

    def _warn(self, row: Row) -> Row:
        if self._watch is None:
            return {}
        suppressed = self._watch.update(row)
        self.notes = [f"{self._name}: {warning}" for warning in warning_lines(suppressed)]
        return {"suppressed_since_frames": self._watch.since_frames}

    def __enter__(self) -> "_RunRecorder":
        if self._log is not None:
            self._log.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._log is not None:
            self._log.__exit__(*exception)
