"""What a trained policy is worth under oracle, predicted and no masks.

    evaluation = maskless.evaluate("runs/X", episodes=10_240)
    evaluation.runs[0].masks["predicted"].mean_return
    evaluation.save()                                    # evaluation.json in every run's folder

All runs and all modes play at once, in one compiled program. The modes of a run share their keys:
the same levels and the same dice. `untrained` is the mode of a validity head that was never
trained: a run without a classifier has no predicted masks, so that its `predicted` is `none`.

A run is played as it was trained: its newest checkpoint, and the threshold of its condition. A
policy artifact ("runs/X/masked-kl/seed-0/policy") is played as it is deployed: `predicted` masks
are made with its calibrated thresholds and its overrides.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maskless.envs import Environment
from maskless.errors import MasklessError, UnknownNameError
from maskless.evaluation.episodes import MASKS, EpisodeRecord, Masks, mask_source
from maskless.evaluation.player import (
    WITHOUT_ORACLE,
    Report,
    check_oracle,
    default_envs,
    no_report,
    play_runs,
)
from maskless.evaluation.runs import EvaluatedRun, Runs, load_runs
from maskless.files import write_json
from maskless.provenance import provenance
from maskless.training.program import of_run

EVALUATION_FILE = "evaluation.json"
UNTRAINED = "untrained"
ENVS = 64
"""Episodes of an artifact that are under way at a time, unless its run says otherwise."""
RESAMPLES = 1000
"""Of the bootstrap interval."""


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

    folder: Path | None
    condition: str
    seed: int
    update: int | None
    """Updates that it has learned from; an artifact does not say."""
    classifier: bool
    masks: dict[str, Summary]
    thresholds: float | dict[str, float | None] | None = None
    """How masks were predicted: valid is what has a probability above this, or above its action's
    (None: always)."""
    overrides: tuple[str, ...] = ()
    """Rules that were applied after that."""

    def to_json(self) -> dict[str, Any]:
        content = dataclasses.asdict(self)
        del content["folder"]
        return content


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """All runs of a training, or one of them."""

    folder: Path | None
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
        if self.folder is None:
            raise MasklessError("These runs are in memory only: save the training first.")
        where = self.env.replace(":", "-")
        file = f"evaluation-{where}.json" if self.elsewhere else EVALUATION_FILE
        origin = {"provenance": provenance()}
        by_folder = {
            run.folder: dataclasses.replace(self, folder=run.folder, runs=[run])
            for run in self.runs
            if run.folder is not None
        }
        by_folder.setdefault(self.folder, self)
        for folder, evaluation in by_folder.items():
            write_json(folder / file, _without_nan(evaluation.to_json() | origin))
        return [folder / file for folder in by_folder]


def read_evaluation(folder: Path) -> Evaluation | None:
    """What `save` wrote into a folder; None when nothing was evaluated there."""
    path = folder / EVALUATION_FILE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text())
        runs = [
            RunEvaluation(
                **run
                | {
                    "folder": folder,
                    "masks": _summaries(run["masks"]),
                    "overrides": tuple(run.get("overrides", ())),
                }
            )
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
    folder: str | Path, *, env: Any = None, net: Any = None, encoder: Any = None, **how: Any
) -> Evaluation:
    """Plays complete episodes of every run in `folder` under each kind of mask.

        maskless.evaluate("runs/X", episodes=10_240).save()

    `folder` is one run's (runs/X/masked/seed-0), a whole training's (runs/X), or an artifact's
    (runs/X/masked/seed-0/policy). `env`: another environment than the one trained on, with the
    same observations and actions; it, `net` and `encoder` must be given where training was given
    objects.
    `how`: what `evaluate_runs` takes.
    """
    return evaluate_runs(load_runs(Path(folder), env, net, encoder), **how)


def evaluate_runs(
    runs: Runs,
    *,
    masks: Sequence[str] = MASKS,
    episodes: int = 1024,
    num_envs: int | None = None,
    greedy: bool = False,
    seed: int = 0,
    report: Report = no_report,
) -> Evaluation:
    """Plays at least `episodes` complete episodes of every run under each of `masks`.

    `num_envs`: how many episodes of a run are under way at a time; by default as many as in
    training. `greedy`: always the most probable action. `report`: is told how many are done.
    """
    for name in masks:
        if name not in MASKS:
            raise UnknownNameError("masks", name, MASKS)
    if episodes < 1 or (num_envs is not None and num_envs < 1) or not masks:
        raise MasklessError("An evaluation needs at least one episode, environment and mask mode.")
    played = _masks_to_play(runs, masks)
    if "oracle" in played:
        check_oracle(runs.env, WITHOUT_ORACLE)
    as_trained = ENVS if runs.config is None else runs.config.ppo.num_envs
    envs = min(episodes, num_envs or default_envs(runs.env, as_trained))
    per_env = -(-episodes // envs)
    record = play_runs(
        runs,
        [mask_source(name, runs.env.num_actions) for name in played],
        envs=envs,
        per_env=per_env,
        greedy=greedy,
        seed=seed,
        report=report,
    )
    evaluations = [
        _evaluation_of(runs.env, run, masks, played, of_run(record, number))
        for number, run in enumerate(runs.runs)
    ]
    settings = {
        "masks": list(masks),
        "episodes": envs * per_env,
        "num_envs": envs,
        "greedy": greedy,
        "seed": seed,
    }
    elsewhere = runs.env.id != runs.home
    env = runs.env.id if elsewhere or runs.config is None else runs.config.env
    names = tuple(runs.env.achievement_names)
    return Evaluation(runs.folder, env, names, settings, evaluations, elsewhere)


def _masks_to_play(runs: Runs, masks: Sequence[str]) -> list[Masks]:
    """Which kinds of masks answer for every run: see `untrained`."""
    needed = set(masks)
    if "predicted" in masks and not all(run.has_classifier for run in runs.runs):
        needed.add("none")
    return [name for name in MASKS if name in needed]


def _evaluation_of(
    env: Environment,
    run: EvaluatedRun,
    masks: Sequence[str],
    played: list[Masks],
    record: EpisodeRecord,
) -> RunEvaluation:
    """One run's summaries from its record. [masks, envs, episodes]"""
    summaries: dict[str, Summary] = {
        name: summarise(of_run(record, number), env.num_actions)
        for number, name in enumerate(played)
    }
    chosen = {name: summaries[name] for name in masks}
    if "predicted" in masks and not run.has_classifier:
        chosen |= {"predicted": summaries["none"], UNTRAINED: summaries["predicted"]}
    return RunEvaluation(
        folder=run.folder,
        condition=run.name,
        seed=run.seed,
        update=run.update,
        classifier=run.has_classifier,
        masks=chosen,
        thresholds=run.thresholds_by_name(env.action_names),
        overrides=tuple(map(str, run.overrides)),
    )


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
