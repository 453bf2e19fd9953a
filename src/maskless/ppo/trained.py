"""Trained runs, read back from their folders: what evaluation and audit play with."""

import dataclasses
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maskless.conditions import Condition, condition
from maskless.config import Config
from maskless.envs import Environment
from maskless.errors import MasklessError
from maskless.nets import Network
from maskless.ppo.train import identity_of, make_program, read_config, run_folder
from maskless.runs import checkpoints


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """One run and the parameters of its newest checkpoint."""

    folder: Path
    name: str
    """Of its condition, as it was written on the command line."""
    seed: int
    update: int
    """Updates that the parameters have seen."""
    params: Any

    @property
    def condition(self) -> Condition:
        return condition(self.name)

    @property
    def has_classifier(self) -> bool:
        """False: the validity head was never trained."""
        return self.condition.strength > 0


@dataclasses.dataclass(frozen=True)
class Trained:
    """The runs of one training: one configuration, environment and network."""

    config: Config
    env: Environment
    net: Network
    runs: list[TrainedRun]


def find_runs(folder: Path) -> list[tuple[Path, str, int]]:
    """(folder, condition, seed) of the run in `folder`, or of all runs of the training there."""
    config = read_config(folder)
    about = json.loads((folder / "config.json").read_text())
    if "condition_name" in about:
        return [(folder, about["condition_name"], about["seed"])]
    return [(run_folder(folder, run), *run) for run in config.runs]


def load_runs(folder: Path, *, warn: Callable[[str], None] = warnings.warn) -> Trained:
    """The run in `folder`, or all runs of the training there, each at its newest checkpoint."""
    folder = Path(folder)
    config = read_config(folder)
    found = find_runs(folder)
    program = make_program(config)
    like = program.like()
    runs = []
    for place, name, seed in found:
        if not checkpoints.updates(place / "checkpoints"):
            raise MasklessError(
                f"{place} has no checkpoint yet: train it first, or name another run."
            )
        update, state = checkpoints.restore(
            place / "checkpoints", like, identity=identity_of(config, (name, seed)), warn=warn
        )
        runs.append(TrainedRun(place, name, seed, update, state.params))
    return Trained(config, program.learner.env, program.learner.net, runs)
