"""Trained runs and policy artifacts, from memory or from their folders: what is evaluated."""

import dataclasses
import os.path
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from maskless import policy as policies
from maskless.artifact.folder import ABOUT_FILE, STUDENT, find_policy, naming, read_about
from maskless.conditions import condition, prudence_of
from maskless.config import Config
from maskless.envs import Environment
from maskless.envs.prudence import with_prudence
from maskless.envs.resolve import OBJECT, as_environment
from maskless.envs.trust import make_named_in_file, names_code
from maskless.errors import MasklessError
from maskless.nets import AnyNetwork
from maskless.nets.deployable import Deployable
from maskless.policy.acting import Policy
from maskless.policy.artifact import read_artifact
from maskless.policy.networks import acting_net
from maskless.policy.observations import Field, fields_of
from maskless.policy.overrides import Override, Overruling
from maskless.training import checkpoints
from maskless.training.folder import CONFIG_FILE, find_runs, identity_of, read_config
from maskless.training.request import env_and_net, given_environment


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
    has_clone: bool = False
    """Whether there is a trained head that acts without any mask (`Heads.clone`)."""
    overrides: tuple[Override, ...] = ()
    """Of an artifact: the rules that a person added."""
    clock_fields: tuple[str, ...] | None = None
    """Of an artifact: what its memory of failures leaves out; None: what the environment says."""

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
    def clock_fields(self) -> tuple[str, ...]:
        """What changes by itself, so that a memory of failures leaves it out."""
        own = self.runs[0].clock_fields
        return self.env.clock_fields if own is None else own

    @property
    def overrule(self) -> Overruling | None:
        """The overrides, for the player. Only artifacts have some, and these are played alone."""
        rules = self.runs[0].overrides
        if not rules:
            return None
        return Overruling(rules, tuple(self.env.action_names), tuple(fields_of(self.env)))


def is_artifact(folder: Path) -> bool:
    """Whether this very folder (and not its `policy`) is a policy artifact."""
    return os.path.isfile(folder / ABOUT_FILE)


def load_runs(
    folder: Path,
    env: Any = None,
    net: Any = None,
    encoder: Any = None,
    *,
    finished: bool = True,
    trust: bool = False,
    warn: Callable[[str], None] = warnings.warn,
) -> Runs:
    """The artifact in `folder`; or the run there, or all runs of the training there, each at its
    newest checkpoint.

    `env`: an environment of the same observations and actions, in place of the one trained in.
    Where training was given objects, `env`, `net` and `encoder` are those. `finished`: with their
    students, if all runs have one. `trust`: import what the folder names (`maskless.envs.trust`).
    """
    folder = Path(folder)
    if is_artifact(folder):
        return _load_artifact(folder, env, net, encoder, trust)
    config = read_config(folder)
    another = None if env is None else given_environment(config, env)
    # What the folder names is made as well, to compare, unless that is not to be imported.
    alone = config.env.startswith(OBJECT) or (
        not trust and names_code(config.env, config.env_options)
    )
    file = folder / CONFIG_FILE
    home, network = env_and_net(
        config, another if alone else None, net, encoder, file=file, trust=trust
    )
    unmade = alone and not config.env.startswith(OBJECT) and another is not None
    home_id = config.env if unmade and env != config.env else home.id
    if another is not None and not alone:
        check_fit(home.action_names, fields_of(home), another)
    students = finished_runs(folder, config, home, network, net, encoder) if finished else []
    if students:
        runs = [run for _, run in students]
        return Runs(config, another or home, students[0][0], runs, home_id, folder)
    like = {"params": parameter_shapes(network, home)}
    runs = [
        _at_checkpoint(config, home.num_actions, like, *found, warn=warn)
        for found in find_runs(folder)
    ]
    return Runs(config, another or home, network, runs, home_id, folder)


def _at_checkpoint(
    config: Config,
    num_actions: int,
    like: Any,
    place: Path,
    name: str,
    seed: int,
    *,
    warn: Callable[[str], None],
) -> EvaluatedRun:
    """The run of the condition `name` in the folder `place`, as its newest checkpoint has it."""
    if not checkpoints.updates(place / "checkpoints"):
        raise MasklessError(f"{place} has no checkpoint yet: train it first, or name another run.")
    update, state = checkpoints.restore(
        place / "checkpoints",
        like,
        identity=identity_of(config, (name, seed)),
        part=True,
        finite="params",
        warn=warn,
    )
    chosen = condition(name)
    return EvaluatedRun(
        folder=place,
        name=name,
        seed=seed,
        update=update,
        params=state["params"],
        thresholds=(chosen.threshold,) * num_actions,
        has_classifier=chosen.has_classifier,
        has_clone=chosen.has_clone,
    )


