"""One stretch of training, from a start or a resumption to the end or the next stop.

The device does some updates; then the session checks that all numbers are finite, logs them, shows
progress, saves, and notices when it is asked to stop. One session at a time writes into a folder.
"""

import contextlib
import dataclasses
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from maskless.diagnostics.bank import Probe
from maskless.errors import MasklessError
from maskless.files import output_folder
from maskless.ppo.learner import TrainState
from maskless.training import folder, lock, processes
from maskless.training.log import Row
from maskless.training.metrics import check_finite
from maskless.training.program import Program
from maskless.training.recorder import Recorder, Sinks, no_sinks
from maskless.training.request import Request
from maskless.training.signals import StopRequest

LOG_LINES = 1000
"""About so many lines, evenly spaced, does the log of a long run have."""
SECONDS_PER_CALL = 5.0
"""About so long the device computes before the session looks whether it is time to save or stop."""
MOST_PROBED = 4096
"""States of each action."""


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
"""Called after every line of the logs; True: save and stop here."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How a training is kept and shown; none of it changes what is computed."""

    checkpoint_minutes: float = 5.0
    """Save at least this often."""
    keep: int = 2
    """How many checkpoints of each run to keep."""
    worker_minutes: float = 10.0
    """How long an environment in worker processes may take for one answer before the training
    saves and stops."""
    probe: int = 0
    """States of each action, where it is valid, in a fixed bank (`maskless.diagnostics.bank`) on
    which every policy is looked at for each line of the logs."""
    callback: Callback | None = None
    sinks: Sinks = no_sinks
    warn: Callable[[str], None] = warnings.warn
    show: bool = True
    """Progress on stderr."""
    may_exit: bool = False
    """Whether a signal that comes while compiling may end the process at once, as it should in a
    command and must not in a notebook."""


