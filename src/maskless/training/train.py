"""`train`: from a configuration to a folder of runs, with everything in it that happened.

The device does a chunk of updates; then the host looks in: it checks that all numbers are finite,
writes the log, shows progress, saves, and sees whether somebody asked it to stop.
"""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

import maskless.config
from maskless.conditions import condition
from maskless.config import Config
from maskless.envs import make
from maskless.errors import MasklessError
from maskless.files import output_folder, write_json
from maskless.policy.artifact import save_policy
from maskless.ppo.learner import TrainState
from maskless.provenance import provenance
from maskless.training import checkpoints, devices, processes
from maskless.training.metrics import check_finite
from maskless.training.program import Program
from maskless.training.recorder import Record, Sinks, no_sinks
from maskless.training.signals import StopRequest

LOG_LINES = 1000
"""About so many lines, evenly spaced, does the log of a long run have."""


Visitor = Callable[[Program, TrainState, int], bool]
"""Sees the program, its states and the updates done at every visit; True: save and stop here."""


def no_visitor(program: Program, states: TrainState, done: int) -> bool:
    return False


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
    keeping: Keeping = Keeping(),
    sinks: Sinks = no_sinks,
    visitor: Visitor = no_visitor,
) -> bool:
    """Trains all runs of `config` into `folder`, one folder each. False: stopped by a signal
    or by `visitor` before the end, with everything saved; go on with `resume`."""
    with processes.failing_together():
        maskless.config.check(config)
        if processes.is_first():
            _refuse_used(folder)
        program = make_program(config)
    with contextlib.closing(program):
        _refuse_differences(config, 0)
        with processes.failing_together():
            if processes.is_first():
                _begin_folder(config, program, folder)
        program.prepare()
        return _train(config, program, program.start(), 0, folder, keeping, sinks, visitor)


def resume(
    folder: Path,
    *,
    keeping: Keeping = Keeping(),
    sinks: Sinks = no_sinks,
    visitor: Visitor = no_visitor,
    warn: Callable[[str], None] = print,
) -> bool:
    """Continues a training from its newest checkpoint, bit for bit as if it had never stopped
    (in a Gymnasium environment: with new episodes)."""
    warn = warn if processes.is_first() else _say_nothing
    with processes.failing_together():
        config = read_config(folder)
        program = make_program(config)
        update, saved = _restore(config, program, folder, warn)
        _warn_of_differences(config, program, folder, warn)
    with contextlib.closing(program):
        _refuse_differences(config, update)
        if processes.is_first() and saved:
            for place in _folders(config, folder):
                checkpoints.discard_after(place / "checkpoints", update)
        states = program.start_from(saved) if saved else program.start()
        del saved  # the host's copy of all worlds
        return _train(config, program, states, update, folder, keeping, sinks, visitor)


def read_config(folder: Path) -> Config:
    """The configuration of a training's folder, or of one of its runs."""
    return Config.from_json(_read_about(folder)["config"])


def _read_about(folder: Path) -> dict[str, Any]:
    """What `_describe` wrote."""
    path = folder / "config.json"
    try:
        about = json.loads(path.read_text())
        about["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MasklessError(
            f"{folder} is not the folder of a training: {path} cannot be read ({error})."
        ) from error
    return about


def _folders(config: Config, folder: Path) -> list[Path]:
    return [run_folder(folder, run) for run in config.runs]


def make_program(config: Config) -> Program:
    env = make(config.env, **config.env_options)
    visit_every = max(1, config.updates // LOG_LINES)
    if config.env.startswith("gymnasium:"):
        if jax.process_count() > 1:
            raise MasklessError(
                f"The worlds of {config.env} are processes of one training process: leave out"
                " --distributed."
            )
        from maskless.training.gymnasium_program import (
            HostProgram,  # needs Gymnasium, which is optional
        )

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
    visitor: Visitor,
) -> bool:
    saved_at, stopping = time.monotonic(), False
    with contextlib.ExitStack() as closing:
        record = None
        with processes.failing_together():
            if processes.is_first():
                places = _folders(config, folder)
                record = closing.enter_context(Record(config, program, places, sinks, done))
        stop = closing.enter_context(StopRequest(record.announce if record else None))
        while done < config.updates and not stopping:
            # Visits fall on multiples of `visit_every`, so that a resumed log has the same lines.
            count = min(program.visit_every - done % program.visit_every, config.updates - done)
            states, metrics = program.advance(states, count)
            done += count
            check_finite(config, done - count, metrics)
            with processes.failing_together():
                if record:
                    record.write(done, metrics)
            enough = visitor(program, states, done)
            late = time.monotonic() - saved_at >= 60.0 * keeping.checkpoint_minutes
            stopping, late = processes.agree(enough or stop.requested, late)
            if late or stopping or done == config.updates:
                _save(config, program, states, done, folder, keeping)
                saved_at = time.monotonic()
    if done == config.updates:
        _export(config, program, states, folder)
    return done == config.updates


