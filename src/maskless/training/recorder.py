"""What is written down and shown while a program trains."""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from maskless.conditions import condition
from maskless.config import Config
from maskless.diagnostics.suppression_warning import SuppressionWatch, warning_lines
from maskless.training.display import TrainingDisplay
from maskless.training.log import RunLog, Sink, read_metrics
from maskless.training.metrics import by_condition, rows
from maskless.training.program import Program

Sinks = Callable[[Path], Sequence[Sink]]
"""Where else the log of the run in this folder goes, such as TensorBoard."""


def no_sinks(folder: Path) -> Sequence[Sink]:
    return ()


class Record:
    """The logs of all runs, each in its folder, and the display. Enter it."""

    def __init__(
        self, config: Config, program: Program, folders: Sequence[Path], sinks: Sinks, done: int
    ):
        """`done`: the updates after which the training goes on; what was written of later ones is
        removed."""
        self._config, self._program, self._done = config, program, done
        self._folders, self._sinks = folders, sinks
        self._every_run = config.frames_per_update * len(config.runs)

    def __enter__(self) -> "Record":
        config = self._config
        with contextlib.ExitStack() as closing:
            self._books = [
                closing.enter_context(
                    _Book(folder, run, self._program, self._sinks(folder), self._done)
                )
                for folder, run in zip(self._folders, config.runs, strict=True)
            ]
            title, total = _title(config, self._program), config.updates * self._every_run
            self._shown = closing.enter_context(TrainingDisplay(title, total, config.conditions))
            self._closing = closing.pop_all()
        self._began = time.monotonic() - max(book.seconds_before for book in self._books)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._closing.__exit__(*exception)

    def announce(self, line: str) -> None:
        """Something that happens between two visits; safe in any thread."""
        self._shown.announce(line)

    def write(self, done: int, metrics: dict[str, np.ndarray]) -> None:
        """The metrics of the updates of one visit. [updates, runs, ...]"""
        lines = rows(self._config, done, metrics, time.monotonic() - self._began)
        for book, line in zip(self._books, lines, strict=True):
            book.write(line)
        notes = [note for book in self._books for note in book.notes]
        means = by_condition(self._config, lines)
        self._shown.update(done * self._every_run, means, notes)


def _title(config: Config, program: Program) -> str:
    title = f"{config.env}, {config.net}, {len(config.runs)} runs"
    if jax.device_count() == 1:
        return title
    used = 1 if program.mesh is None else program.mesh.size
    return f"{title}, {used} of {jax.device_count()} devices"


class _Book:
    """One run's log, and what it warns of."""

    def __init__(
        self, folder: Path, run: tuple[str, int], program: Program, sinks: Sequence[Sink], done: int
    ):
        self._log = RunLog(folder, sinks)
        self._log.truncate_after(done)
        earlier = read_metrics(self._log.path)
        self.seconds_before = earlier[-1]["seconds"] if earlier else 0.0
        self._name = f"{run[0]}, seed {run[1]}"
        # Under a mask nothing is suppressed by choosing what does not work.
        watched = program.learner.config.diagnostics and not condition(run[0]).masked
        self._watch = SuppressionWatch(program.learner.env.action_names) if watched else None
        self.notes: list[str] = []
        for line in earlier:
            self._look(line)

    def write(self, line: dict[str, Any]) -> None:
        self._log.write([line | self._look(line)])

    def _look(self, line: dict[str, Any]) -> dict[str, Any]:
        if self._watch is None:
            return {}
        suppressed = self._watch.update(line)
        self.notes = [f"{self._name}: {warning}" for warning in warning_lines(suppressed)]
        return {"suppressed_since_frames": self._watch.since_frames}

    def __enter__(self) -> "_Book":
        self._log.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._log.__exit__(*exception)
