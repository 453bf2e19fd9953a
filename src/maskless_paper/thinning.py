"""The log of a run, thinned: what tables and figures need of `metrics.jsonl`, as short columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

POINTS = 60
"""So many points has a thinned curve; rows between two points are averaged."""
DIGITS = 5
"""Significant ones, of every number that is kept."""
SMOOTHED_FRAMES = 1_000_000
"""The return "reaches" a value when its mean over so many frames does (or over a twentieth of the
planned frames, where that is less)."""
REACHED = (0.5, 0.9, 0.95, 0.99)

_PER_EPISODE = ("return", "length", "achievements")
_SCALARS = (
    *("valid_rate", "entropy", "explained_variance", "classification_loss"),
    *("classifier_accuracy", "mask_total_variation", "uniform_weight_share", "fallback_rate"),
)
_OVER_ACTIONS = ("valid_share", "feature_correlation")  # the means of all actions
_WHERE_VALID = ("probability_valid", "raw_probability_valid", "classifier_recall")
_PER_ACTION = (
    *("valid_share", "raw_probability_invalid", "classifier_precision"),
    *("feature_correlation", "hidden_correlation", "feature_cosine_with_bias"),
)
_HISTORY = (
    *("first_valid_frames", "suppression_ratio", "suppression_ratio_among_valid"),
    "frames_to_half",
)

Row = Mapping[str, Any]


def thin(
    rows: Sequence[Row],
    action_names: Sequence[str],
    watched: Sequence[str],
    *,
    planned_frames: int,
    longest_episode: int = 0,
) -> dict[str, Any]:
    """The curves of one run, with `null` where nothing was measured.

    `actions` has those of the watched actions, `history` what is known of each at the end,
    `frames_to` the frames after which the training return had reached a value.
    `longest_episode`: in frames of all environments together. So long, only short episodes have
    ended, and in a game that ends with success these are the successful ones.
    """
    groups = np.array_split(np.arange(len(rows)), min(POINTS, len(rows)))
    curves: dict[str, Any] = {"frames": [rows[group[-1]]["frames"] for group in groups]}
    episodes = _column(rows, "episodes")
    for name in _PER_EPISODE:
        curves[name] = _means(_column(rows, name), groups, episodes)
    for name in _SCALARS:
        curves[name] = _means(_column(rows, name), groups)
    for name in _OVER_ACTIONS:
        values = np.array([_known_mean(row.get(name)) for row in rows])
        curves[f"mean_{name}"] = _means(values, groups)
    numbers = {action: list(action_names).index(action) for action in watched}
    return curves | {
        "actions": {action: _action(rows, at, groups) for action, at in numbers.items()},
        "history": {action: _history(rows, at) for action, at in numbers.items()},
        "frames_to": _frames_to(rows, planned_frames, longest_episode),
    }


def _action(rows: Sequence[Row], at: int, groups: list[np.ndarray]) -> dict[str, Any]:
    shares = _column(rows, "valid_share", at)
    curves = {name: _means(_column(rows, name, at), groups) for name in _PER_ACTION}
    # Where an action is rare, a visit with many valid states says more than one with few.
    return curves | {name: _means(_column(rows, name, at), groups, shares) for name in _WHERE_VALID}


def _history(rows: Sequence[Row], at: int) -> dict[str, float | None]:
    found = {}
    for name in _HISTORY:
        values = _column(rows, name, at)
        known = values[~np.isnan(values)]
        found[name] = rounded(known[-1]) if len(known) else None
    return found


def _frames_to(
    rows: Sequence[Row], planned_frames: int, longest_episode: int
) -> dict[str, int | None]:
    window = min(SMOOTHED_FRAMES, planned_frames / 20)
    frames = np.array([row["frames"] for row in rows], np.float64)
    episodes, returns = _column(rows, "episodes"), _column(rows, "return")
    episodes = np.where(np.isnan(returns), 0.0, episodes)
    sums = np.cumsum(np.where(np.isnan(returns), 0.0, returns) * episodes)
    counts = np.cumsum(episodes)
    before = np.searchsorted(frames, frames - window)  # rows within the window begin here
    sums = sums - np.where(before > 0, sums[before - 1], 0.0)
    counts = counts - np.where(before > 0, counts[before - 1], 0.0)
    known = (counts > 0) & (frames - window >= longest_episode)
    smooth = np.where(known, sums / np.maximum(counts, 1), -np.inf)
    found: dict[str, int | None] = {}
    for value in REACHED:
        reached = np.flatnonzero(smooth >= value)
        found[str(value)] = int(frames[reached[0]]) if len(reached) else None
    return found


def _column(rows: Sequence[Row], name: str, action: int | None = None) -> np.ndarray:
    """A metric over the rows; NaN where it is null or was not measured."""
    values = [row.get(name) for row in rows]
    if action is not None:
        values = [None if value is None else value[action] for value in values]
    return np.array(values, np.float64)


def _means(
    values: np.ndarray, groups: list[np.ndarray], weights: np.ndarray | None = None
) -> list[float | None]:
    weights = np.ones_like(values) if weights is None else np.where(np.isnan(weights), 0, weights)
    weights = np.where(np.isnan(values), 0.0, weights)
    means: list[float | None] = []
    for group in groups:
        total = weights[group].sum()
        mean = np.nansum(values[group] * weights[group]) / total if total > 0 else None
        means.append(None if mean is None else rounded(mean))
    return means


def _known_mean(values: Sequence[float | None] | None) -> float:
    known = [value for value in values or () if value is not None]
    return float(np.mean(known)) if known else float("nan")


def rounded(number: float) -> float | None:
    """What a JSON holds of a number; `null` for what is not finite."""
    return float(f"{number:.{DIGITS}g}") if np.isfinite(number) else None
