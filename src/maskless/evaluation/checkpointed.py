"""Trained runs and policy artifacts, read back from their folders: what is played with."""

import dataclasses
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from maskless.conditions import condition
from maskless.config import Config
from maskless.envs import Environment, make
from maskless.errors import MasklessError
from maskless.nets import Network
from maskless.policy.acting import Policy, load
from maskless.policy.artifact import ABOUT_FILE, read_artifact
from maskless.policy.observations import Field, fields_of
from maskless.policy.overrides import Override, Overruling
from maskless.training import checkpoints
from maskless.training.train import identity_of, make_program, read_config, run_folder


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """One run and the parameters of its newest checkpoint, or a policy artifact."""

    folder: Path
    name: str
    """Of its condition, as it was written on the command line."""
    seed: int
    update: int | None
    """Updates that the parameters have seen; an artifact does not say."""
    params: Any
    thresholds: tuple[float | None, ...]
    """For each action, the probability above which it is predicted valid; None: it always is."""
    has_classifier: bool
    """False: the validity head was never trained."""
    overrides: tuple[Override, ...] = ()
    """Of an artifact: the rules that a person added."""

    def thresholds_by_name(self, actions: Sequence[str]) -> float | dict[str, float | None]:
        """The threshold where all actions have the same, otherwise one for each."""
        if len(set(self.thresholds)) == 1 and self.thresholds[0] is not None:
            return self.thresholds[0]
        return dict(zip(actions, self.thresholds, strict=True))


@dataclasses.dataclass(frozen=True)
class Trained:
    """The runs of one training, of one environment and network; or one policy artifact."""

    config: Config | None
    """None: an artifact that is not in its run's folder."""
    env: Environment
    net: Network
    runs: list[TrainedRun]
    home: str
    """The id of the environment trained in; `env` may be another."""

    @property
    def overrule(self) -> Overruling | None:
        """The overrides as the loop of play wants them. Only artifacts have some, and these are
        played alone."""
        rules = self.runs[0].overrides
        if not rules:
            return None
        return Overruling(rules, tuple(self.env.action_names), tuple(fields_of(self.env)))


def find_runs(folder: Path) -> list[tuple[Path, str, int]]:
    """(folder, condition, seed) of the run in `folder`, or of all runs of the training there."""
    config = read_config(folder)
    about = json.loads((folder / "config.json").read_text())
    if "condition_name" in about:
        return [(folder, about["condition_name"], about["seed"])]
    return [(run_folder(folder, run), *run) for run in config.runs]


def is_artifact(folder: Path) -> bool:
    """Whether this very folder (and not its `policy`) is a policy artifact."""
    return (folder / ABOUT_FILE).is_file()


def load_trained(
    folder: Path, env: str | None = None, *, warn: Callable[[str], None] = warnings.warn
) -> Trained:
    """The artifact in `folder`, or the run there, or all runs of the training there.

    `env`: another environment than the one trained in, with the same observations and actions.
    """
    folder = Path(folder)
    if is_artifact(folder):
        return _load_artifact(folder, env)
    trained = load_runs(folder, warn=warn)
    if env is None:
        return trained
    elsewhere = make(env)
    check_fit(trained.env.action_names, fields_of(trained.env), elsewhere)
    return dataclasses.replace(trained, env=elsewhere)


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
        chosen = condition(name)
        thresholds = (chosen.threshold,) * program.learner.env.num_actions
        runs.append(
            TrainedRun(place, name, seed, update, state.params, thresholds, chosen.strength > 0)
        )
    env = program.learner.env
    return Trained(config, env, program.learner.net, runs, env.id)


def _load_artifact(folder: Path, env: str | None) -> Trained:
    policy = load(folder)
    world = environment_of(folder, policy, env)
    check_fit(policy.action_names, policy.fields, world)
    config, name, seed = _run_around(folder) or (None, "policy", 0)
    run = TrainedRun(
        folder=folder,
        name=name,
        seed=seed,
        update=None,
        params=policy.params,
        thresholds=policy.artifact.thresholds,
        has_classifier=policy.artifact.classifier,
        overrides=policy.overrides,
    )
    return Trained(config, world, policy.net, [run], policy.artifact.about["env"])


def environment_of(run: Path, policy: Policy, name: str | None = None) -> Environment:
    """The environment a policy was trained in, with its options where its run's folder tells them;
    or the one called `name`."""
    if name is not None:
        return make(name)
    around = _run_around(run)
    if around is not None:
        return make(around[0].env, **around[0].env_options)
    return make(policy.artifact.about["env"])


def _run_around(folder: Path) -> tuple[Config, str, int] | None:
    """Configuration, condition and seed of the run in `folder` or around it."""
    for place in (folder, folder.parent):
        try:
            config, found = read_config(place), find_runs(place)
        except MasklessError:  # none, or some other program's
            continue
        if len(found) == 1:
            return config, *found[0][1:]
    return None


def check_fit(action_names: Sequence[str], fields: Sequence[Field], env: Environment) -> None:
    """Refuses an environment with other actions or observations than a policy's."""
    other = None
    if tuple(env.action_names) != tuple(action_names):
        other = "actions"
    elif tuple(fields_of(env)) != tuple(fields):
        other = "observations"
    if other is not None:
        raise MasklessError(
            f"{env.id} has other {other} than the policy was trained for: name another with --env."
        )


def not_in_force(folders: Sequence[Path]) -> list[str]:
    """A sentence for each of these runs that was played as it was trained, although its policy
    artifact was calibrated or overridden since."""
    found = []
    for policy in [folder / "policy" for folder in folders if not is_artifact(folder)]:
        if not is_artifact(policy):
            continue
        artifact = read_artifact(policy)
        changes = ["calibrated thresholds"] * (artifact.about.get("thresholds") is not None)
        changes += ["overrides"] * bool(artifact.overrides)
        if changes:
            found.append(
                f"This was the run as it was trained. {policy} has {' and '.join(changes)}: name"
                " that folder to play with them."
            )
    return found
