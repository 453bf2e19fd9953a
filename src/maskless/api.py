"""`train`: from an environment to trained policies; and what it returns."""

import contextlib
import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from maskless import compilation_cache
from maskless.conditions import Condition, condition
from maskless.config import Config
from maskless.errors import MasklessError
from maskless.evaluation.runs import EvaluatedRun, Runs, finished_runs
from maskless.evaluation.summary import Evaluation, evaluate_runs
from maskless.files import output_folder
from maskless.finish import Finished, finish_runs, save_finished
from maskless.hyperparameters import Hyperparameters
from maskless.policy import Policy, policy_of
from maskless.ppo.learner import Optimizer, TrainState
from maskless.presets import AUTO
from maskless.training import folder as folders
from maskless.training import lock, processes
from maskless.training.log import Row, RunLog, columns
from maskless.training.program import Program
from maskless.training.request import (
    CUSTOM,
    WITH_ENCODER,
    Request,
    check_finish,
    make_request,
    remarks,
    request_again,
)
from maskless.training.session import Callback, Options, Session
from maskless.training.signals import write_to_stderr


def train(
    env: Any = None,
    conditions: str | Condition | Sequence[str | Condition] | None = None,
    *,
    seeds: int = 1,
    frames: float = 1e6,
    net: Any = None,
    encoder: Any = None,
    optimizer: Optimizer | None = None,
    preset: str = AUTO,
    ppo: Hyperparameters | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    trust: bool = False,
    callback: Callback | None = None,
    **settings: Any,
) -> "Training":
    """Trains every condition with every seed in one compiled program.

        training = maskless.train("staircase", ["masked", "masked-focal"], frames=1e5, seeds=2)
        training.policy("masked-focal").act(observation, key=key)

    `env`: an id, an `Environment`, a Gymnasium environment, a class or function that makes one, or
    a `Config`, which decides all that is computed. `conditions`: names, or `Condition`s; by default
    one whose policy can be deployed, or in the paper's worlds the paper's.
    `net`: "mlp", "gru", "hybrid", a Flax module that follows the contract of `maskless.nets`, or
    any other Flax module as the encoder of an MLP. `encoder`: such a module for the network `net`.
    `optimizer`: an optax transformation in place of Adam with gradient clipping, or a function
    (hyperparameters, updates) that makes one. `preset`: "paper", "cpu", "small" or
    "gymnasium"; "auto": the paper's in the paper's worlds, otherwise one for this kind of world on
    this device. `ppo`: in its place. `folder`: where logs, checkpoints and policies go; None: they
    stay in memory. `resume`: go on with the training there; `trust`: also if it names an
    environment that has to be imported. `callback`: gets a `Progress` after each chunk; True stops.
    `finish`: environment steps after PPO, at most, in which a student of every policy learns what
    is possible (`finish`); by default half of `frames` in a world of your own, otherwise none.
    `settings`: fields of `Config` (env_options, width, precision, ...) and of `Options`
    (checkpoint_minutes, keep, show, ...), and numbers of `Hyperparameters` and `Condition`: a list
    in place of a number trains one run for each value, in the same program.
    """
    compilation_cache.enable()
    kept = {name: settings.pop(name) for name in _OPTIONS & settings.keys()}
    place, options = None if folder is None else Path(folder), Options(callback=callback, **kept)
    objects = {"net": net, "encoder": encoder, "optimizer": optimizer}
    with processes.failing_together():
        if resume:
            given = settings if ppo is None else settings | {"ppo": ppo}
            request = _resumed(place, env, given, trust, **objects)
        else:
            asked = {"seeds": seeds, "frames": frames, "preset_name": preset, "ppo": ppo}
            request = _asked(env, conditions, options.show, objects, asked | settings)
    with Session(request, place, resume=resume, options=options) as session:
        states, before = session.start(), session.done
        while not session.finished:
            with session.chunk(states) as updates:
                states, metrics = session.program.advance(states, updates)
            session.after(states, metrics)
    rows = session.recorder.rows if session.recorder else []
    ends = (session.unlogged, session.stopped_by, before)
    training = Training(request, session.program, states, session.done, rows, place, None, *ends)
    return training.finish(show=options.show) if session.complete else training


_OPTIONS = {field.name for field in dataclasses.fields(Options)} - {"callback"}


def _asked(
    env: Any, conditions: Any, show: bool, objects: dict[str, Any], settings: dict[str, Any]
) -> Request:
    """The request of a new training, after the remarks on it."""
    if isinstance(env, Config):
        return request_again(env, **objects)
    request = make_request(env, conditions, **objects, **settings)
    if show and processes.is_first():
        for remark in remarks(request, numbers_too=settings["preset_name"] == AUTO):
            write_to_stderr(remark)
    return request


def _resumed(
    place: Path | None, env: Any, given: Mapping[str, Any], trust: bool, **objects: Any
) -> Request:
    """The request of the training in `place`. `given`: what may not be, by name."""
    for name in given:
        raise MasklessError(f"A training goes on with its own numbers: leave out {name}.")
    if place is None:
        raise MasklessError("Say which training to go on with: resume=True needs its folder.")
    file, config = place / folders.CONFIG_FILE, folders.read_config(place)
    return request_again(config, env=env, file=file, trust=trust, **objects)


