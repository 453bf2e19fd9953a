"""Curves from the rows of `metrics.jsonl`: seeds of one condition on common frames."""

import dataclasses
import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from maskless import statistics

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
    """Seeds of one condition on common frames: middle and range (`low_middle_high`).
    `logarithmic`: of the logarithms."""
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
    values = np.array([row or blank for row in rows] or [blank], np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns where all are NaN
        return np.nanmean(values, axis=0)


def low_middle_high(
    seeds: Float[np.ndarray, "seeds points"],
) -> tuple[Float[np.ndarray, " points"], ...]:
    """Over seeds, of what is not NaN: the ends of the 95 % bootstrap interval, and between them the
    interquartile mean. Of fewer than three seeds: lowest, mean and highest. NaN where all are."""
    found = np.full((3, seeds.shape[1]), np.nan)
    unknown = np.isnan(seeds)
    for pattern in np.unique(unknown, axis=1).T:
        columns, known = (unknown == pattern[:, None]).all(axis=0), seeds[~pattern]
        if len(known):
            found[:, columns] = _over_seeds(known[:, columns])
    return found[0], found[1], found[2]


def _over_seeds(known: Float[np.ndarray, "seeds points"]) -> Float[np.ndarray, "3 points"]:
    middle = statistics.interquartile_mean(known, axis=0)
    low, high = known.min(axis=0), known.max(axis=0)
    if len(known) >= statistics.SEEDS:
        draws = statistics.bootstrap(
            [known], lambda strata: statistics.interquartile_mean(strata[0], axis=1)
        )
        low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    return np.stack([low, middle, high])
