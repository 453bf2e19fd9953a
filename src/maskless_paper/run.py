"""Running a study: training, evaluations at its budgets, and one small JSON with all of it.

    result = run_study(make_plan("classic-mlp", "gpu"), out=Path("results"), minutes=8)

The training has a folder of its own, so that an interrupted study goes on where it stopped; a
finished one is not repeated.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from maskless.api import train
from maskless.errors import MasklessError
from maskless.files import output_folder
from maskless.ppo.learner import TrainState
from maskless.provenance import provenance
from maskless.training.folder import read_config, run_folder
from maskless.training.log import read_metrics
from maskless.training.program import Program
from maskless.training.session import Progress
from maskless_paper.downsampling import downsample
from maskless_paper.evaluator import Evaluator
from maskless_paper.plans import Plan
from maskless_paper.study_files import FORMAT, Result, read_result, write_result

TRAINING_RESULT = "result.json"
"""In the training's folder: the results of all its runs, of which a study may be a part."""
KEEPING: dict[str, Any] = {"checkpoint_minutes": 20.0, "keep": 1}
"""All worlds of all runs are gigabytes: they are saved seldom, and at the end."""
EVALUATION_SECONDS, COMPILE_SECONDS = 25.0, 90.0
"""Reserved for the first evaluation, and for compiling it."""

_BACKGROUND = ThreadPoolExecutor(1)
"""Compiles the evaluation while training goes on."""


def run_study(
    plan: Plan,
    out: Path,
    *,
    runs: Path = Path("runs/reproduce"),
    minutes: float | None = None,
    say: Callable[[str], None] = print,
) -> Result:
    """Trains and evaluates, or goes on with that, and writes `out`/STUDY.json after every
    evaluation.

    `runs`: where the trainings are. `minutes`: after about so many the training is stopped, what
    is there is evaluated, and the result says how far it got; the next call goes on from there.
    """
    folder = runs / plan.scale / plan.training
    path = output_folder(out) / f"{plan.study}.json"
    earlier = _read_earlier(plan, folder)
    if earlier and earlier["complete"]:
        say(f"{plan.study}: finished before, not repeated ({folder}).")
        result = _study_of(plan, earlier)
        write_result(path, result)
        return result
    session = _Session(plan, folder, path, earlier, minutes, say)
    begun = (folder / "config.json").exists()
    training = train(
        None if begun else plan.config,
        folder=folder,
        resume=begun,
        callback=session.visit,
        warn=say,
        **KEEPING,
    )
    if not (training.complete or session.out_of_time):
        raise MasklessError(f"{plan.study} was interrupted; the same command goes on with it.")
    if session.result is None:
        raise MasklessError(
            f"{folder} holds a finished training without its evaluations: delete it and start"
            " again."
        )
    return session.result


def _read_earlier(plan: Plan, folder: Path) -> Result | None:
    """The result of an earlier session of this training, if there is one."""
    if not (folder / "config.json").exists():
        return None
    if read_config(folder) != plan.config:
        raise MasklessError(
            f"{folder} holds this study with another configuration: delete it, or name another"
            " folder with --runs."
        )
    return read_result(folder / TRAINING_RESULT) if (folder / TRAINING_RESULT).exists() else None


