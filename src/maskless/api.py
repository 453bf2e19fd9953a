"""`train`: from an environment to trained policies; and what it returns."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from maskless.conditions import DEFAULT_CONDITIONS, Condition, condition
from maskless.config import Config
from maskless.errors import MasklessError
from maskless.evaluation.runs import EvaluatedRun, Runs
from maskless.evaluation.summary import Evaluation, evaluate_runs
from maskless.files import output_folder
from maskless.hyperparameters import Hyperparameters
from maskless.policy import Policy, policy_of
from maskless.ppo.learner import Optimizer, TrainState
from maskless.training import folder as folders
from maskless.training import processes
from maskless.training.log import Row, RunLog, columns
from maskless.training.program import Program
from maskless.training.request import Request, make_request, request_again
from maskless.training.session import Callback, Options, Session


def train(
    env: Any = None,
    conditions: str | Condition | Sequence[str | Condition] = DEFAULT_CONDITIONS,
    *,
    seeds: int = 1,
    frames: float = 1e6,
    net: Any = None,
    encoder: Any = None,
    optimizer: Optimizer | None = None,
    preset: str = "paper",
    ppo: Hyperparameters | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    **settings: Any,
) -> "Training":
    """Trains every condition with every seed in one compiled program.

        training = maskless.train("staircase", ["masked", "masked-focal"], frames=1e5, seeds=2)
        training.policy("masked-focal").act(observation, key=key)

    `env`: an id, an `Environment`, a Gymnasium environment, a class or function that makes one, or
    a `Config`, which decides all that is computed. `conditions`: names, or `Condition`s.
    `net`: "mlp", "gru", "hybrid", a Flax module that follows the contract of `maskless.nets`, or
    any other Flax module as the encoder of an MLP. `encoder`: such a module for the network `net`.
    `optimizer`: an optax transformation in place of Adam with gradient clipping, or a function
    (hyperparameters, updates) that makes one. `preset`: "paper" or "cpu"; `ppo`: in its place.
    `folder`: where logs, checkpoints and policies go; None: they stay in memory. `resume`: go on
    with the training there. `callback`: gets a `Progress` after every chunk; True stops.
    `settings`: fields of `Config` (env_options, width, precision, ...) and of `Options`
    (checkpoint_minutes, keep, show, ...), and numbers of `Hyperparameters` and `Condition`: a list
    in place of a number trains one run for each value, in the same program.
    """
    keeping = {name: settings.pop(name) for name in _OPTIONS & settings.keys()}
    objects: dict[str, Any] = {"net": net, "encoder": encoder, "optimizer": optimizer}
    with processes.failing_together():
        if resume:
            if settings or ppo is not None:
                name = next(iter(settings), "ppo")
                raise MasklessError(f"A training goes on with its own numbers: leave out {name}.")
            request = _resumed(folder, env, **objects)
        elif isinstance(env, Config):
            request = request_again(env, **objects)
        else:
            asked: dict[str, Any] = {
                "seeds": seeds,
                "frames": frames,
                "preset_name": preset,
                "ppo": ppo,
            }
            request = make_request(env, conditions, **asked, **objects, **settings)
    place, options = None if folder is None else Path(folder), Options(callback=callback, **keeping)
    with Session(request, place, resume=resume, options=options) as session:
        states = session.start()
        while not session.finished:
            states, metrics = session.program.advance(states, session.chunk)
            session.after(states, metrics)
    rows = session.recorder.rows if session.recorder else []
    return Training(request, session.program, states, session.done, rows, place)


_OPTIONS = {field.name for field in dataclasses.fields(Options)} - {"callback"}


def _resumed(folder: str | Path | None, env: Any, **objects: Any) -> Request:
    if folder is None:
        raise MasklessError("Say which training to go on with: resume=True needs its folder.")
    return request_again(folders.read_config(Path(folder)), env=env, **objects)


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
        runs = [
            EvaluatedRun(
                folder=None if self.folder is None else folders.run_folder(self.folder, run),
                name=run[0],
                seed=run[1],
                update=self.update,
                params=self.program.fetch_run(self.states.params, number),
                thresholds=(condition(run[0]).threshold,) * self.request.env.num_actions,
                has_classifier=condition(run[0]).has_classifier,
            )
            for number, run in enumerate(self.runs)
        ]
        env, net = self.request.env, self.request.net
        return evaluate_runs(Runs(self.config, env, net, runs, env.id, self.folder), **how)

    def save(self, folder: str | Path) -> Path:
        """Writes the folder that training into it would have written: configuration, logs,
        a checkpoint and the policy of every run."""
        place, config = Path(folder), self.config
        folders.refuse_used(place)
        folders.create(config, self.program, place)
        for run, rows in zip(folders.run_folders(config, place), self.rows, strict=True):
            with RunLog(output_folder(run)) as log:
                log.write(rows)
        folders.save(config, self.program, self.states, self.update, place, keep=1)
        folders.export(config, self.program, self.states, place)
        return place

    def _policy(self, number: int) -> Policy:
        chosen = condition(self.runs[number][0])
        return policy_of(
            self.request.net,
            self.program.fetch_run(self.states.params, number),
            self.request.env,
            threshold=chosen.threshold,
            classifier=chosen.has_classifier,
        )
