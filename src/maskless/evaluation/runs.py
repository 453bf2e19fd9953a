"""Trained runs and policy artifacts, from memory or from their folders: what is evaluated."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from maskless import policy as policies
from maskless.conditions import condition
from maskless.config import Config
from maskless.envs import Environment, make
from maskless.envs.resolve import OBJECT, as_environment
from maskless.errors import MasklessError
from maskless.nets import AnyNetwork
from maskless.policy.acting import Policy
from maskless.policy.artifact import ABOUT_FILE, read_artifact
from maskless.policy.observations import Field, fields_of
from maskless.policy.overrides import Override, Overruling
from maskless.training import checkpoints
from maskless.training.folder import identity_of, read_config, read_description, run_folder
from maskless.training.request import env_and_net


@dataclasses.dataclass(frozen=True)
class EvaluatedRun:
    """One run and the parameters of its newest checkpoint, or a policy artifact."""

    folder: Path | None
    """None: in memory only."""
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
class Runs:
    """The runs of one training, of one environment and network; or one policy artifact."""

    config: Config | None
    """None: an artifact that is not in its run's folder."""
    env: Environment
    net: AnyNetwork
    runs: list[EvaluatedRun]
    home: str
    """The id of the environment trained in; `env` may be another."""
    folder: Path | None = None
    """None: in memory only."""

    @property
    def overrule(self) -> Overruling | None:
        """The overrides, for the player. Only artifacts have some, and these are played alone."""
        rules = self.runs[0].overrides
        if not rules:
            return None
        return Overruling(rules, tuple(self.env.action_names), tuple(fields_of(self.env)))


def find_runs(folder: Path) -> list[tuple[Path, str, int]]:
    """(folder, condition, seed) of the run in `folder`, or of all runs of the training there."""
    config = read_config(folder)
    description = read_description(folder)
    if "condition_name" in description:
        return [(folder, description["condition_name"], description["seed"])]
    return [(run_folder(folder, run), *run) for run in config.runs]


def is_artifact(folder: Path) -> bool:
    """Whether this very folder (and not its `policy`) is a policy artifact."""
    return (folder / ABOUT_FILE).is_file()


def load_runs(
    folder: Path,
    env: Any = None,
    net: Any = None,
    encoder: Any = None,
    *,
    warn: Callable[[str], None] = warnings.warn,
) -> Runs:
    """The artifact in `folder`; or the run there, or all runs of the training there, each at its
    newest checkpoint.

    `env`: an environment of the same observations and actions, in place of the one trained in.
    Where training was given objects, `env`, `net` and `encoder` are those.
    """
    folder = Path(folder)
    if is_artifact(folder):
        return _load_artifact(folder, env, net, encoder)
    config = read_config(folder)
    another = None if env is None else as_environment(env)
    as_object = config.env.startswith(OBJECT)
    home, network = env_and_net(config, another if as_object else None, net, encoder)
    if another is not None and not as_object:
        check_fit(home.action_names, fields_of(home), another)
    like = {"params": parameter_shapes(network, home)}
    runs = []
    for place, name, seed in find_runs(folder):
        if not checkpoints.updates(place / "checkpoints"):
            raise MasklessError(
                f"{place} has no checkpoint yet: train it first, or name another run."
            )
        update, state = checkpoints.restore(
            place / "checkpoints",
            like,
            identity=identity_of(config, (name, seed)),
            part=True,
            warn=warn,
        )
        chosen = condition(name)
        thresholds = (chosen.threshold,) * home.num_actions
        runs.append(
            EvaluatedRun(
                place, name, seed, update, state["params"], thresholds, chosen.has_classifier
            )
        )
    return Runs(config, another or home, network, runs, home.id, folder)


def parameter_shapes(net: AnyNetwork, env: Environment) -> Any:
    """Shapes and types of the network's parameters, without computing any."""
    sequence = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((1, 1, *x.shape), x.dtype), env.observation_shapes
    )
    return jax.eval_shape(
        lambda obs: net.init(
            jax.random.key(0), net.initial_carry(1), obs, jnp.ones((1, 1), jnp.bool_)
        ),
        sequence,
    )


def _load_artifact(folder: Path, env: Any, net: Any, encoder: Any) -> Runs:
    policy = policies.load(folder, net=net, encoder=encoder)
    world = environment_of(folder, policy, env)
    check_fit(policy.action_names, policy.fields, world)
    config, name, seed = _run_around(folder) or (None, "policy", 0)
    run = EvaluatedRun(
        folder=folder,
        name=name,
        seed=seed,
        update=None,
        params=policy.params,
        thresholds=policy.artifact.thresholds,
        has_classifier=policy.artifact.classifier,
        overrides=policy.overrides,
    )
    return Runs(config, world, policy.net, [run], policy.artifact.about["env"], folder)


def environment_of(run: Path, policy: Policy, env: Any = None) -> Environment:
    """The environment a policy was trained in, with its options where its run's folder has them;
    or `env`."""
    if env is not None:
        return as_environment(env)
    around = _run_around(run)
    if around is not None:
        return make(around[0].env, **around[0].env_options)
    return make(policy.artifact.about["env"])


def _run_around(folder: Path) -> tuple[Config, str, int] | None:
    """Configuration, condition and seed of the run in `folder` or around it."""
    for place in (folder, folder.parent):
        try:
            config, runs = read_config(place), find_runs(place)
        except MasklessError:  # no training, or some other program's file
            continue
        if len(runs) == 1:
            return config, *runs[0][1:]
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


def stale_artifact_warnings(runs: Sequence[EvaluatedRun | Any]) -> list[str]:
    """A sentence for each run that was evaluated as it was trained, although its policy artifact
    was calibrated or overridden since."""
    folders = [run.folder for run in runs if run.folder is not None]
    warnings = []
    for policy in [folder / "policy" for folder in folders if not is_artifact(folder)]:
        if not is_artifact(policy):
            continue
        artifact = read_artifact(policy)
        changes = ["calibrated thresholds"] * (artifact.about.get("thresholds") is not None)
        changes += ["overrides"] * bool(artifact.overrides)
        if changes:
            warnings.append(
                f"This was the run as it was trained. {policy} has {' and '.join(changes)}: name"
                " that folder to play with them."
            )
    return warnings
