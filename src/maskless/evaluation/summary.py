"""What a trained policy is worth under oracle, predicted and no masks, and by its clone.

    evaluation = maskless.evaluate("runs/X", episodes=10_240)
    evaluation.runs[0].masks["predicted"].mean_return
    evaluation.save()                                    # evaluation.json in every run's folder

All runs and all modes play at once, in one compiled program. The modes of a run share their keys:
the same levels and the same dice. `untrained` is the mode of a validity head that was never
trained: a run without a classifier has no predicted masks, so that its `predicted` is `none`.
Under `predicted` masks and by the `clone`, what has just failed is not repeated
(`maskless.failures`); `predicted-forgetful` and `clone-forgetful` are the controls without that.

A run is played as it was trained: its newest checkpoint, and the threshold of its condition. A
policy artifact ("runs/X/masked-kl/seed-0/policy") is played as it is deployed: `predicted` masks
are made with its calibrated thresholds and its overrides.
"""

import dataclasses
import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from maskless import statistics
from maskless.envs import Environment
from maskless.errors import MasklessError, UnknownNameError, require
from maskless.evaluation.episodes import MASKS, EpisodeRecord, Masks, mask_source
from maskless.evaluation.player import (
    WITHOUT_ORACLE,
    Report,
    check_oracle,
    default_envs,
    no_report,
    play_runs,
    refusing,
)
from maskless.evaluation.runs import EvaluatedRun, Runs, load_runs
from maskless.files import (
    MissingError,
    Number,
    Size,
    UnreadableError,
    check_type,
    printable,
    read_json,
    slug,
    write_json,
)
from maskless.provenance import provenance
from maskless.training.program import of_run

