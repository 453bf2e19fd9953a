"""Reading the downsampled logs of a study: ends of curves, and probabilities where an action is
valid."""

from typing import Any, NamedTuple

import numpy as np

from maskless_paper.cells import Cell, cell
from maskless_paper.study_files import Result

Entry = dict[str, Any]
"""One of `result["evaluations"]`, or one of `result["logs"]`."""


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
"""A probability where an action is valid is a mean over at least so many states, in curves and in
the ledger: a ladder may be met once in a million frames, and what a policy did there once says
little."""
HEADLINE_STATES = 100
"""The same for a lowest probability that is told as a result: the least of many noisy points is
too low, and ten states may be one agent standing on one ladder."""


class Point(NamedTuple):
    """A probability where an action is valid: at which frames, and over how many states."""

    probability: float
    frames: int
    states: int


def where_valid(
    log: Entry, action: str, metric: str = "probability_valid", states: int = STATES
) -> list[Point]:
    """A metric at states where the action is valid, and at which frames. Points of the log with
    too few states are joined with the next ones; all are one where there are too few in all."""
    curves = log["actions"][action]
    points, seen, total, before = [], 0.0, 0.0, 0
    for value, share, frames in zip(
        curves[metric], curves["valid_share"], log["frames"], strict=True
    ):
        count = (share or 0.0) * (frames - before)
        before = frames
        if value is None or count == 0:
            continue
        seen, total = seen + count, total + count * value
        if round(seen) >= states:
            points.append(Point(total / seen, frames, round(seen)))
            seen = total = 0.0
    return points if points or not seen else [Point(total / seen, before, round(seen))]


def lowest_point(
    log: Entry, action: str, until: float = float("inf"), states: int = STATES
) -> Point | None:
    """Where an action's probability at valid states is lowest."""
    points = [p for p in where_valid(log, action, states=states) if p.frames <= until]
    return min(points, default=None)


def lowest_points(
    result: Result,
    condition: str,
    action: str,
    until: float = float("inf"),
    states: int = STATES,
) -> list[Point]:
    """That of each seed in which the action was ever valid."""
    points = [lowest_point(log, action, until, states) for log in logs(result, condition)]
    return [point for point in points if point is not None]


def lowest(
    result: Result,
    condition: str,
    action: str,
    until: float = float("inf"),
    states: int = STATES,
) -> Cell | None:
    """The lowest probability at valid states of each seed."""
    points = lowest_points(result, condition, action, until, states)
    return cell(point.probability for point in points)


class FirstOccurrence(NamedTuple):
    """What a policy gave an action when it was valid for the first time in training."""

    ratio: float
    """To uniform: the paper's suppression ratio."""
    frames: int
    """Trained by then."""
    states: int
    """The ratio is a mean over at most so many: those of the log's line in which they are. (Older
    studies kept every action's shares in longer stretches only.)"""


def first_occurrence(log: Entry, action: str) -> FirstOccurrence | None:
    """None: it was never valid."""
    history = log["history"][action]
    first, ratio = history["first_valid_frames"], history["suppression_ratio"]
    if first is None or ratio is None:
        return None
    if history.get("first_valid_states") is not None:
        return FirstOccurrence(ratio, round(first), history["first_valid_states"])
    before = 0
    for share, frames in zip(log["actions"][action]["valid_share"], log["frames"], strict=True):
        if 0.9999 * first <= frames:  # it is rounded to five digits
            states = max(1, round((share or 0.0) * (frames - before)))
            return FirstOccurrence(ratio, round(first), states)
        before = frames
    return None
