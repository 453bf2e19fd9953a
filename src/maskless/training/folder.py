"""The folder of a training: what was trained, the checkpoints of every run, and its policies.

runs/NAME/config.json
runs/NAME/masked-kl/seed-0/config.json, metrics.jsonl, checkpoints/, policy/
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maskless.conditions import condition, numbers
from maskless.config import Config
from maskless.errors import MasklessError
from maskless.files import output_folder, write_json
from maskless.policy.artifact import save_policy
from maskless.ppo.learner import TrainState
from maskless.provenance import provenance
from maskless.training import checkpoints, devices, processes
from maskless.training.program import Program

CONFIG_FILE = "config.json"


def run_folder(folder: Path, run: tuple[str, int]) -> Path:
    """The folder of one (condition, seed)."""
    name, seed = run
    return folder / name.replace(":", "-") / f"seed-{seed}"


def run_folders(config: Config, folder: Path) -> list[Path]:
    return [run_folder(folder, run) for run in config.runs]


def read_config(folder: Path) -> Config:
    """The configuration of a training's folder, or of one of its runs."""
    return Config.from_json(read_description(folder)["config"])


def read_description(folder: Path) -> dict[str, Any]:
    """The config.json of a training or a run."""
    path = folder / CONFIG_FILE
    try:
        description = json.loads(path.read_text())
        description["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MasklessError(
            f"{folder} is not the folder of a training: {path} cannot be read ({error})."
        ) from error
    return description


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
    for name in ("conditions", "seeds", "first_seed"):
        del content[name]
    # Switches as numbers, as in checkpoints from when they were.
    values = dataclasses.asdict(condition(run[0])).items()
    content |= {"condition": {name: float(value) for name, value in values}, "seed": run[1]}
    return content | ({"numbers": numbers(run[0])} if numbers(run[0]) else {})


def save(
    config: Config, program: Program, states: TrainState, update: int, folder: Path, *, keep: int
) -> None:
    """A checkpoint of every run. All processes must take part; the first one writes."""
    for number, run in enumerate(config.runs):
        state = program.fetch_run(states, number)
        with processes.failing_together():
            if processes.is_first():
                checkpoints.save(
                    run_folder(folder, run) / "checkpoints",
                    update,
                    state,
                    identity=identity_of(config, run),
                    keep=keep,
                )


def restore(
    config: Config, program: Program, folder: Path, warn: Callable[[str], None]
) -> tuple[int, list[TrainState]]:
    """The newest update of which every run has a good checkpoint, and their states; no states if
    there is none yet."""
    places = [place / "checkpoints" for place in run_folders(config, folder)]
    like = program.like()
    updates = checkpoints.newest_common(places)
    for update in updates:
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
    if updates:
        raise MasklessError(f"None of the checkpoints in {folder} can be used.")
    warn(f"{folder} has no checkpoint that all its runs share: starting from the beginning.")
    return 0, []


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


def _in_words(described: dict[str, int]) -> str:
    number = described["runs"] * described["envs"]
    where = f" in {described['processes']} processes" if described["processes"] > 1 else ""
    return f"{number} device{'s' if number > 1 else ''}{where}"


def export(config: Config, program: Program, states: TrainState, folder: Path) -> None:
    """The policy of every run."""
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
                    classifier=condition(run[0]).has_classifier,
                )