EVALUATION_FILE = "evaluation.json"
UNTRAINED = "untrained"
_MOST_ROWS = 4000
"""Of a table: each run under each kind of masks. Printing so many takes seconds."""
ENVS = 64
"""Episodes of an artifact that are under way at a time, unless its run says otherwise."""


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
    stuck_share: float = math.nan
    """Share of steps that repeated an action which had just failed: after which, in the same
    episode, the observation was still the same. nan: not measured (an evaluation from before)."""
    worst: float = math.nan
    """The lowest return of an episode. nan: not kept (an evaluation from before)."""


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
    clone: bool = False
    """Whether it has a head that acts without masks."""

    @property
    def recovered(self) -> dict[str, float]:
        """For every kind of masks, the share of what the oracle's masks are worth; empty where
        they are worth nothing, or were not compared with `none`."""
        returns = {name: summary.mean_return for name, summary in self.masks.items()}
        oracle, floor = returns.get("oracle"), returns.get("none")
        if oracle is None or floor is None:
            return {}
        shares = {name: recovered(found, oracle, floor) for name, found in returns.items()}
        return {name: share for name, share in shares.items() if share is not None}

    def to_json(self) -> dict[str, Any]:
        content = dataclasses.asdict(self) | {"recovered": self.recovered}
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

    def __str__(self) -> str:
        """The main numbers of every run; `maskless eval` prints all of them."""
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join((printable(self.env), *lines))

    def _repr_html_(self) -> str:
        """The same, in a notebook."""
        rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self._rows())
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><caption>{html.escape(printable(self.env))}</caption>{table}</table>"

    def _rows(self) -> list[tuple[str, ...]]:
        header = ("condition", "seed", "masks", "return", "worst", "invalid %", "stuck %")
        rows: list[tuple[str, ...]] = [header]
        for run in self.runs:
            for masks, found in run.masks.items():
                numbers = (found.worst, 100 * found.invalid_share, 100 * found.stuck_share)
                known = ("–" if math.isnan(x) else f"{x:.2f}" for x in numbers)
                returned = f"{found.mean_return:.2f} ± {found.standard_error:.2f}"
                names = map(printable, (run.condition, str(run.seed), masks))
                rows.append((*names, returned, *known))
        return rows

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
        elsewhere is beside it, as evaluation-ENV.json, and greedy play as
        evaluation-greedy.json."""
        if self.folder is None:
            raise MasklessError("These runs are in memory only: save the training first.")
        parts = [slug(self.env)] if self.elsewhere else []
        parts += ["greedy"] if self.settings["greedy"] else []
        base = Path(EVALUATION_FILE)
        file = "-".join([base.stem, *parts]) + base.suffix
        origin = {"provenance": provenance()}
        by_folder = {
            run.folder: dataclasses.replace(self, folder=run.folder, runs=[run])
            for run in self.runs
            if run.folder is not None
        }
        by_folder.setdefault(self.folder, self)
        for folder, evaluation in by_folder.items():
            write_json(folder / file, evaluation.to_json() | origin)
        return [folder / file for folder in by_folder]


def read_evaluation(folder: Path) -> Evaluation | None:
    """What `save` wrote into a folder; None when nothing was evaluated there."""
    path = folder / EVALUATION_FILE
    try:
        saved = read_json(path, _Saved)
        check_type(saved["settings"], _Settings)
        runs = [_run_evaluation(folder, run) for run in saved["runs"]]
        require(bool(runs), "it has no runs")
        rows = sum(len(run.masks) for run in runs)
        require(rows <= _MOST_ROWS, f"it has {rows:,} rows, and a table at most {_MOST_ROWS:,}")
    except MissingError:
        return None
    except MasklessError as error:
        reason = error.reason if isinstance(error, UnreadableError) else str(error).rstrip(".")
        raise MasklessError(f"{path} is damaged ({reason}): evaluate the run again.") from error
    names = tuple(saved["achievement_names"])
    return Evaluation(folder, saved["env"], names, saved["settings"], runs)


class _Saved(TypedDict):
    """What evaluation.json holds."""

    env: str
    achievement_names: list[str]
    settings: dict[str, Any]
    runs: list[dict[str, Any]]


class _Settings(TypedDict):
    """Of the settings, what a report shows."""

    episodes: Size
    greedy: bool


def _run_evaluation(folder: Path, run: dict[str, Any]) -> RunEvaluation:
    """One of the runs in evaluation.json, where null stands for what is not known."""
    check_type(run.get("masks"), dict[str, dict[str, Number | None]])
    known = {
        mode: {name: math.nan if x is None else x for name, x in numbers.items()}
        for mode, numbers in run["masks"].items()
    }
    rest = {name: value for name, value in run.items() if name != "recovered"}
    return check_type(rest | {"folder": folder, "masks": known}, RunEvaluation)


def evaluate(
    folder: str | Path,
    *,
    env: Any = None,
    net: Any = None,
    encoder: Any = None,
    trust: bool = False,
    **how: Any,
) -> Evaluation:
    """Plays complete episodes of every run in `folder` under each kind of mask.

        maskless.evaluate("runs/X", episodes=10_240).save()

    `folder` is one run's (runs/X/masked/seed-0), a whole training's (runs/X), or an artifact's
    (runs/X/masked/seed-0/policy). `env`: another environment than the one trained on, with the
    same observations and actions; it, `net` and `encoder` must be given where training was given
    objects. `trust`: an environment that the folder names is imported, if need be (docs/trust.md).
    `how`: what `evaluate_runs` takes.
    """
    return evaluate_runs(load_runs(Path(folder), env, net, encoder, trust=trust), **how)


def evaluate_runs(
    runs: Runs,
    *,
    masks: Sequence[str] | None = None,
    episodes: int = 1024,
    num_envs: int | None = None,
    greedy: bool = False,
    seed: int = 0,
    max_steps: int | None = None,
    on_invalid: str | None = None,
    report: Report = no_report,
) -> Evaluation:
    """Plays at least `episodes` complete episodes of every run under each of `masks`.

    `masks`: of `evaluation.episodes.MASKS`; None: `default_masks`. `num_envs`: how many episodes of
    a run are under way at a time; by default as many as in training. `greedy`: always the most
    probable action. `max_steps`: of each environment; what is still being played then is counted
    as it stands. `on_invalid`: for Gymnasium environments that raise at invalid actions, what these
    bring instead ("noop", "end", "penalty=-0.1"). `report`: is told how many are done.
    """
    runs = dataclasses.replace(runs, env=refusing(runs.env, on_invalid))
    masks = default_masks(runs) if masks is None else masks
    for name in masks:
        if name not in MASKS:
            raise UnknownNameError("masks", name, MASKS)
    if episodes < 1 or (num_envs is not None and num_envs < 1) or not masks:
        raise MasklessError("An evaluation needs at least one episode, environment and mask mode.")
    played = masks_to_play(runs, masks)
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
        max_steps=max_steps,
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
    optional = {"max_steps": max_steps, "on_invalid": on_invalid}
    settings |= {name: value for name, value in optional.items() if value is not None}
    elsewhere = runs.env.id != runs.home
    env = runs.env.id if elsewhere or runs.config is None else runs.config.env
    names = tuple(runs.env.achievement_names)
    return Evaluation(runs.folder, env, names, settings, evaluations, elsewhere)


def default_masks(runs: Runs) -> list[Masks]:
    """All kinds of masks that these runs can act under, with the controls without a memory."""
    predicts = any(run.has_classifier for run in runs.runs)
    cloned = any(run.has_clone for run in runs.runs)
    asked: dict[Masks, bool] = {
        "oracle": runs.env.has_masks,
        "predicted": True,
        "predicted-forgetful": predicts,
        "clone": cloned,
        "clone-forgetful": cloned,
        "none": True,
    }
    return [name for name, chosen in asked.items() if chosen]


def masks_to_play(runs: Runs, masks: Sequence[str]) -> list[Masks]:
    """Which kinds of masks answer for every run: see `untrained`."""
    needed = set(masks)
    if needed & _PREDICTED and not all(run.has_classifier for run in runs.runs):
        needed.add("none")
    if needed & _CLONED and not any(run.has_clone for run in runs.runs):
        raise MasklessError(
            "None of these runs has a clone, which acts without masks: train one (masked-clone, or"
            " `maskless finish`), or leave it out of the masks."
        )
    return [name for name in MASKS if name in needed]


_PREDICTED = {"predicted", "predicted-forgetful"}
_CLONED = {"clone", "clone-forgetful"}


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
    chosen: dict[str, Summary] = {name: summaries[name] for name in MASKS if name in masks}
    if not run.has_clone:
        chosen = {name: x for name, x in chosen.items() if name not in _CLONED}
    if not run.has_classifier and (asked := [x for x in chosen if x in _PREDICTED]):
        # Both are none, and the head that nothing has trained is beside them.
        untrained = chosen[asked[-1]]
        chosen.pop("predicted-forgetful", None)
        chosen |= {"predicted": summaries["none"], UNTRAINED: untrained}
    return RunEvaluation(
        folder=run.folder,
        condition=run.name,
        seed=run.seed,
        update=run.update,
        classifier=run.has_classifier,
        masks=chosen,
        thresholds=run.thresholds_by_name(env.action_names),
        overrides=tuple(map(str, run.overrides)),
        clone=run.has_clone,
    )


def summarise(record: EpisodeRecord, num_actions: int) -> Summary:
    """The numbers of one record. [envs, episodes]"""
    returns = np.asarray(record.returns, np.float64).ravel()
    steps = float(record.lengths.sum())
    low, high = statistics.bootstrap_interval(returns)
    return Summary(
        episodes=len(returns),
        mean_return=float(returns.mean()),
        standard_error=statistics.standard_error(returns),
        low=low,
        high=high,
        length=steps / len(returns),
        achievements=float(record.achievements.mean()),
        success_rate=float(record.solved.mean()),
        invalid_share=float(record.invalid.sum() / steps),
        changed_share=float(record.changed.sum() / steps),
        mask_errors=float(record.wrong.sum() / (steps * num_actions)),
        fallback_rate=float(record.fallbacks.sum() / steps),
        stuck_share=float(record.stuck.sum() / steps),
        worst=float(returns.min()),
    )


def recovered(mean_return: float, oracle: float, floor: float) -> float | None:
    """The share of what the oracle's masks are worth: 0 for the floor (the return without masks,
    say), 1 for the oracle's return, whatever the sign of returns. None: they are worth nothing."""
    worth = oracle - floor
    return (mean_return - floor) / worth if worth > 0 else None


def _spread(means: list[float]) -> Spread:
    deviation = float(np.std(means, ddof=1)) if len(means) > 1 else float("nan")
    return Spread(len(means), float(np.mean(means)), deviation, min(means), max(means))
