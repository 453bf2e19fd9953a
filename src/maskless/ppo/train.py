"""`train`: from a configuration to a folder of runs, with everything in it that happened.

The device does a chunk of updates; then the host looks in: it checks that all numbers are finite,
writes the log, shows progress, saves, and sees whether somebody asked it to stop.
"""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

import maskless.config
from maskless.conditions import condition
from maskless.config import Config
from maskless.deploy.artifact import save_policy
from maskless.diagnostics.watch import SuppressionWatch, sentences
from maskless.envs import make
from maskless.errors import MasklessError
from maskless.ppo.learner import TrainState
from maskless.ppo.program import Program, of_run, together
from maskless.ppo.visit import by_condition, check_finite, rows
from maskless.report.files import output_folder, provenance, write_json
from maskless.runs import checkpoints, display
from maskless.runs.log import RunLog, Sink, read_metrics
from maskless.runs.signals import StopRequest

LOG_LINES = 1000
"""About so many lines, evenly spaced, does the log of a long run have."""


Sinks = Callable[[Path], Sequence[Sink]]
"""Where else the log of the run in this folder goes, such as TensorBoard."""


def no_sinks(folder: Path) -> Sequence[Sink]:
    return ()


@dataclasses.dataclass(frozen=True)
class Keeping:
    """How a program is kept on disk; none of it changes what is computed."""

    checkpoint_minutes: float = 5.0
    """Save at least this often."""
    keep: int = 2
    """How many checkpoints of each run to keep."""


def run_folder(folder: Path, run: tuple[str, int]) -> Path:
    """The folder of one (condition, seed)."""
    name, seed = run
    return folder / name.replace(":", "-") / f"seed-{seed}"


def train(
    config: Config,
    folder: Path,
    *,
    keeping: Keeping = Keeping(),  # noqa: B008 (frozen)
    sinks: Sinks = no_sinks,
) -> bool:
    """Trains all runs of `config` into `folder`, one folder each. False: stopped by a signal
    before the end, with everything saved; go on with `resume`."""
    maskless.config.check(config)
    if (folder / "config.json").exists():
        raise MasklessError(
            f"{folder} already holds a training: go on with --resume {folder}, or choose another"
            " folder with --out."
        )
    with contextlib.closing(make_program(config)) as program:
        output_folder(folder)
        for place, run in zip(_folders(config, folder), config.runs, strict=True):
            write_json(output_folder(place) / "config.json", _describe(config, program, run))
        write_json(folder / "config.json", _describe(config, program, None))
        return _train(config, program, program.start(), 0, folder, keeping, sinks)


def resume(
    folder: Path,
    *,
    keeping: Keeping = Keeping(),  # noqa: B008 (frozen)
    sinks: Sinks = no_sinks,
    warn: Callable[[str], None] = print,
) -> bool:
    """Continues a training from its newest checkpoint, bit for bit as if it had never stopped
    (in a Gymnasium environment: with new episodes)."""
    config = read_config(folder)
    with contextlib.closing(make_program(config)) as program:
        update, states = _restore(config, program, folder, warn)
        if not program.resumes_exactly:
            warn(
                f"The worlds of {config.env} cannot be saved: the runs go on with new episodes, so"
                " that their numbers will differ from those of runs that were never stopped."
            )
        return _train(config, program, states, update, folder, keeping, sinks)


def read_config(folder: Path) -> Config:
    """The configuration of a training's folder, or of one of its runs."""
    path = folder / "config.json"
    try:
        content = json.loads(path.read_text())["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MasklessError(
            f"{folder} is not the folder of a training: {path} cannot be read ({error})."
        ) from error
    return Config.from_json(content)


def _folders(config: Config, folder: Path) -> list[Path]:
    return [run_folder(folder, run) for run in config.runs]


