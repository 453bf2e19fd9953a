"""What the host makes of the numbers it finds when it looks in between two chunks of updates."""

from typing import Any

import numpy as np

from maskless.conditions import condition
from maskless.config import Config
from maskless.errors import MasklessError
from maskless.training import display

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


def rows(
    config: Config, done: int, metrics: dict[str, np.ndarray], seconds: float
) -> list[dict[str, Any]]:
    """One line of the log for each run: means over the updates of this visit that have a value;
    episodes are added up, and what is per episode is weighted by them."""
    episodes = metrics["episodes"].astype(np.float64)  # [updates, runs]
    begun = {"update": done, "frames": done * config.frames_per_update, "seconds": seconds}
    lines = []
    for run in range(len(config.runs)):
        line: dict[str, Any] = dict(begun)
        for name, values in metrics.items():
            mine = values[:, run].astype(np.float64)
            if name == "episodes":
                line[name] = int(mine.sum())
            elif name in _PER_EPISODE:
                line[name] = _weighted_mean(mine, episodes[:, run])
            else:
                line[name] = _mean(mine)
        lines.append(line)
    return lines


def _mean(values: np.ndarray) -> np.ndarray:
    """The mean over updates of what is not nan. [updates, ...] -> [...]"""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(0)
    return np.where(known.any(0), total / np.maximum(known.sum(0), 1), np.nan)


def _weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    if not weights.sum():
        return float("nan")
    return float(np.nansum(values * weights) / weights.sum())


def by_condition(config: Config, rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Means over the seeds of each condition, for the display."""
    means = {}
    for name in config.conditions:
        mine = [row for row, run in zip(rows, config.runs, strict=True) if run[0] == name]
        numbers = {
            key: float(_mean(np.array([row[key] for row in mine])))
            for key in display.COLUMNS
            if key in mine[0]
        }
        if not condition(name).strength:
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
