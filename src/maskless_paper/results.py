"""Reading studies: cells of tables, with all seeds and an honest range."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from maskless_paper.run import Result


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number of one condition: every seed's value, and how sure it is."""

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

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "seeds": list(self.values)}


def cell(values: Iterable[float]) -> Cell:
    """Of numbers without intervals of their own: the range of the seeds."""
    seeds = tuple(values)
    return Cell(seeds, min(seeds), max(seeds))


def budgets(result: Result) -> list[int]:
    """The frames at which the study was evaluated."""
    return sorted({entry["frames"] for entry in result["evaluations"]})


def budget(result: Result, near: int | None = None) -> int:
    """The last of them, or that nearest to `near` frames."""
    known = budgets(result)
    return known[-1] if near is None else min(known, key=lambda frames: abs(frames - near))


def entries(
    result: Result, condition: str, masks: str, frames: int | None = None
) -> list[dict[str, Any]]:
    """The evaluations of a condition's seeds; at the last budget, unless `frames` says which.

    `predicted` of a condition without a classifier is sampling without masks; what its untrained
    head would do is `untrained`.
    """
    frames = budget(result) if frames is None else frames
    found = [
        entry
        for entry in result["evaluations"]
        if entry["frames"] == frames and entry["condition"] == condition
    ]
    classifier = any(entry["classifier"] for entry in found)
    if masks == "untrained":
        played = None if classifier else "predicted"
    else:
        played = "none" if masks == "predicted" and not classifier else masks
    return [entry for entry in found if entry["masks"] == played]


def returns(result: Result, condition: str, masks: str, frames: int | None = None) -> Cell | None:
    """The mean return; None where the study does not have it."""
    found = entries(result, condition, masks, frames)
    if not found:
        return None
    return Cell(
        tuple(entry["mean_return"] for entry in found),
        min(entry["low"] for entry in found),
        max(entry["high"] for entry in found),
    )


def number(
    result: Result, condition: str, masks: str, name: str, frames: int | None = None
) -> Cell | None:
    """Any other number of an evaluation."""
    found = [entry[name] for entry in entries(result, condition, masks, frames)]
    known = [value for value in found if value is not None]
    return cell(known) if known else None


def kept(
    result: Result, condition: str, masks: str = "predicted", frames: int | None = None
) -> Cell | None:
    """The return as a share of the same seed's under the oracle's masks."""
    some = entries(result, condition, masks, frames)
    oracle = {e["seed"]: e for e in entries(result, condition, "oracle", frames)}
    shares = [
        (e["mean_return"], e["low"], e["high"], oracle[e["seed"]]["mean_return"])
        for e in some
        if e["seed"] in oracle and oracle[e["seed"]]["mean_return"] > 0
    ]
    if not shares:
        return None
    return Cell(
        tuple(mean / whole for mean, _, _, whole in shares),
        min(low / whole for _, low, _, whole in shares),
        max(high / whole for _, _, high, whole in shares),
    )


LEARNED = 0.5
"""A policy with a lower return has nothing yet that it could lose."""


def learned(result: Result, condition: str, frames: int | None = None) -> bool:
    """Whether there is something to lose: all seeds do something with their own kind of mask."""
    masks = "none" if condition.startswith("unmasked") else "oracle"
    cell = returns(result, condition, masks, frames)
    return cell is not None and min(cell.values) >= LEARNED


def logs(result: Result, condition: str) -> list[dict[str, Any]]:
    """The thinned logs of a condition's seeds."""
    return [log for log in result["logs"] if log["condition"] == condition]


def conditions(result: Result) -> list[str]:
    return list(result["config"]["conditions"])


def late(
    log: dict[str, Any],
    name: str,
    action: str | None = None,
    share: float = 0.1,
    until: int | None = None,
) -> float:
    """A curve's mean over the last `share` of the frames (of those until `until`); NaN where
    nothing is known."""
    curve = log["actions"][action][name] if action else log[name]
    last = log["frames"][-1] if until is None else until
    values = [
        value
        for value, frames in zip(curve, log["frames"], strict=True)
        if value is not None and (1 - share) * last <= frames <= last
    ]
    return float(np.mean(values)) if values else float("nan")


def late_cell(
    result: Result,
    condition: str,
    name: str,
    action: str | None = None,
    until: int | None = None,
) -> Cell | None:
    """`late` over the seeds of a condition that know it."""
    found = [late(log, name, action, until=until) for log in logs(result, condition)]
    known = [value for value in found if value == value]
    return cell(known) if known else None


STATES = 10
"""A probability where an action is valid is a mean over at least so many states: a ladder may be
met once in a million frames, and what a policy did there once says little."""


def where_valid(
    log: dict[str, Any], action: str, metric: str = "probability_valid"
) -> list[tuple[float, int]]:
    """A metric at states where the action is valid, and at which frames. Points of the log with
    too few states are joined with the next ones; all are one where there are too few in all."""
    curves = log["actions"][action]
    points, states, total, before = [], 0.0, 0.0, 0
    for value, share, frames in zip(
        curves[metric], curves["valid_share"], log["frames"], strict=True
    ):
        met = (share or 0.0) * (frames - before)
        before = frames
        if value is None or met == 0:
            continue
        states, total = states + met, total + met * value
        if round(states) >= STATES:
            points.append((total / states, frames))
            states = total = 0.0
    return points if points or not states else [(total / states, before)]


def lowest(
    log: dict[str, Any], action: str, until: float = float("inf")
) -> tuple[float, int] | None:
    """Where an action's probability at valid states was lowest, and at which frames."""
    known = [(p, frames) for p, frames in where_valid(log, action) if frames <= until]
    return min(known, default=None)


def environment(result: Result) -> str:
    """For people: the game and the network."""
    config = result["config"]
    options = {k: v for k, v in config["env_options"].items() if (k, v) != ("rules", "paper")}
    extra = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{config['env']}{f' ({extra})' if extra else ''}, {config['net']}"


def millions(frames: float) -> str:
    """26 M, 2.5 M, 500 k, 1,024."""
    if frames >= 1e6:
        return f"{frames / 1e6:.0f} M" if frames >= 1e7 else f"{frames / 1e6:.1f} M"
    return f"{frames / 1e3:.0f} k" if frames >= 1e4 else f"{frames:,.0f}"


def spread(values: Sequence[float]) -> float:
    """Standard deviation over seeds, as the paper reports it; NaN for one seed."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def has_classifier(result: Result, name: str) -> bool:
    return any(e["classifier"] for e in result["evaluations"] if e["condition"] == name)


def achievement(
    result: Result, condition: str, masks: str, name: str, frames: int | None = None
) -> Cell | None:
    """The share of episodes in which it was unlocked."""
    found = entries(result, condition, masks, frames)
    return cell(entry["achievement_rates"].get(name, 0.0) for entry in found) if found else None


def early(log: dict[str, Any], name: str, share: float = 0.1) -> float:
    """A curve's mean over the first `share` of the frames, at least its first point."""
    last = log["frames"][-1]
    known = [
        (value, frames)
        for value, frames in zip(log[name], log["frames"], strict=True)
        if value is not None
    ]
    first = [value for value, frames in known if frames <= share * last] or [known[0][0]]
    return float(np.mean(first))