class Session:
    """Enter it and `start`; until it is `finished`, make the updates of each `chunk` and tell what
    came of them (`after`)."""

    def __init__(self, request: Request, place: Path | None, *, resume: bool, options: Options):
        """`place`: the training's folder; None: everything stays in memory."""
        if options.keep < 1:
            raise MasklessError(f"keep must be at least 1, not {options.keep}.")
        for name in ("checkpoint_minutes", "worker_minutes"):
            if not getattr(options, name) >= 0:
                raise MasklessError(f"{name} must be at least 0, not {getattr(options, name)}.")
        if not 0 <= options.probe <= MOST_PROBED:
            raise MasklessError(f"probe must be from 0 to {MOST_PROBED:,}, not {options.probe}.")
        self.config, self.place, self.options = request.config, place, options
        self.done, self.stopped = 0, False
        self.unlogged: folder.Metrics = {}
        """Of the updates since the last line of the logs. [updates, runs, ...]"""
        self._request, self._resume = request, resume
        self._warn = options.warn if processes.is_first() else _say_nothing
        self._saved: list[TrainState] = []
        self._saved_update = 0
        self._updates_per_call = 1
        self._limit = min(SECONDS_PER_CALL, 60.0 * options.checkpoint_minutes)
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> "Session":
        with contextlib.ExitStack() as closing:
            with processes.failing_together():
                self._refuse_used()
                self.program = make_program(self._request, self.options.worker_minutes)
            closing.enter_context(contextlib.closing(self.program))
            self._probe = self._make_probe()
            with processes.failing_together():
                if self.place is not None and processes.is_first():
                    closing.enter_context(self._writing_alone(self.place))
            self._restore()
            _refuse_differences(self.config.to_json(), self.done)
            self._prepare_folder()
            with processes.failing_together():
                self.recorder = self._begin_recording(closing) if processes.is_first() else None
            announce = self.recorder.announce if self.recorder else None
            self._stop = closing.enter_context(StopRequest(announce))
            self._stop.exits_at_once = self.options.may_exit and jax.process_count() == 1
            if not self._saved:
                self._say_compiling("the first worlds")
            self.program.prepare()
            self._closing = closing.pop_all()
        self._saved_at = time.monotonic()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._closing.__exit__(*exception)

    def _refuse_used(self) -> None:
        if self.place is not None and not self._resume and processes.is_first():
            folder.refuse_used(self.place)

    @contextlib.contextmanager
    def _writing_alone(self, place: Path) -> Iterator[None]:
        """What is in the folder may have changed until it was locked."""
        if not self._resume:
            output_folder(place)
        with lock.writing(place, self._warn):
            self._refuse_used()
            yield

    def _restore(self) -> None:
        with processes.failing_together():
            if self.place is None or not self._resume:
                return
            place, program = self.place, self.program
            self.done, self._saved, self.unlogged = folder.restore(
                self.config, program, place, self._warn
            )
            self._saved_update = self.done
            folder.warn_of_differences(self.config, program, place, self._warn)

    def _prepare_folder(self) -> None:
        with processes.failing_together():
            if self.place is None or not processes.is_first():
                return
            if self._resume:
                folder.discard_after(self.config, self.place, self.done)
            else:
                folder.create(self.config, self.program, self.place)

    def _begin_recording(self, closing: contextlib.ExitStack) -> Recorder:
        try:
            return closing.enter_context(self._make_recorder())
        except MasklessError:  # such as a sink that needs a login: the command is given again
            if self.place is not None and not self._resume:
                folder.take_back(self.config, self.place)
            raise

    def _make_recorder(self) -> Recorder:
        return Recorder(
            self.config,
            self.program,
            self.place,
            self.options.sinks,
            self.done,
            show=self.options.show,
        )

    def _make_probe(self) -> Probe | None:
        if not self.options.probe:
            return None
        with processes.failing_together():
            return Probe(self._request.env, self._request.net, self.options.probe)

    def start(self) -> TrainState:
        """The states of all runs, new or restored. [runs, ...]"""
        saved, self._saved = self._saved, []  # the host's copy of all worlds is given up
        states = self.program.start_from(saved) if saved else self.program.start()
        if self.place is not None and self.complete:  # a kill may have come before or within this
            folder.export(self.config, self.program, states, self.place, only_missing=True)
        if not self.complete:
            self._say_compiling("the updates")
        return states

    def _say_compiling(self, what: str) -> None:
        """In the place of an empty screen."""
        if self.recorder:
            self.recorder.doing(f"compiling {what}")

    @property
    def complete(self) -> bool:
        return self.done == self.config.updates

    @property
    def stopped_by(self) -> str | None:
        """The signal that asked for it, in a training that did not end before."""
        return None if self.complete else self._stop.signal_name

    @property
    def finished(self) -> bool:
        return self.complete or self.stopped

    @contextlib.contextmanager
    def chunk(self, states: TrainState) -> Iterator[int]:
        """How many updates come next: up to the next line of the logs, and for a few seconds at
        most. They are made inside; `states` are saved if an environment outside of JAX fails."""
        updates, began = self._next_updates(), time.monotonic()
        try:
            yield updates
        except MasklessError:
            self._save_before_failing(states)
            raise
        self._stop.exits_at_once = False
        per_update = (time.monotonic() - began) / updates
        # The first call compiles, which takes longer than the updates.
        self._updates_per_call = int(
            min(max(1, self._limit / per_update), 2 * self._updates_per_call)
        )

    def _next_updates(self) -> int:
        """How many updates come next. Lines of the logs are at multiples of the program's chunk,
        also in a training that was stopped and resumed."""
        to_line = self.program.chunk - self.done % self.program.chunk
        updates = min(to_line, self.config.updates - self.done, self._updates_per_call)
        return processes.number_of_first(updates) if to_line > 1 else updates

    def after(self, states: TrainState, metrics: folder.Metrics) -> None:
        """Logs, calls back and saves."""
        check_finite(self.config, self.program, states, self.done, metrics, self._what_is_kept())
        self.done += len(metrics["episodes"])
        self.unlogged = _joined(self.unlogged, metrics)
        enough = False
        if self.complete or self.done % self.program.chunk == 0:
            self.unlogged |= self._probed(states)
            with processes.failing_together():
                rows = self.recorder.write(self.done, self.unlogged) if self.recorder else []
            self.unlogged = {}
            enough = self._call_back(rows, states)
        elif self.recorder:
            self.recorder.show(self.done)
        self._stop_or_save(states, enough)

    def _probed(self, states: TrainState) -> folder.Metrics:
        """What the policies make of the fixed states now. {name: [1, runs, actions]}"""
        if self._probe is None:
            return {}
        runs = range(len(self.config.runs))
        parts = [self._probe(self.program.fetch_run(states.params, run)) for run in runs]
        return jax.tree.map(lambda *x: np.stack(x)[None], *parts)

    def _stop_or_save(self, states: TrainState, enough: bool) -> None:
        late = time.monotonic() - self._saved_at >= 60.0 * self.options.checkpoint_minutes
        told = self._stop.requested or self._told_by_program()
        self.stopped, late = processes.agree(enough or told, late)
        if self.place is None:
            return
        if late or self.finished:
            self._save(states, self.place)
        if self.complete:
            folder.export(self.config, self.program, states, self.place)

    def _told_by_program(self) -> bool:
        sentence = self.program.stop_sentence
        if sentence and self.recorder and not self._stop.requested:
            self.recorder.announce(sentence)
        return sentence is not None

    def _save(self, states: TrainState, place: Path) -> None:
        keep, unlogged = self.options.keep, self.unlogged
        folder.save(
            self.config, self.program, states, self.done, place, keep=keep, unlogged=unlogged
        )
        self._saved_at, self._saved_update = time.monotonic(), self.done

    def _save_before_failing(self, states: TrainState) -> None:
        if self.place is None or self.done == self._saved_update:
            return
        try:
            self._save(states, self.place)
        except MasklessError as error:  # what failed first is what the user must hear in the end
            self._warn(str(error))

    def _what_is_kept(self) -> str:
        if self.place is None or self._saved_update == 0:
            return "Nothing was saved before."
        return f"The checkpoint of update {self._saved_update} is kept."

    def _call_back(self, rows: list[Row], states: TrainState) -> bool:
        if self.options.callback is None:
            return False
        frames = self.done * self.config.frames_per_update
        progress = Progress(self.done, frames, rows, states, self.program)
        return bool(self.options.callback(progress))


def _joined(before: folder.Metrics, metrics: folder.Metrics) -> folder.Metrics:
    """[updates, runs, ...] one after the other."""
    if not before:
        return metrics
    kinds = [{name: x.shape[1:] for name, x in part.items()} for part in (before, metrics)]
    if kinds[0] != kinds[1]:
        raise MasklessError(
            "The metrics in the checkpoint, which no line of the logs holds yet, are not those of"
            " this training: remove its extra.safetensors, or go on from an older checkpoint."
        )
    return {name: np.concatenate([before[name], metrics[name]]) for name in metrics}


def make_program(request: Request, worker_minutes: float = 10.0) -> Program:
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

    return GymnasiumProgram(request, chunk=chunk, answer_seconds=60.0 * worker_minutes)


def _refuse_differences(config: dict[str, Any], done: int) -> None:
    """Processes that do not train the same would wait for each other for ever."""
    if not processes.is_same(json.dumps([config, done])):
        raise MasklessError(
            "The processes were not all started with the same flags, or do not all see the same"
            " folder: both are needed."
        )


def _say_nothing(sentence: str) -> None:
    """The warnings of the first process are enough."""
