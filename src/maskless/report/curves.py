"""Curves from the rows of `metrics.jsonl`: seeds of one condition on common frames."""

import dataclasses
import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LOWEST = 1e-8
"""Probabilities below are drawn here."""
POINTS = 200
"""Of a curve; the rows between two points are averaged."""
LONGEST_BRIDGE = POINTS // 10
"""Where more is unknown than between so many points, a curve has a gap."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: its label in figures, and what it logged."""

    label: str
    rows: Sequence[Mapping[str, Any]]
    action_names: Sequence[str]
    classifier: bool = True
    """False: its validity head was not trained, and is left out of the classifier's figure."""


@dataclasses.dataclass(frozen=True)
class Band:
    """A curve with its range over seeds, from its first point to its last; NaN where there is no
    data. All [points]."""

    frames: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def band(
    runs: Sequence[Run], metric: str, action: str | None = None, *, logarithmic: bool = False
) -> Band:
    """Seeds of one condition on common frames: mean and range. `logarithmic`: geometric mean."""
    last = max((row["frames"] for run in runs for row in run.rows), default=0)
    edges = np.linspace(0, max(last, 1), POINTS + 1)
    lines = np.stack([_on_points(run, metric, action, edges, logarithmic) for run in runs])
    known = np.flatnonzero(~np.isnan(lines).all(axis=0))
    inside = slice(known[0], known[-1] + 1) if len(known) else slice(0)
    low, middle, high = low_middle_high(lines[:, inside])
    if logarithmic:
        low, middle, high = np.exp(low), np.exp(middle), np.exp(high)
    # A point stands for the rows up to its right edge, as a row does for the frames before it.
    return Band(edges[1:][inside], middle, low, high)


def _on_points(
    run: Run, metric: str, action: str | None, edges: np.ndarray, logarithmic: bool
) -> np.ndarray:
    """Means of a run's rows between the edges. Short gaps are interpolated; NaN in long ones, and
    outside. [points]"""
    number = None if action is None else list(run.action_names).index(action)
    frames, values = column(run.rows, "frames"), column(run.rows, metric, number)
    if logarithmic:
        values = np.log(np.maximum(values, LOWEST))
    of_row = np.clip(np.searchsorted(edges, frames) - 1, 0, POINTS - 1)
    bins, values = of_row[~np.isnan(values)], values[~np.isnan(values)]
    counts = np.bincount(bins, minlength=POINTS)
    means = np.bincount(bins, weights=values, minlength=POINTS) / np.maximum(counts, 1)
    filled = np.flatnonzero(counts)
    if not len(filled):
        return np.full(POINTS, np.nan)
    points = np.interp(np.arange(POINTS), filled, means[filled], left=np.nan, right=np.nan)
    for start, end in itertools.pairwise(filled):
        unknown = np.sum((of_row > start) & (of_row < end))
        if end - start > LONGEST_BRIDGE and unknown > 1:  # one alone is no more than an update
            points[start + 1 : end] = np.nan
    return points


def column(rows: Sequence[Mapping[str, Any]], metric: str, action: int | None = None) -> np.ndarray:
    """A metric over the rows, or that of one action; NaN where it is null or missing. [rows]"""
    values = [row.get(metric) for row in rows]
    if action is not None:
        values = [None if value is None else value[action] for value in values]
    return np.array(values, np.float64)


def final_means(run: Run, metric: str) -> np.ndarray:
    """Per action, the mean over the last tenth of training; NaN where unknown. [actions]"""
    last = run.rows[-1]["frames"] if run.rows else 0
    rows = [row.get(metric) for row in run.rows if row["frames"] >= 0.9 * last]
    blank = [None] * len(run.action_names)
    return low_middle_high(np.array([row or blank for row in rows] or [blank], np.float64))[1]


def low_middle_high(seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lowest, mean and highest over the first axis of what is not NaN; NaN where all are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns where all are NaN
        return np.nanmin(seeds, axis=0), np.nanmean(seeds, axis=0), np.nanmax(seeds, axis=0)
