"""A run's log, downsampled: what tables and figures need of `metrics.jsonl`, as short columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maskless.report.curves import column
from maskless_paper.study_files import rounded

POINTS = 60
"""Points of a curve; the rows between two points are averaged."""
SMOOTHING_FRAMES = 1_000_000
"""The return has reached a value when its mean over so many frames has (or over a twentieth of the
planned frames, where that is less)."""
RETURNS = (0.5, 0.9, 0.95, 0.99)
"""The returns for which `frames_to` says when they were reached."""

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
_AT_THE_END = (
    *("first_valid_frames", "suppression_ratio", "suppression_ratio_among_valid"),
    "frames_to_half",
)

Row = Mapping[str, Any]


def downsample(
    rows: Sequence[Row],
    action_names: Sequence[str],
    watched: Sequence[str],
    *,
    planned_frames: int,
    longest_episode: int = 0,
) -> dict[str, Any]:
    """The curves of one run, with `null` where nothing was measured.

    `actions` has those of the watched actions, `history` the last value of what is known once for
    every action, `frames_to` the frames after which the training return had reached a value.
    `longest_episode`: in frames of all environments together. Until then only short episodes have
    ended, and in a game that ends with success these are the successful ones.
    """
    groups = np.array_split(np.arange(len(rows)), min(POINTS, len(rows)))
    curves: dict[str, Any] = {"frames": [rows[group[-1]]["frames"] for group in groups]}
    episodes = column(rows, "episodes")
    for name in _PER_EPISODE:
        curves[name] = _means(column(rows, name), groups, episodes)
    for name in _SCALARS:
        curves[name] = _means(column(rows, name), groups)
    for name in _OVER_ACTIONS:
        values = np.array([_mean_over_actions(row.get(name)) for row in rows])
        curves[f"mean_{name}"] = _means(values, groups)
    numbers = {action: list(action_names).index(action) for action in watched}
    return curves | {
        "actions": {name: _action_curves(rows, n, groups) for name, n in numbers.items()},
        "history": {name: _last_values(rows, n) for n, name in enumerate(action_names)},
        "frames_to": _frames_to(rows, planned_frames, longest_episode),
    }


def _action_curves(rows: Sequence[Row], action: int, groups: list[np.ndarray]) -> dict[str, Any]:
    shares = column(rows, "valid_share", action)
    curves = {name: _means(column(rows, name, action), groups) for name in _PER_ACTION}
    # Rows are weighted by their valid states: of a rare action, some rows have hardly any.
    return curves | {
        name: _means(column(rows, name, action), groups, shares) for name in _WHERE_VALID
    }


def _last_values(rows: Sequence[Row], action: int) -> dict[str, float | None]:
    last: dict[str, float | None] = {}
    for name in _AT_THE_END:
        values = column(rows, name, action)
        values = values[~np.isnan(values)]
        last[name] = rounded(values[-1]) if len(values) else None
    return last | {"first_valid_states": _first_states(rows, action)}


def _first_states(rows: Sequence[Row], action: int) -> int | None:
    """How many states of the first row that has any: the first occurrence is a mean over at most
    so many."""
    before = 0
    for row, share in zip(rows, column(rows, "valid_share", action), strict=True):
        if share > 0:
            return max(1, round(share * (row["frames"] - before)))
        before = row["frames"]
    return None


def _frames_to(
    rows: Sequence[Row], planned_frames: int, longest_episode: int
) -> dict[str, int | None]:
    window = min(SMOOTHING_FRAMES, planned_frames / 20)
    frames = np.array([row["frames"] for row in rows], np.float64)
    episodes, returns = column(rows, "episodes"), column(rows, "return")
    episodes = np.where(np.isnan(returns), 0.0, episodes)
    sums = np.cumsum(np.where(np.isnan(returns), 0.0, returns) * episodes)
    counts = np.cumsum(episodes)
    start = np.searchsorted(frames, frames - window)  # the first row within the window
    sums = sums - np.where(start > 0, sums[start - 1], 0.0)
    counts = counts - np.where(start > 0, counts[start - 1], 0.0)
    defined = (counts > 0) & (frames - window >= longest_episode)
    smooth = np.where(defined, sums / np.maximum(counts, 1), -np.inf)
    frames_to: dict[str, int | None] = {}
    for value in RETURNS:
        reached = np.flatnonzero(smooth >= value)
        frames_to[str(value)] = int(frames[reached[0]]) if len(reached) else None
    return frames_to


def _means(
    values: np.ndarray, groups: list[np.ndarray], weights: np.ndarray | None = None
) -> list[float | None]:
    weights = np.ones_like(values) if weights is None else np.where(np.isnan(weights), 0, weights)
    weights = np.where(np.isnan(values), 0.0, weights)
    means: list[float | None] = []
    for group in groups:
        total = weights[group].sum()
        mean = np.nansum(values[group] * weights[group]) / total if total > 0 else np.nan
        means.append(rounded(mean))
    return means


def _mean_over_actions(values: Sequence[float | None] | None) -> float:
    known = [value for value in values or () if value is not None]
    return float(np.mean(known)) if known else float("nan")
