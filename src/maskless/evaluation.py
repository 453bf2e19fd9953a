"""What a trained policy is worth under oracle, predicted and no masks.

    evaluation = maskless.evaluate("runs/X", episodes=10_240)
    evaluation.runs[0].masks["predicted"].mean_return
    evaluation.save()                                    # evaluation.json in every run's folder

All runs and all modes play at once, in one compiled program. The modes of a run share their keys:
the same levels and the same dice. `untrained` is the mode of a validity head that was never
trained: a run without a classifier has no predicted masks, so that its `predicted` is `none`.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from maskless.envs import Environment, VectorEnv, make
from maskless.errors import MasklessError, UnknownNameError
from maskless.ppo import evaluate as play
from maskless.ppo.evaluate import MASKS, EpisodeRecord, Masks, MaskSource
from maskless.ppo.program import of_run, together
from maskless.ppo.trained import Trained, TrainedRun, load_runs
from maskless.report.files import provenance, write_json

EVALUATION_FILE = "evaluation.json"
UNTRAINED = "untrained"
HOST_ENVS = 32
"""Episodes under way at a time in a Gymnasium environment, each with a game in memory."""
RESAMPLES = 1000
"""Of the bootstrap interval."""

Progress = Callable[[int, str], None]
"""Called with the number of episodes done and what is going on."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """Many episodes of one run under one kind of mask."""

    episodes: int
    mean_return: float
    standard_error: float
    low: float
    """Of the 95 % bootstrap interval of the mean return."""
    high: float
    length: float
    achievements: float
    """Mean number of achievements in an episode."""
    success_rate: float
    """Share of episodes that the game, not the time limit, ended with a reward."""
    invalid_share: float
    """Share of steps that selected an action which the oracle calls invalid."""
    changed_share: float
    """Share of steps whose action the oracle's mask would have changed, with the same dice."""
    mask_errors: float
    """Share of wrong entries in the masks that the validity head predicts."""
    fallback_rate: float
    """Share of steps in which the applied mask allowed nothing and was ignored."""


@dataclasses.dataclass(frozen=True)
class Spread:
    """The mean returns of the seeds of one condition under one kind of mask."""

    seeds: int
    mean: float
    deviation: float
    """Standard deviation over seeds; nan for one seed."""
    lowest: float
    highest: float


@dataclasses.dataclass(frozen=True)
class RunEvaluation:
    """One run under every kind of mask that was asked for."""

    folder: Path
    condition: str
    seed: int
    update: int
    classifier: bool
    masks: dict[str, Summary]

    def to_json(self) -> dict[str, Any]:
        content = dataclasses.asdict(self)
        del content["folder"]
        return content


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """All runs of a training, or one of them."""

    folder: Path
    env: str
    achievement_names: tuple[str, ...]
    settings: dict[str, Any]
    runs: list[RunEvaluation]
    elsewhere: bool = False
    """Played in another environment than trained in."""

    @property
    def spreads(self) -> dict[str, dict[str, Spread]]:
        """condition -> masks -> its seeds."""
        found: dict[str, dict[str, Spread]] = {}
        for name in dict.fromkeys(run.condition for run in self.runs):
            seeds = [run.masks for run in self.runs if run.condition == name]
            found[name] = {
                masks: _spread([seed[masks].mean_return for seed in seeds]) for masks in seeds[0]
            }
        return found

    def to_json(self) -> dict[str, Any]:
        spreads = {
            name: {masks: dataclasses.asdict(spread) for masks, spread in modes.items()}
            for name, modes in self.spreads.items()
        }
        return {
            "env": self.env,
            "achievement_names": list(self.achievement_names),
            "settings": self.settings,
            "conditions": spreads,
            "runs": [run.to_json() for run in self.runs],
        }

    def save(self) -> list[Path]:
        """Writes evaluation.json into the folder of each run, and of the training; what was played
        elsewhere is beside it, as evaluation-ENV.json."""
        where = self.env.replace(":", "-")
        file = f"evaluation-{where}.json" if self.elsewhere else EVALUATION_FILE
        origin = {"provenance": provenance()}
        for run in self.runs:
            alone = dataclasses.replace(self, folder=run.folder, runs=[run])
            write_json(run.folder / file, _without_nan(alone.to_json() | origin))
        if self.folder not in [run.folder for run in self.runs]:
            write_json(self.folder / file, _without_nan(self.to_json() | origin))
        folders = [run.folder for run in self.runs] + [self.folder]
        return [folder / file for folder in dict.fromkeys(folders)]