def identity_of(config: Config, run: tuple[str, int]) -> dict[str, Any]:
    """What makes a checkpoint this run's and no other's."""
    content = config.to_json()
    for name in ("conditions", "seeds", "first_seed"):
        del content[name]
    return content | {"condition": dataclasses.asdict(condition(run[0])), "seed": run[1]}


def _save(
    config: Config,
    program: Program,
    states: TrainState,
    done: int,
    folder: Path,
    keeping: Keeping,
) -> None:
    for number, run in enumerate(config.runs):
        state = program.fetch_run(states, number)
        with processes.failing_together():
            if processes.is_first():
                checkpoints.save(
                    run_folder(folder, run) / "checkpoints",
                    done,
                    state,
                    identity=identity_of(config, run),
                    keep=keeping.keep,
                )


def _restore(
    config: Config, program: Program, folder: Path, warn: Callable[[str], None]
) -> tuple[int, list[TrainState]]:
    """The newest update of which every run has a good checkpoint, and their states; no states if
    there is none yet."""
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
        return update, states
    if found:
        raise MasklessError(f"None of the checkpoints in {folder} can be used.")
    warn(f"{folder} has no checkpoint that all its runs share: starting from the beginning.")
    return 0, []


def _say_nothing(sentence: str) -> None:
    """The warnings of the first process are enough."""


def _in_words(described: dict[str, int]) -> str:
    number = described["runs"] * described["envs"]
    where = f" in {described['processes']} processes" if described["processes"] > 1 else ""
    return f"{number} device{'s' if number > 1 else ''}{where}"


def _warn_of_differences(
    config: Config, program: Program, folder: Path, warn: Callable[[str], None]
) -> None:
    """Says what keeps the runs from going on bit for bit."""
    before = _read_about(folder).get("devices")
    now = devices.describe(program.mesh)
    if before not in (None, now):
        warn(
            f"The training was begun on {_in_words(before)} and goes on with {_in_words(now)}: its"
            " numbers will be rounded differently from those of one that was never stopped."
        )
    if not program.resumes_exactly:
        warn(
            f"The worlds of {config.env} cannot be saved: the runs go on with new episodes, so"
            " that their numbers will differ from those of runs that were never stopped."
        )


def _refuse_differences(config: Config, done: int) -> None:
    """Processes that do not train the same would wait for each other for ever."""
    if not processes.is_same(json.dumps([config.to_json(), done])):
        raise MasklessError(
            "The processes were not all started with the same flags, or do not all see the same"
            " folder: both are needed."
        )


def _refuse_used(folder: Path) -> None:
    if (folder / "config.json").exists():
        raise MasklessError(
            f"{folder} already holds a training: go on with --resume {folder}, or choose another"
            " folder with --out."
        )


def _begin_folder(config: Config, program: Program, folder: Path) -> None:
    output_folder(folder)
    for place, run in zip(_folders(config, folder), config.runs, strict=True):
        write_json(output_folder(place) / "config.json", _describe(config, program, run))
    write_json(folder / "config.json", _describe(config, program, None))


def _describe(config: Config, program: Program, run: tuple[str, int] | None) -> dict[str, Any]:
    """config.json: what is trained, fully resolved, and with what."""
    env = program.learner.env
    content: dict[str, Any] = {"config": config.to_json(), **provenance()}
    content["devices"] = devices.describe(program.mesh)
    content["action_names"] = list(env.action_names)
    if run is not None:
        content["condition"] = dataclasses.asdict(condition(run[0]))
        content["condition_name"], content["seed"] = run
    return content


def _export(config: Config, program: Program, states: TrainState, folder: Path) -> None:
    for number, run in enumerate(config.runs):
        params = program.fetch_run(states.params, number)
        with processes.failing_together():
            if processes.is_first():
                save_policy(
                    run_folder(folder, run) / "policy",
                    program.learner.net,
                    params,
                    program.learner.env,
                    threshold=condition(run[0]).threshold,
                    classifier=condition(run[0]).strength > 0,
                )
