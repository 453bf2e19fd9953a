"""One stretch of training, from a start or a resumption to the end or the next stop.

The device does a chunk of updates; then the session checks that all numbers are finite, logs them,
shows progress, saves, and notices when it is asked to stop.
"""

import contextlib
import dataclasses
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from maskless.errors import MasklessError
from maskless.ppo.learner import TrainState
from maskless.training import checkpoints, folder, processes
from maskless.training.log import Row
from maskless.training.metrics import check_finite
from maskless.training.program import Program
from maskless.training.recorder import Recorder, Sinks, no_sinks
from maskless.training.request import Request
from maskless.training.signals import StopRequest

LOG_LINES = 1000
"""About so many lines, evenly spaced, does the log of a long run have."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a training stands after a chunk of updates: what a callback gets."""

    update: int
    """Updates done."""
    frames: int
    """Environment steps of each run so far."""
    rows: list[Row]
    """The newest metrics, one row for each run, in the order of `config.runs`."""
    states: TrainState
    """Of all runs. [runs, ...] They are given up by the next chunk: copy what you keep."""
    program: Program


Callback = Callable[[Progress], bool | None]
"""Called after every chunk; True: save and stop here."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How a training is kept and shown; none of it changes what is computed."""

    checkpoint_minutes: float = 5.0
    """Save at least this often."""
    keep: int = 2
    """How many checkpoints of each run to keep."""
    callback: Callback | None = None
    sinks: Sinks = no_sinks
    warn: Callable[[str], None] = warnings.warn
    show: bool = True
    """Progress on stderr."""


class Session:
    """Enter it; then `start`, and `after` every chunk of `chunk` updates until `finished`."""

    def __init__(self, request: Request, place: Path | None, *, resume: bool, options: Options):
        """`place`: the training's folder; None: everything stays in memory."""
        if options.keep < 1:
            raise MasklessError(f"keep must be at least 1, not {options.keep}.")
        self.config, self.place, self.options = request.config, place, options
        self.done, self.stopped = 0, False
        self._saved: list[TrainState] = []
        warn = options.warn if processes.is_first() else _say_nothing
        with processes.failing_together():
            if place is not None and not resume and processes.is_first():
                folder.refuse_used(place)
            self.program = make_program(request)
            if resume and place is not None:
                self.done, self._saved = folder.restore(self.config, self.program, place, warn)
                folder.warn_of_differences(self.config, self.program, place, warn)
        self._resume = resume
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> "Session":
        with contextlib.ExitStack() as closing:
            closing.enter_context(contextlib.closing(self.program))
            _refuse_differences(self.config.to_json(), self.done)
            self._prepare_folder()
            self.program.prepare()
            with processes.failing_together():
                self.recorder = (
                    closing.enter_context(self._make_recorder()) if processes.is_first() else None
                )
            announce = self.recorder.announce if self.recorder else None
            self._stop = closing.enter_context(StopRequest(announce))
            self._closing = closing.pop_all()
        self._saved_at = time.monotonic()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._closing.__exit__(*exception)

    def _prepare_folder(self) -> None:
        with processes.failing_together():
            if self.place is None or not processes.is_first():
                return
            if not self._resume:
                folder.create(self.config, self.program, self.place)
            elif self._saved:
                for run in folder.run_folders(self.config, self.place):
                    checkpoints.discard_after(run / "checkpoints", self.done)

    def _make_recorder(self) -> Recorder:
        return Recorder(
            self.config,
            self.program,
            self.place,
            self.options.sinks,
            self.done,
            show=self.options.show,
        )

    def start(self) -> TrainState:
        """The states of all runs, new or restored. [runs, ...]"""
        saved, self._saved = self._saved, []  # the host's copy of all worlds is given up
        return self.program.start_from(saved) if saved else self.program.start()

    @property
    def chunk(self) -> int:
        """How many updates come next. Chunks end at multiples of the program's chunk, so that a
        resumed log has the same lines."""
        chunk = self.program.chunk
        return min(chunk - self.done % chunk, self.config.updates - self.done)

    @property
    def complete(self) -> bool:
        return self.done == self.config.updates

    @property
    def finished(self) -> bool:
        return self.complete or self.stopped

    def after(self, states: TrainState, metrics: dict[str, np.ndarray]) -> None:
        """Logs, calls back and saves what a chunk has brought. `metrics`: [updates, runs, ...]"""
        check_finite(self.config, self.done, metrics)
        self.done += len(metrics["episodes"])
        with processes.failing_together():
            rows = self.recorder.write(self.done, metrics) if self.recorder else []
        enough = self._call_back(rows, states)
        late = time.monotonic() - self._saved_at >= 60.0 * self.options.checkpoint_minutes
        self.stopped, late = processes.agree(enough or self._stop.requested, late)
        if self.place is not None and (late or self.finished):
            folder.save(
                self.config, self.program, states, self.done, self.place, keep=self.options.keep
            )
            self._saved_at = time.monotonic()
        if self.place is not None and self.complete:
            folder.export(self.config, self.program, states, self.place)

    def _call_back(self, rows: list[Row], states: TrainState) -> bool:
        if self.options.callback is None:
            return False
        frames = self.done * self.config.frames_per_update
        progress = Progress(self.done, frames, rows, states, self.program)
        return bool(self.options.callback(progress))


def make_program(request: Request) -> Program:
    """The program for this kind of environment."""
    chunk = max(1, request.config.updates // LOG_LINES)
    if not request.env.runs_on_host:
        return Program(request, chunk=chunk)
    if jax.process_count() > 1:
        raise MasklessError(
            f"The worlds of {request.env.id} are processes of one training process: leave out"
            " --distributed."
        )
    from maskless.training.gymnasium_program import GymnasiumProgram  # needs Gymnasium

    return GymnasiumProgram(request, chunk=chunk)


def _refuse_differences(config: dict[str, Any], done: int) -> None:
    """Processes that do not train the same would wait for each other for ever."""
    if not processes.is_same(json.dumps([config, done])):
        raise MasklessError(
            "The processes were not all started with the same flags, or do not all see the same"
            " folder: both are needed."
        )


def _say_nothing(sentence: str) -> None:
    """The warnings of the first process are enough."""
