"""The folder of a training: what was trained, the checkpoints of every run, and its policies.

runs/NAME/config.json
runs/NAME/masked-kl/seed-0/config.json, metrics.jsonl, checkpoints/, policy/
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from maskless.conditions import condition, identity, numbers
from maskless.config import Config
from maskless.errors import MasklessError, require
from maskless.files import (
    Size,
    UnreadableError,
    check_inside,
    check_named,
    output_folder,
    read_json,
    slug,
    write_json,
    write_text,
)
from maskless.policy.artifact import save_policy
from maskless.ppo.learner import TrainState
from maskless.provenance import provenance
from maskless.training import checkpoints, devices, processes
from maskless.training.program import Program

CONFIG_FILE = "config.json"
SAVED_FILE = ".saved"
"""There since all runs have saved for the first time."""

Metrics = dict[str, np.ndarray]
"""Of some updates, as the program gives them. {name: [updates, runs, ...]}"""


class _Required(TypedDict):
    config: dict[str, Any]


class _Devices(TypedDict):
    runs: Size
    envs: Size
    processes: Size


class Description(_Required, total=False):
    """What config.json holds."""

    condition_name: str
    """Of a run; the folder of a whole training has neither this nor the next three."""
    condition: dict[str, bool | float]
    seed: int
    numbers: dict[str, float]
    action_names: list[str]
    devices: _Devices | None
    commit: str | None
    python: str
    versions: dict[str, str | None]
    device: str
    kernels: bool


def numbered(env: str, net: str) -> Iterator[Path]:
    """runs/ENV-NET-1, runs/ENV-NET-2, ...: where a training goes that names no folder."""
    base = f"{slug(env)}-{slug(net)}"
    return (Path("runs") / f"{base}-{number}" for number in itertools.count(1))


def run_folder(folder: Path, run: tuple[str, int]) -> Path:
    """The folder of one (condition, seed)."""
    name, seed = run
    return folder / name.replace(":", "-") / f"seed-{seed}"


def run_folders(config: Config, folder: Path) -> list[Path]:
    return [run_folder(folder, run) for run in config.runs]


def read_config(folder: Path) -> Config:
    """The configuration of a training's folder, or of one of its runs."""
    return Config.from_json(read_description(folder)["config"])


def read_description(folder: Path) -> Description:
    """The config.json of a training or a run: what `Description` says, with the `config` as JSON
    holds it. `read_config` reads that."""
    try:
        return read_json(folder / CONFIG_FILE, Description)
    except UnreadableError as error:
        raise MasklessError(
            f"{folder} is not the folder of a training: {error.path} cannot be read"
            f" ({error.reason})."
        ) from error


def find_runs(folder: Path) -> list[tuple[Path, str, int]]:
    """(folder, condition, seed) of the run in `folder`, or of all runs of the training there."""
    description = read_description(check_named(folder))
    if "condition_name" not in description:
        config = read_config(folder)
        return [(check_inside(folder, run_folder(folder, run)), *run) for run in config.runs]
    name, seed = description["condition_name"], description.get("seed")
    if seed is None:
        raise MasklessError(f"{folder / CONFIG_FILE} is damaged: it has no seed.")
    condition(name)
    return [(folder, name, seed)]


def training_of(run: Path) -> Path:
    """The training's folder that this run is a part of, which is locked for both; its own folder
    where it is a training itself, or somebody has taken it out of one."""
    for above in check_named(run).resolve().parents[1:2]:
        try:
            if run.resolve() in run_folders(read_config(above), above):
                return above
        except MasklessError:
            pass
    return run


def refuse_used(folder: Path) -> None:
    if (folder / CONFIG_FILE).exists():
        raise MasklessError(
            f"{folder} already holds a training: go on with --resume {folder} (in Python"
            " resume=True), or choose another folder (--out)."
        )


def create(config: Config, program: Program, folder: Path) -> None:
    """Makes the folders of all runs, each with its config.json."""
    output_folder(folder)
    for place, run in zip(run_folders(config, folder), config.runs, strict=True):
        write_json(output_folder(place) / CONFIG_FILE, _describe(config, program, run))
    write_json(folder / CONFIG_FILE, _describe(config, program, None))


def take_back(config: Config, folder: Path) -> None:
    """What `create` has written: a training that could not begin leaves nothing to go on with."""
    for place in (*run_folders(config, folder), folder):
        (place / CONFIG_FILE).unlink(missing_ok=True)


def _describe(config: Config, program: Program, run: tuple[str, int] | None) -> dict[str, Any]:
    """config.json: what is trained, fully resolved, and with what."""
    env = program.learner.env
    content: dict[str, Any] = {"config": config.to_json(), **provenance()}
    content["devices"] = devices.describe(program.mesh)
    content["action_names"] = list(env.action_names)
    if run is not None:
        content["condition"] = dataclasses.asdict(condition(run[0]))
        content["condition_name"], content["seed"] = run
        if numbers(run[0]):
            content["numbers"] = numbers(run[0])
    return content


def identity_of(config: Config, run: tuple[str, int]) -> dict[str, Any]:
    """What makes a checkpoint this run's and no other's."""
    content = config.to_json()
    for name in ("conditions", "seeds", "first_seed", "preset"):
        content.pop(name, None)
    content |= {"condition": identity(condition(run[0])), "seed": run[1]}
    return content | ({"numbers": numbers(run[0])} if numbers(run[0]) else {})