def read_evaluation(folder: Path) -> Evaluation | None:
    """What `save` wrote into a folder; None when nothing was evaluated there."""
    path = folder / EVALUATION_FILE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text())
        runs = [
            RunEvaluation(**run | {"folder": folder, "masks": _summaries(run["masks"])})
            for run in content["runs"]
        ]
        names = tuple(content["achievement_names"])
        return Evaluation(folder, content["env"], names, content["settings"], runs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MasklessError(f"{path} is damaged ({error}): evaluate the run again.") from error


def _summaries(masks: dict[str, dict[str, Any]]) -> dict[str, Summary]:
    def known(number: Any) -> Any:
        return float("nan") if number is None else number

    return {
        name: Summary(**{key: known(x) for key, x in numbers.items()})
        for name, numbers in masks.items()
    }


def evaluate(
    folder: str | Path,
    *,
    masks: Sequence[str] = MASKS,
    episodes: int = 1024,
    num_envs: int | None = None,
    greedy: bool = False,
    seed: int = 0,
    env: str | None = None,
    progress: Progress = lambda done, what: None,
) -> Evaluation:
    """Plays at least `episodes` complete episodes of every run in `folder` under each of `masks`.

    `folder` is one run's (runs/X/masked/seed-0) or a whole training's (runs/X). `num_envs`: how
    many episodes of a run are under way at a time; by default as many as in training. `greedy`:
    always the most probable action. `env`: another environment than the one trained on, with the
    same observations and actions.
    """
    for name in masks:
        if name not in MASKS:
            raise UnknownNameError("masks", name, MASKS)
    if episodes < 1 or (num_envs is not None and num_envs < 1) or not masks:
        raise MasklessError("An evaluation needs at least one episode, environment and mask mode.")
    trained = load_runs(Path(folder))
    if env is not None:
        trained = dataclasses.replace(trained, env=_fitting(trained.env, env))
    most = HOST_ENVS if _is_host(trained.env) else trained.config.ppo.num_envs
    slots = min(episodes, num_envs or most)
    per_slot = -(-episodes // slots)
    modes = _modes(trained, masks)
    played = _play_host if _is_host(trained.env) else _play
    how: dict[str, Any] = {"slots": slots, "per_slot": per_slot, "greedy": greedy, "seed": seed}
    record = played(trained, modes, progress=progress, **how)
    runs = [
        _judge(trained.env, run, masks, modes, of_run(record, number))
        for number, run in enumerate(trained.runs)
    ]
    settings = {
        "masks": list(masks),
        "episodes": slots * per_slot,
        "num_envs": slots,
        "greedy": greedy,
        "seed": seed,
    }
    env_id = env or trained.config.env
    names = tuple(trained.env.achievement_names)
    elsewhere = env_id != trained.config.env
    return Evaluation(Path(folder), env_id, names, settings, runs, elsewhere)


def _modes(trained: Trained, masks: Sequence[str]) -> list[Masks]:
    """What must be played to answer for every run: see `untrained`."""
    needed = set(masks)
    if "predicted" in masks and not all(run.has_classifier for run in trained.runs):
        needed.add("none")
    return [name for name in MASKS if name in needed]


def _fitting(trained_on: Environment, id: str) -> Environment:
    """Another environment for the same policy."""
    env = make(id)
    if _is_host(env):
        return env  # `play_host_episodes` knows what fits
    if tuple(env.action_names) != tuple(trained_on.action_names):
        raise MasklessError(f"{id} has other actions than {trained_on.id}: choose a similar one.")
    shapes = [e.observation_shapes for e in (trained_on, env)]
    described = [str(jax.tree.map(lambda x: (x.shape, x.dtype), shape)) for shape in shapes]
    if described[0] != described[1]:
        raise MasklessError(
            f"{id} has other observations than {trained_on.id}: choose a similar one."
        )
    return env


def _is_host(env: Environment) -> bool:
    """Played in Python processes, not inside JAX."""
    return env.id.startswith("gymnasium:")


def _play(trained: Trained, modes: list[Masks], **how: Any) -> EpisodeRecord:
    """The record of every run under every mode. [runs, modes, envs, episodes]"""
    sources = [play.mask_source(name, trained.env.num_actions) for name in modes]
    return play_sources(trained, sources, **how)


def _play_host(
    trained: Trained,
    modes: list[Masks],
    *,
    slots: int,
    per_slot: int,
    greedy: bool,
    seed: int,
    progress: Progress,
) -> EpisodeRecord:
    """The same where nothing can be compiled: one after the other."""
    from maskless.ppo.host_evaluate import play_host_episodes  # needs gymnasium

    env: Any = trained.env
    records: list[list[EpisodeRecord]] = []
    for number, run in enumerate(trained.runs):
        records.append([])
        for mode in modes:
            record = play_host_episodes(
                env,
                trained.net,
                run.params,
                masks=mode,
                num_envs=slots,
                episodes=per_slot,
                seed=seed + run.seed,
                threshold=run.condition.threshold,
                greedy=greedy,
            )
            records[-1].append(record)
            done = number * len(modes) + len(records[-1])
            progress(done * slots * per_slot, f"{run.name}, {mode}")
    stacked = [jax.tree.map(lambda *x: np.stack(x), *some) for some in records]
    return jax.tree.map(lambda *x: np.stack(x), *stacked)


def play_sources(
    trained: Trained,
    sources: Sequence[MaskSource],
    *,
    slots: int,
    per_slot: int,
    greedy: bool = False,
    seed: int = 0,
    progress: Progress = lambda done, what: None,
) -> EpisodeRecord:
    """The record of every run under every source of masks. [runs, sources, envs, episodes]"""
    venv, net = VectorEnv(trained.env, slots), trained.net
    params = together([run.params for run in trained.runs])
    thresholds = jnp.array([run.condition.threshold for run in trained.runs])
    # A run's key depends on its seed only: conditions and sources meet the same levels.
    keys = jnp.stack([jax.random.fold_in(jax.random.key(seed), run.seed) for run in trained.runs])
    keys = jnp.broadcast_to(keys[:, None], (len(trained.runs), len(sources)))

    def begin(key: PRNGKeyArray) -> play.Play:
        return play.begin(venv, net, key, per_slot)

    def advance(params: Any, threshold: Array, source: MaskSource, state: play.Play) -> play.Play:
        return play.advance(venv, net, params, state, source, threshold, greedy=greedy)

    over_sources = jax.vmap(advance, (None, None, 0, 0))
    go_on = jax.jit(jax.vmap(over_sources, (0, 0, None, 0)), donate_argnums=3)
    state = jax.jit(jax.vmap(jax.vmap(begin)))(keys)
    while True:
        state = go_on(params, thresholds, together(list(sources)), state)
        finished = np.asarray(state.record.finished)
        progress(int(finished.sum()), "playing")
        if finished.all():
            return jax.device_get(state.record)


def _judge(
    env: Environment,
    run: TrainedRun,
    masks: Sequence[str],
    modes: list[Masks],
    record: EpisodeRecord,
) -> RunEvaluation:
    """One run's summaries from its record. [modes, envs, episodes]"""
    played: dict[str, Summary] = {
        name: summarise(of_run(record, number), env.num_actions)
        for number, name in enumerate(modes)
    }
    found = {name: played[name] for name in masks}
    if "predicted" in masks and not run.has_classifier:
        found |= {"predicted": played["none"], UNTRAINED: played["predicted"]}
    return RunEvaluation(run.folder, run.name, run.seed, run.update, run.has_classifier, found)


def summarise(record: EpisodeRecord, num_actions: int) -> Summary:
    """The numbers of one record. [envs, episodes]"""
    returns = np.asarray(record.returns, np.float64).ravel()
    steps = float(record.lengths.sum())
    low, high = bootstrap_interval(returns)
    return Summary(
        episodes=len(returns),
        mean_return=float(returns.mean()),
        standard_error=standard_error(returns),
        low=low,
        high=high,
        length=steps / len(returns),
        achievements=float(record.achievements.mean()),
        success_rate=float(record.solved.mean()),
        invalid_share=float(record.invalid.sum() / steps),
        changed_share=float(record.changed.sum() / steps),
        mask_errors=float(record.wrong.sum() / (steps * num_actions)),
        fallback_rate=float(record.fallbacks.sum() / steps),
    )


def standard_error(values: np.ndarray) -> float:
    """Of the mean; nan for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def bootstrap_interval(values: np.ndarray, *, coverage: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap of the mean: the same values always give the same interval."""
    random = np.random.default_rng(0)
    means = [random.choice(values, len(values)).mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)


def _spread(means: list[float]) -> Spread:
    deviation = float(np.std(means, ddof=1)) if len(means) > 1 else float("nan")
    return Spread(len(means), float(np.mean(means)), deviation, min(means), max(means))


def _without_nan(content: Any) -> Any:
    """JSON has no nan: it becomes null."""
    if isinstance(content, dict):
        return {name: _without_nan(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and content != content else content
