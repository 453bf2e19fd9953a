"""Reading studies: numbers of a condition with all seeds and their range.

result = read_result(Path("results/studies/classic-mlp.json"))
returns(result, "masked-kl", "predicted").mean
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from maskless.conditions import condition
from maskless_paper.plans import study_at
from maskless_paper.studies import WORLDS, WorldName
from maskless_paper.study_files import Result

Entry = dict[str, Any]
"""One of `result["evaluations"]`, or one of `result["logs"]`."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number of one condition: the value of every seed, and a range."""

    values: tuple[float, ...]
    """Of the seeds."""
    low: float
    """The lowest of the seeds, its own 95 % interval over episodes included."""
    high: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    def above(self, other: "Cell") -> bool:
        """Surely higher: no seed of one, with its interval, reaches any of the other."""
        return self.low > other.high


def cell(values: Iterable[float | None]) -> Cell | None:
    """Of numbers without intervals of their own: the range of the seeds. None and NaN are left
    out; None where no seed is left."""
    seeds = tuple(value for value in values if value is not None and value == value)
    return Cell(seeds, min(seeds), max(seeds)) if seeds else None


# What was trained.


def conditions(result: Result) -> list[str]:
    return list(result["config"]["conditions"])


def has_classifier(name: str) -> bool:
    """Whether this condition trains a classifier."""
    return condition(name).strength > 0


def training_masks(name: str) -> str:
    """The masks under which this condition trains."""
    return "oracle" if condition(name).masked else "none"


def world(result: Result) -> WorldName:
    return study_at(result["study"], result["scale"]).world


def has_full_budget(result: Result) -> bool:
    """Whether it was trained for as long as in the paper."""
    return result["frames"] >= 0.99 * WORLDS[world(result)].frames["paper"]


# What was evaluated.


def budgets(result: Result) -> list[int]:
    """The frames at which the study was evaluated."""
    return sorted({entry["frames"] for entry in result["evaluations"]})


def budget(result: Result, near: int | None = None) -> int:
    """The last of them, or that nearest to `near` frames."""
    all_budgets = budgets(result)
    if near is None:
        return all_budgets[-1]
    return min(all_budgets, key=lambda frames: abs(frames - near))


def evaluations(
    result: Result, condition: str, masks: str, frames: int | None = None
) -> list[Entry]:
    """The evaluations of a condition's seeds; at the last budget, unless `frames` says which.

    `predicted` of a condition without a classifier is sampling without masks; what its untrained
    head would do is `untrained`.
    """
    frames = budget(result) if frames is None else frames
    entries = [
        entry
        for entry in result["evaluations"]
        if entry["frames"] == frames and entry["condition"] == condition
    ]
    classifier = any(entry["classifier"] for entry in entries)
    if masks == "untrained":
        played = None if classifier else "predicted"
    else:
        played = "none" if masks == "predicted" and not classifier else masks
    return [entry for entry in entries if entry["masks"] == played]


def returns(result: Result, condition: str, masks: str, frames: int | None = None) -> Cell | None:
    """The mean return; None where the study does not have it."""
    entries = evaluations(result, condition, masks, frames)
    if not entries:
        return None
    return Cell(
        tuple(entry["mean_return"] for entry in entries),
        min(entry["low"] for entry in entries),
        max(entry["high"] for entry in entries),
    )


def metric(
    result: Result, condition: str, masks: str, name: str, frames: int | None = None
) -> Cell | None:
    """Any other number of an evaluation."""
    return cell(entry[name] for entry in evaluations(result, condition, masks, frames))


def achievement(
    result: Result, condition: str, masks: str, name: str, frames: int | None = None
) -> Cell | None:
    """The share of episodes in which it was unlocked."""
    entries = evaluations(result, condition, masks, frames)
    return cell(entry["achievement_rates"].get(name, 0.0) for entry in entries)


def retained(
    result: Result, condition: str, masks: str = "predicted", frames: int | None = None
) -> Cell | None:
    """The return as a share of the same seed's under the oracle's masks."""
    oracle = {e["seed"]: e["mean_return"] for e in evaluations(result, condition, "oracle", frames)}
    pairs = [
        (entry, oracle[entry["seed"]])
        for entry in evaluations(result, condition, masks, frames)
        if oracle.get(entry["seed"], 0.0) > 0
    ]
    if not pairs:
        return None
    return Cell(
        tuple(entry["mean_return"] / whole for entry, whole in pairs),
        min(entry["low"] / whole for entry, whole in pairs),
        max(entry["high"] / whole for entry, whole in pairs),
    )