def save(
    config: Config,
    program: Program,
    states: TrainState,
    update: int,
    folder: Path,
    *,
    keep: int,
    unlogged: Metrics | None = None,
) -> None:
    """A checkpoint of every run. All processes must take part; the first one writes.

    `unlogged`: metrics that no line of the logs holds yet. [updates, runs, ...]
    """
    for number, run in enumerate(config.runs):
        state = program.fetch_run(states, number)
        of_run = {name: values[:, number] for name, values in (unlogged or {}).items()}
        with processes.failing_together():
            if processes.is_first():
                checkpoints.save(
                    _checkpoints(folder, run),
                    update,
                    state,
                    identity=identity_of(config, run),
                    # The logs are computed in float64, which holds all that metrics are.
                    extra={name: x.astype(np.float64) for name, x in of_run.items()},
                    finite="params",
                )
    with processes.failing_together():
        if processes.is_first():
            # Only now that all runs have saved: a kill before leaves an update that all share.
            _note_first_save(folder)
            for run in config.runs:
                checkpoints.keep_newest(_checkpoints(folder, run), update, keep)


def restore(
    config: Config, program: Program, folder: Path, warn: Callable[[str], None]
) -> tuple[int, list[TrainState], Metrics]:
    """The newest update of which every run has a good checkpoint, their states, and the metrics
    that were not logged yet; no states if nothing was ever saved."""
    places = [check_inside(folder, _checkpoints(folder, run)) for run in config.runs]
    like = program.like()
    updates = checkpoints.newest_common(places)
    for update in updates:
        try:
            _refuse_beyond_end(config, folder, update)
            states = [
                checkpoints.restore(
                    place,
                    like,
                    identity=identity_of(config, run),
                    update=update,
                    finite="params",
                    warn=warn,
                )[1]
                for place, run in zip(places, config.runs, strict=True)
            ]
            return update, states, _read_unlogged(places, update)
        except MasklessError as error:
            warn(f"{error} An older checkpoint is tried.")
    if updates:
        raise MasklessError(f"None of the checkpoints in {folder} can be used.")
    _refuse_missing(config, folder)
    warn(f"{folder} has no checkpoint yet: starting from the beginning.")
    return 0, [], {}


def _refuse_beyond_end(config: Config, folder: Path, update: int) -> None:
    """Nothing could be trained from there."""
    require(
        update <= config.updates,
        f"The checkpoints of update {update} in {folder} are of a longer training: this one has"
        f" {config.updates:,} updates.",
    )


def _read_unlogged(places: Sequence[Path], update: int) -> Metrics:
    """What `save` was given as `unlogged`."""
    of_runs = [checkpoints.read_extra(place, update) for place in places]
    shapes = [{name: x.shape for name, x in run.items()} for run in of_runs]
    lengths = {shape[:1] for of_run in shapes for shape in of_run.values()}
    counted = all(np.isfinite(run.get("episodes", 0)).all() for run in of_runs)
    fit = all(each == shapes[0] for each in shapes) and len(lengths - {()}) == len(lengths) <= 1
    require(
        fit and counted, f"The metrics in the checkpoints of update {update} do not fit together."
    )
    return {name: np.stack([run[name] for run in of_runs], 1) for name in of_runs[0]}


def discard_after(config: Config, folder: Path, update: int) -> None:
    """Removes the checkpoints of later updates."""
    for run in config.runs:
        checkpoints.discard_after(_checkpoints(folder, run), update)


def _refuse_missing(config: Config, folder: Path) -> None:
    """Starting again would throw away the logs and checkpoints of the runs that have some. It
    throws away nothing when the very first save was interrupted: some runs have one checkpoint, of
    one update, the others none."""
    found = {run: checkpoints.updates(_checkpoints(folder, run)) for run in config.runs}
    first_save = {update for saved in found.values() for update in saved}
    if not (folder / SAVED_FILE).exists() and len(first_save) <= 1:
        return
    listed = ", ".join(
        f"{name} seed {seed}: {', '.join(map(str, saved[-3:])) or 'none'}"
        for (name, seed), saved in found.items()
    )
    raise MasklessError(
        f"{folder} cannot go on: there is no update of which all its runs have a checkpoint"
        f" ({listed}). Nothing was changed: put back what is missing, or train again into another"
        " folder."
    )


def _note_first_save(folder: Path) -> None:
    path = folder / SAVED_FILE
    if not path.exists():
        write_text(path, "All runs have saved: without their checkpoints nothing starts again.\n")


def _checkpoints(folder: Path, run: tuple[str, int]) -> Path:
    return run_folder(folder, run) / "checkpoints"


def warn_of_differences(
    config: Config, program: Program, folder: Path, warn: Callable[[str], None]
) -> None:
    """Says what keeps the runs from going on bit for bit."""
    before = read_description(folder).get("devices")
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


def _in_words(described: Mapping[str, Any]) -> str:
    number = described["runs"] * described["envs"]
    where = f" in {described['processes']} processes" if described["processes"] > 1 else ""
    return f"{number} device{'s' if number > 1 else ''}{where}"


def export(
    config: Config,
    program: Program,
    states: TrainState,
    folder: Path,
    *,
    only_missing: bool = False,
) -> None:
    """The policy of every run. `only_missing`: those that are there stay, with the thresholds and
    overrides that they may have been given."""
    for number, run in enumerate(config.runs):
        params = program.fetch_run(states.params, number)
        with processes.failing_together():
            place = run_folder(folder, run) / "policy"
            if processes.is_first() and not (only_missing and place.exists()):
                save_policy(
                    place,
                    program.learner.net,
                    params,
                    program.learner.env,
                    threshold=condition(run[0]).threshold,
                    classifier=condition(run[0]).has_classifier,
                    clone=condition(run[0]).has_clone,
                )