@dataclasses.dataclass(frozen=True)
class Training:
    """Trained runs: their policies and metrics, in memory and perhaps in a folder."""

    request: Request
    program: Program
    states: TrainState
    """Of all runs. [runs, ...]"""
    update: int
    """Updates done."""
    rows: list[list[Row]]
    """The log of each run."""
    folder: Path | None = None
    finished: list[Finished] | None = None
    """The policies with their students, after `finish`."""
    unlogged: folders.Metrics = dataclasses.field(default_factory=dict)
    """Of the updates since the last row. {name: [updates, runs, ...]}"""
    stopped_by: str | None = None
    """The signal that stopped it, such as "SIGTERM"."""
    resumed_at: int = 0
    """The updates that were done before this session."""

    @property
    def config(self) -> Config:
        return self.request.config

    @property
    def runs(self) -> list[tuple[str, int]]:
        """(condition, seed) of every run."""
        return self.config.runs

    @property
    def complete(self) -> bool:
        """False: stopped before the end, by a signal or a callback."""
        return self.update == self.config.updates

    def finish(self, frames: float | None = None, *, show: bool = True) -> "Training":
        """The same training with a student beside every policy, which has learned what is possible:
        its policies act under masks of their own, or by a clone that needs none. The policies
        themselves stay as they are. In a folder, the artifacts are replaced.

        `frames`: environment steps of each run, at most; by default what the training was asked
        for, which may be none.
        """
        if frames is None:
            frames, before = self.config.finish, self._finished_before()
            if before:
                return dataclasses.replace(self, finished=before)
        check_finish(frames)
        if not frames:
            return self
        params = [self.program.fetch_run(self.states.params, n) for n in range(len(self.runs))]
        env, net = self.request.env, self.request.net
        with contextlib.ExitStack() as alone:
            if self.folder is not None:
                alone.enter_context(lock.writing(self.folder, warnings.warn))
            finished = finish_runs(env, net, self.runs, params, int(frames), show=show)
            if self.folder is not None:
                self._save_finished(finished, self.folder)
        return dataclasses.replace(self, finished=finished)

    @cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        """Every logged number: [runs, rows], or [runs, rows, actions]. `docs/metrics.md` explains
        them. nan where a run has none."""
        of_runs = [columns(rows) for rows in self.rows]
        names = dict.fromkeys(name for run in of_runs for name in run)
        shapes = {name: next(run[name] for run in of_runs if name in run).shape for name in names}
        return {
            name: np.stack([run.get(name, np.full(shapes[name], np.nan)) for run in of_runs])
            for name in names
        }

    @cached_property
    def policies(self) -> list[Policy]:
        """The policy of every run, in the order of `runs`."""
        return [self._policy(number) for number in range(len(self.runs))]

    def policy(self, condition: str | None = None, seed: int | None = None) -> Policy:
        """The policy of a run; of the first one that fits, when there are several."""
        for number, (name, of_seed) in enumerate(self.runs):
            if condition in (None, name) and seed in (None, of_seed):
                return self.policies[number]
        trained = ", ".join(f"{name} (seed {of_seed})" for name, of_seed in self.runs)
        raise MasklessError(f"No run is {condition}, seed {seed}; there are: {trained}.")

    def evaluate(self, **how: Any) -> Evaluation:
        """Plays complete episodes of every run under each kind of mask; takes what
        `maskless.evaluate` takes."""
        env, runs = self.request.env, []
        for number, run in enumerate(self.runs):
            net, params, heads = self._trained(number)
            place = None if self.folder is None else folders.run_folder(self.folder, run)
            thresholds = (condition(run[0]).threshold,) * env.num_actions
            runs.append(EvaluatedRun(place, *run, self.update, params, thresholds, *heads))
        return evaluate_runs(Runs(self.config, env, net, runs, env.id, self.folder), **how)

    def save(self, folder: str | Path | None = None) -> Path:
        """Writes the folder that training into it would have written: configuration, logs,
        a checkpoint and the policy of every run. By default the next free runs/ENV-NET-1."""
        config = self.config
        free = (path for path in folders.numbered(config.env, config.net) if not path.exists())
        place = next(free) if folder is None else Path(folder)
        with lock.writing(output_folder(place), warnings.warn):
            folders.refuse_used(place)
            folders.create(config, self.program, place)
            for run, rows in zip(folders.run_folders(config, place), self.rows, strict=True):
                with RunLog(output_folder(run)) as log:
                    log.write(rows)
            done, unlogged = self.update, self.unlogged
            folders.save(config, self.program, self.states, done, place, keep=1, unlogged=unlogged)
            folders.export(config, self.program, self.states, place)
            if self.finished is not None:
                self._save_finished(self.finished, place)
        return place

    def _finished_before(self) -> list[Finished] | None:
        """Here, or in the folder by the process that trained this."""
        if self.finished is not None or self.folder is None:
            return self.finished
        named, _, encoder = self.config.net.partition(WITH_ENCODER)
        net = self.request.net if named.startswith(CUSTOM) else None
        own = self.request.net.encoder if encoder else None
        env, network = self.request.env, self.request.net
        students = finished_runs(self.folder, self.config, env, network, net, own)
        return [Finished(net, run.params, []) for net, run in students]

    def _save_finished(self, finished: list[Finished], folder: Path) -> None:
        for run, each in zip(self.runs, finished, strict=True):
            save_finished(folders.run_folder(folder, run), self.request.env, each, run[0])

    def _policy(self, number: int) -> Policy:
        net, params, (classifier, clone) = self._trained(number)
        threshold = condition(self.runs[number][0]).threshold
        return policy_of(
            net,
            params,
            self.request.env,
            threshold=threshold,
            classifier=classifier,
            clone=clone,
        )

    def _trained(self, number: int) -> tuple[Any, Any, tuple[bool, bool]]:
        """A run's network and parameters, and whether its classifier and its clone were trained."""
        if self.finished is not None:
            return self.finished[number].net, self.finished[number].params, (True, True)
        chosen = condition(self.runs[number][0])
        params = self.program.fetch_run(self.states.params, number)
        return self.request.net, params, (chosen.has_classifier, chosen.has_clone)