def _study_of(plan: Plan, training: Result) -> Result:
    """The part of a training that is this study's: its conditions, in its order."""

    def select(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        selected = [entry for entry in entries if entry["condition"] in plan.conditions]
        return sorted(selected, key=lambda entry: plan.conditions.index(entry["condition"]))

    head = {"format": FORMAT, "study": plan.study, "scale": plan.scale, "about": plan.about}
    config = training["config"] | {"conditions": list(plan.conditions)}
    lists = {name: select(training[name]) for name in ("evaluations", "logs")}
    return head | training | {"config": config} | lists


class _Session:
    """One stretch of training, from a start or a resumption to the next stop."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        path: Path,
        earlier: Result | None,
        minutes: float | None,
        say: Callable[[str], None],
    ):
        self._plan, self._folder, self._path, self._say = plan, folder, path, say
        self._began = time.monotonic()
        self._limit = float("inf") if minutes is None else 60.0 * minutes
        self._evaluator: Evaluator | None = None
        self._compiling: Future[None] | None = None
        self._evaluations: list[dict[str, Any]] = earlier["evaluations"] if earlier else []
        self._sessions: list[dict[str, Any]] = earlier["sessions"] if earlier else []
        self._first: tuple[float, int] | None = None
        self._last_visit = self._began
        self._evaluating = 0.0
        self.out_of_time = False
        self.result: Result | None = None

    def visit(self, progress: Progress) -> bool:
        """Evaluates at the budgets and when the time is up; True: stop."""
        program, states, done = progress.program, progress.states, progress.update
        now = time.monotonic()
        since, self._last_visit = now - self._last_visit, now
        if self._first is None:
            self._first, since = (now, done), 0.0  # compiling
            self._prepare(program, states)
        left = self._limit - (now - self._began) - since - self._time_to_evaluate()
        updates = self._plan.config.updates
        finished, self.out_of_time = done == updates, left < 0
        if self._is_due(done) or finished or self.out_of_time:
            self._evaluate(program, states, done)
            self._write(program, done, finished)
            self._last_visit = time.monotonic()
        return self.out_of_time

    def _prepare(self, program: Program, states: TrainState) -> None:
        """Training goes on while the evaluation compiles beside it."""
        plan = self._plan
        self._evaluator = Evaluator(program, plan.episodes, steps=plan.steps)
        shapes = jax.eval_shape(lambda x: x, states.params)  # the states themselves move on
        self._compiling = _BACKGROUND.submit(self._evaluator.compile, shapes)

    def _is_due(self, done: int) -> bool:
        """Whether a budget has been passed since the last evaluation."""
        config = self._plan.config
        frames = max((entry["frames"] for entry in self._evaluations), default=0)
        last = frames // config.frames_per_update
        stops = [max(1, round(share * config.updates)) for share in self._plan.budgets]
        return any(last < stop <= done for stop in stops)

    def _time_to_evaluate(self) -> float:
        assert self._evaluator is not None
        assert self._compiling is not None
        if self._evaluator.seconds is not None:
            return 1.5 * self._evaluator.seconds
        return EVALUATION_SECONDS + (0.0 if self._compiling.done() else COMPILE_SECONDS)

    def _evaluate(self, program: Program, states: TrainState, done: int) -> None:
        began = time.monotonic()
        assert self._evaluator is not None
        assert self._compiling is not None
        self._compiling.result()
        frames = done * self._plan.config.frames_per_update
        entries = self._evaluator(states.params)
        self._evaluations += [{"frames": frames} | entry for entry in entries]
        seconds = time.monotonic() - began
        self._evaluating += seconds
        self._say(f"{self._plan.study}: evaluated at {frames:,} frames in {seconds:.0f} s.")

    def _write(self, program: Program, done: int, finished: bool) -> None:
        plan, config = self._plan, self._plan.config
        sessions = [*self._sessions, self._this_session(done)]
        env = program.learner.env
        training = {
            "format": FORMAT,
            "stands_in": plan.stands_in,
            "complete": finished,
            "frames": done * config.frames_per_update,
            "planned_frames": config.updates * config.frames_per_update,
            "seconds": round(sum(session["seconds"] for session in sessions), 1),
            "sessions": sessions,
            "config": config.to_json(),
            "action_names": list(env.action_names),
            "observation_size": sum(x.size for x in jax.tree.leaves(env.observation_shapes)),
            "watched": list(plan.watched),
            "evaluations": self._evaluations,
            "logs": [
                {"condition": run[0], "seed": run[1]}
                | downsample(
                    read_metrics(run_folder(self._folder, run)),
                    env.action_names,
                    plan.watched,
                    planned_frames=config.updates * config.frames_per_update,
                    longest_episode=env.episode_limit * config.ppo.num_envs,
                )
                for run in config.runs
            ],
        }
        self.result = _study_of(plan, training)
        write_result(self._folder / TRAINING_RESULT, training)
        write_result(self._path, self.result)

    def _this_session(self, done: int) -> dict[str, Any]:
        """How far it got since it began, how fast, and on what."""
        now, config = time.monotonic(), self._plan.config
        assert self._first is not None
        began, first = self._first
        training = now - began - self._evaluating
        frames = (done - first) * config.frames_per_update * len(config.runs)
        return {
            "until_frames": done * config.frames_per_update,
            "seconds": round(now - self._began, 1),
            "compiling_seconds": round(began - self._began, 1),
            "frames_per_second": round(frames / training) if training > 0 else None,
            **provenance(),
        }