def make_program(config: Config) -> Program:
    env = make(config.env, **config.env_options)
    visit_every = max(1, config.updates // LOG_LINES)
    if config.env.startswith("gymnasium:"):
        from maskless.ppo.host import HostProgram  # needs Gymnasium, which is optional

        return HostProgram(config, env, visit_every=visit_every)
    return Program(config, env, visit_every=visit_every)


def _train(
    config: Config,
    program: Program,
    states: TrainState,
    done: int,
    folder: Path,
    keeping: Keeping,
    sinks: Sinks,
) -> bool:
    title = f"{config.env}, {config.net}, {len(config.runs)} runs"
    every_run = config.frames_per_update * len(config.runs)
    saved_at = time.monotonic()
    with contextlib.ExitStack() as closing:
        books = [
            closing.enter_context(_Book(place, run, program, sinks(place), done))
            for place, run in zip(_folders(config, folder), config.runs, strict=True)
        ]
        began = time.monotonic() - max(book.seconds_before for book in books)
        shown = closing.enter_context(
            display.TrainingDisplay(title, config.updates * every_run, config.conditions)
        )
        stop = closing.enter_context(StopRequest(shown.announce))
        while done < config.updates and not stop.requested:
            # Visits fall on multiples of `visit_every`, so that a resumed log has the same lines.
            count = min(program.visit_every - done % program.visit_every, config.updates - done)
            states, metrics = program.advance(states, count)
            done += count
            check_finite(config, done - count, metrics)
            lines = rows(config, done, metrics, time.monotonic() - began)
            for book, line in zip(books, lines, strict=True):
                book.write(line)
            notes = [note for book in books for note in book.notes]
            shown.update(done * every_run, by_condition(config, lines), notes)
            late = time.monotonic() - saved_at >= 60.0 * keeping.checkpoint_minutes
            if late or stop.requested or done == config.updates:
                _save(config, states, done, folder, keeping)
                saved_at = time.monotonic()
    if done == config.updates:
        _export(config, program, states, folder)
    return done == config.updates


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
        found = self._watch.see(line)
        self.notes = [f"{self._name}: {sentence}" for sentence in sentences(found)]
        return {"suppressed_since_frames": self._watch.since_frames}

    def __enter__(self) -> "_Book":
        self._log.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._log.__exit__(*exception)


def identity_of(config: Config, run: tuple[str, int]) -> dict[str, Any]:
    """What makes a checkpoint this run's and no other's."""
    content = config.to_json()
    for name in ("conditions", "seeds", "first_seed"):
        del content[name]
    return content | {"condition": dataclasses.asdict(condition(run[0])), "seed": run[1]}


def _save(
    config: Config,
    states: TrainState,
    done: int,
    folder: Path,
    keeping: Keeping,
) -> None:
    for number, run in enumerate(config.runs):
        checkpoints.save(
            run_folder(folder, run) / "checkpoints",
            done,
            jax.device_get(of_run(states, number)),
            identity=identity_of(config, run),
            keep=keeping.keep,
        )


def _restore(
    config: Config, program: Program, folder: Path, warn: Callable[[str], None]
) -> tuple[int, TrainState]:
    """The newest update of which every run has a good checkpoint; the beginning if there is none
    yet."""
    places = [place / "checkpoints" for place in _folders(config, folder)]
    like = program.like()
    found = checkpoints.newest_common(places)
    for update in found:
        try:
            states = [
                checkpoints.restore(
                    place, like, identity=identity_of(config, run), update=update, warn=warn
                )[1]
                for place, run in zip(places, config.runs, strict=True)
            ]
        except MasklessError as error:
            warn(f"{error} An older checkpoint is tried.")
            continue
        for place in places:
            checkpoints.discard_after(place, update)
        return update, together(states)
    if found:
        raise MasklessError(f"None of the checkpoints in {folder} can be used.")
    warn(f"{folder} has no checkpoint that all its runs share: starting from the beginning.")
    return 0, program.start()


def _describe(config: Config, program: Program, run: tuple[str, int] | None) -> dict[str, Any]:
    """config.json: what is trained, fully resolved, and with what."""
    env = program.learner.env
    content: dict[str, Any] = {"config": config.to_json(), **provenance()}
    content["action_names"] = list(env.action_names)
    if run is not None:
        content["condition"] = dataclasses.asdict(condition(run[0]))
        content["condition_name"], content["seed"] = run
    return content


def _export(config: Config, program: Program, states: TrainState, folder: Path) -> None:
    params = jax.device_get(states.params)
    for number, run in enumerate(config.runs):
        save_policy(
            run_folder(folder, run) / "policy",
            program.learner.net,
            of_run(params, number),
            program.learner.env,
            threshold=condition(run[0]).threshold,
            classifier=condition(run[0]).strength > 0,
        )
