"""Host-side metrics: one log row per run and chunk; fails on losses that are not finite."""

import numpy as np

from maskless.conditions import condition
from maskless.config import Config
from maskless.errors import MasklessError
from maskless.training import display
from maskless.training.log import Row

WATCHED = (
    "policy_loss",
    "value_loss",
    "intrinsic_value_loss",
    "entropy",
    "classification_loss",
    "gradient_norm",
)
"""A run in which one of these is not finite has failed."""
_PER_EPISODE = ("return", "length", "achievements")


def rows_of(config: Config, done: int, metrics: dict[str, np.ndarray], seconds: float) -> list[Row]:
    """One row for each run: means over the updates of this chunk that have a value; episodes are
    added up, and what is per episode is weighted by them. `metrics`: [updates, runs, ...]"""
    episodes = metrics["episodes"].astype(np.float64)
    rows = []
    for run in range(len(config.runs)):
        frames = done * config.frames_per_update
        row: Row = {"update": done, "frames": frames, "seconds": seconds}
        for name, values in metrics.items():
            of_run = values[:, run].astype(np.float64)
            if name == "episodes":
                row[name] = int(of_run.sum())
            elif name in _PER_EPISODE:
                row[name] = _weighted_mean(of_run, episodes[:, run])
            else:
                row[name] = mean_of_known(of_run)
        rows.append(row)
    return rows


def mean_of_known(values: np.ndarray) -> np.ndarray:
    """The mean over the first axis of what is not nan; nan where nothing is. [n, ...] -> [...]"""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(0)
    return np.where(known.any(0), total / np.maximum(known.sum(0), 1), np.nan)


def _weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    if not weights.sum():
        return float("nan")
    return float(np.nansum(values * weights) / weights.sum())


def by_condition(config: Config, rows: list[Row]) -> dict[str, dict[str, float]]:
    """Means over the seeds of each condition, for the display."""
    means = {}
    for name in config.conditions:
        of_seeds = [row for row, run in zip(rows, config.runs, strict=True) if run[0] == name]
        numbers = {
            key: float(mean_of_known(np.array([row[key] for row in of_seeds])))
            for key in display.COLUMNS
            if key in of_seeds[0]
        }
        if not condition(name).has_classifier:
            numbers["classifier_accuracy"] = float("nan")
        means[name] = numbers
    return means


def check_finite(config: Config, done: int, metrics: dict[str, np.ndarray]) -> None:
    """Stops before anything of a failed update is logged or saved."""
    watched = [name for name in WATCHED if name in metrics]
    finite = np.stack([np.isfinite(metrics[name]) for name in watched], -1)
    if finite.all():
        return
    update, run, term = np.argwhere(~finite)[0]
    name, seed = config.runs[run]
    value = metrics[watched[term]][update, run]
    raise MasklessError(
        f"The run {name}, seed {seed}, failed: {watched[term]} became {value} in update"
        f" {done + update + 1} ({(done + update + 1) * config.frames_per_update:,} frames). The"
        " last good checkpoint is kept; try a lower learning rate or a smaller strength."
    )