def finished_runs(
    folder: Path, config: Config, env: Environment, network: AnyNetwork, net: Any, encoder: Any
) -> list[tuple[Deployable, EvaluatedRun]]:
    """The runs with their students, if all have one (`maskless.finish`): a checkpoint has none.
    `env`, `network`: of the configuration; `net`, `encoder`: those of the user's own."""
    students: list[tuple[Deployable, EvaluatedRun]] = []
    deployable, expected = None, None
    for place, name, seed in find_runs(folder):
        if not is_artifact(place / "policy"):
            return []
        policy = find_policy(place)
        with naming(policy):
            entry = read_about(policy)["net"]
        if STUDENT not in entry:
            return []
        artifact = read_artifact(policy, net, encoder)
        if deployable is None:
            how = {
                "width": artifact.net.student_width,
                "comparisons": artifact.net.comparisons,
            }
            deployable = Deployable.of(acting_net(network), env.num_actions, **how)
            expected = parameter_shapes(deployable, env)
        _check_student(policy, artifact.params, expected)
        run = EvaluatedRun(
            folder=place,
            name=name,
            seed=seed,
            update=config.updates,
            params=artifact.params,
            thresholds=(condition(name).threshold,) * env.num_actions,
            has_classifier=True,
            has_clone=True,
        )
        students.append((deployable, run))
    return students


def _check_student(place: Path, params: Any, expected: Any) -> None:
    """Refuses a policy with a student that is not of this training: all runs play together."""

    def sizes(tree: Any) -> Any:
        return jax.tree.map(lambda x: (tuple(x.shape), str(x.dtype)), tree)

    if sizes(params) != sizes(expected):
        raise MasklessError(
            f"The policy {place} is not one of this training, or was finished otherwise than its"
            " other runs: name its folder to use it alone, or finish the training again"
            " (maskless finish)."
        )


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


def _load_artifact(folder: Path, env: Any, net: Any, encoder: Any, trust: bool) -> Runs:
    policy = policies.load(folder, net=net, encoder=encoder)
    world = environment_of(folder, policy, env, trust=trust)
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
        has_clone=policy.artifact.clone,
        overrides=policy.overrides,
        clock_fields=policy.artifact.clock_fields,
    )
    return Runs(config, world, policy.net, [run], policy.artifact.about["env"], folder)


def environment_of(
    run: Path, policy: Policy, env: Any = None, *, trust: bool = False
) -> Environment:
    """The environment a policy was trained in, with its options where its run's folder has them;
    or `env`. `trust`: import what the folder names (`maskless.envs.trust`)."""
    if env is not None:
        return as_environment(env)
    for place in _places(run):
        if (config := _config_of_one_run(place)) is not None:
            file = place / CONFIG_FILE
            world = make_named_in_file(config.env, config.env_options, file=file, trust=trust)
            return with_prudence(world, prudence_of(find_runs(place)[0][1]))
    file = find_policy(run) / ABOUT_FILE
    return make_named_in_file(policy.artifact.about["env"], {}, file=file, trust=trust)


def _run_around(folder: Path) -> tuple[Config, str, int] | None:
    """Configuration, condition and seed of the run around an artifact."""
    for place in _places(folder):
        if (config := _config_of_one_run(place)) is not None:
            return config, *find_runs(place)[0][1:]
    return None


def _places(folder: Path) -> list[Path]:
    """Where the config.json of a run may be. Inside an artifact there is none: it would be from
    whoever packed it."""
    return [folder.parent] if is_artifact(folder) else [folder, folder.parent]


def _config_of_one_run(place: Path) -> Config | None:
    try:
        config, runs = read_config(place), find_runs(place)
    except MasklessError:  # no training, or some other program's file
        return None
    return config if len(runs) == 1 else None


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
        try:
            artifact = read_artifact(policy)
        except MasklessError as error:  # what was played is not lost for that
            warnings.append(str(error))
            continue
        changes = ["calibrated thresholds"] * (artifact.about.get("thresholds") is not None)
        changes += ["overrides"] * bool(artifact.overrides)
        if changes:
            warnings.append(
                f"This was the run as it was trained. {policy} has {' and '.join(changes)}: name"
                " that folder to play with them."
            )
    return warnings