LEARNED = 0.5
"""A policy with a lower return has nothing yet that it could lose."""


def has_learned(result: Result, condition: str, frames: int | None = None) -> bool:
    """Whether the return of every seed, under the masks of its training, is worth losing."""
    trained = returns(result, condition, training_masks(condition), frames)
    return trained is not None and min(trained.values) >= LEARNED


# What was logged.


def logs(result: Result, condition: str) -> list[Entry]:
    """The downsampled logs of a condition's seeds."""
    return [log for log in result["logs"] if log["condition"] == condition]


def final_mean(
    log: Entry, name: str, action: str | None = None, until: int | None = None
) -> float | None:
    """A curve's mean over the last tenth of the frames (of those until `until`)."""
    curve = log["actions"][action][name] if action else log[name]
    last = log["frames"][-1] if until is None else until
    values = [
        value
        for value, frames in zip(curve, log["frames"], strict=True)
        if value is not None and 0.9 * last <= frames <= last
    ]
    return float(np.mean(values)) if values else None


def final(
    result: Result, condition: str, name: str, action: str | None = None, until: int | None = None
) -> Cell | None:
    """`final_mean` of the seeds of a condition."""
    return cell(final_mean(log, name, action, until) for log in logs(result, condition))


def initial(result: Result, condition: str, name: str) -> Cell | None:
    """A curve's mean over the first tenth of the frames, at least its first point, of the seeds."""
    return cell(_initial_mean(log, name) for log in logs(result, condition))


def _initial_mean(log: Entry, name: str) -> float:
    points = [
        (value, frames)
        for value, frames in zip(log[name], log["frames"], strict=True)
        if value is not None
    ]
    first = [value for value, frames in points if frames <= 0.1 * log["frames"][-1]]
    return float(np.mean(first or [points[0][0]]))


STATES = 10
"""A probability where an action is valid is a mean over at least so many states: a ladder may be
met once in a million frames, and what a policy did there once says little."""


def where_valid(
    log: Entry, action: str, metric: str = "probability_valid"
) -> list[tuple[float, int]]:
    """A metric at states where the action is valid, and at which frames. Points of the log with
    too few states are joined with the next ones; all are one where there are too few in all."""
    curves = log["actions"][action]
    points, states, total, before = [], 0.0, 0.0, 0
    for value, share, frames in zip(
        curves[metric], curves["valid_share"], log["frames"], strict=True
    ):
        count = (share or 0.0) * (frames - before)
        before = frames
        if value is None or count == 0:
            continue
        states, total = states + count, total + count * value
        if round(states) >= STATES:
            points.append((total / states, frames))
            states = total = 0.0
    return points if points or not states else [(total / states, before)]


def lowest_point(log: Entry, action: str, until: float = float("inf")) -> tuple[float, int] | None:
    """An action's lowest probability at valid states, and at which frames."""
    points = [(p, frames) for p, frames in where_valid(log, action) if frames <= until]
    return min(points, default=None)


def lowest(result: Result, condition: str, action: str, until: float = float("inf")) -> Cell | None:
    """The lowest probability at valid states of each seed."""
    points = [lowest_point(log, action, until) for log in logs(result, condition)]
    return cell(point[0] for point in points if point is not None)


# In words.


def setting(result: Result) -> str:
    """The game and the network."""
    config = result["config"]
    options = {k: v for k, v in config["env_options"].items() if (k, v) != ("rules", "paper")}
    extra = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{config['env']}{f' ({extra})' if extra else ''}, {config['net']}"


def setting_and_frames(result: Result, frames: int | None = None) -> str:
    """The game, the network, and the frames of each run (all, unless `frames` says how many)."""
    return f"{setting(result)}, {format_frames(frames or result['frames'])} frames"


def format_frames(frames: float) -> str:
    """26 M, 2.5 M, 500 k, 1,024."""
    if frames >= 1e6:
        return f"{frames / 1e6:.0f} M" if frames >= 1e7 else f"{frames / 1e6:.1f} M"
    return f"{frames / 1e3:.0f} k" if frames >= 1e4 else f"{frames:,.0f}"
