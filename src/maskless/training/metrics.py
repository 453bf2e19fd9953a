"""Host-side metrics: one log row per run and chunk; fails on losses that are not finite."""

import jax
import numpy as np

from maskless.conditions import condition
from maskless.config import Config
from maskless.envs.registry import built_in_factory
from maskless.errors import MasklessError
from maskless.ppo.learner import TrainState
from maskless.ppo.rollout import Actor
from maskless.training import display
from maskless.training.log import Row
from maskless.training.program import Program

WATCHED = (
    "policy_loss",
    "value_loss",
    "intrinsic_value_loss",
    "entropy",
    "classification_loss",
    "clone_loss",
    "distillation_loss",
    "invalid_mass",
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
        of_seeds = [row | {"mask_recall": _mask_recall(row)} for row in of_seeds]
        trained = condition(name).has_classifier
        means[name] = {
            key: float(mean_of_known(np.array([row[key] for row in of_seeds], np.float64)))
            for key in display.COLUMNS
            if key in of_seeds[0] and (trained or not key.startswith("mask_"))
        }
    return means


def _mask_recall(row: Row) -> float:
    """The share of all valid entries that the classifier finds; nan without diagnostics."""
    if "classifier_recall" not in row:
        return float("nan")
    valid, recall = np.asarray(row["valid_share"]), np.asarray(row["classifier_recall"])
    return float(np.nansum(valid * recall) / valid.sum())


def check_finite(
    config: Config,
    program: Program,
    states: TrainState,
    done: int,
    metrics: dict[str, np.ndarray],
    kept: str,
) -> None:
    """Stops before anything of a failed update is logged or saved. `states`: after these updates,
    which follow update `done`; `kept`: the sentence on what was saved before."""
    _check_masks(program, metrics, kept)
    watched = [name for name in WATCHED if name in metrics]
    finite = np.stack([np.isfinite(metrics[name]) for name in watched], -1)
    if finite.all():
        return
    update, run, term = np.argwhere(~finite)[0]
    name, seed = config.runs[run]
    value = metrics[watched[term]][update, run]
    raise MasklessError(
        f"The run {name}, seed {seed}, failed: {watched[term]} became {value} in update"
        f" {done + update + 1} ({(done + update + 1) * config.frames_per_update:,} frames)."
        f" {_cause(program.fetch_run(states.actor, int(run)), metrics, int(run))} {kept}"
    )


def _check_masks(program: Program, metrics: dict[str, np.ndarray], kept: str) -> None:
    """Refuses masks of somebody else's environment that allow nothing."""
    env = program.learner.env
    share = float(np.max(metrics["states_without_valid"]))
    if share > 0 and built_in_factory((env.made_from or ("",))[0]) is None:
        raise MasklessError(
            f"{env.id}: no action is valid in {100 * share:.2g} % of the states of an update; at"
            " least one action must be valid in every state, if need be one that does nothing."
            f" {kept}"
        )


def _cause(actor: Actor, metrics: dict[str, np.ndarray], run: int) -> str:
    """What the user should look at. A loss also fails where the environment did."""
    over = metrics["episodes"][:, run] > 0
    returns = [metrics["return"][over, run]]
    if hasattr(actor.worlds, "episodes"):  # inside of JAX; others are checked where they play
        returns.append(actor.worlds.episodes.returns)
    if not all(np.isfinite(x).all() for x in returns):
        return "The environment gave a reward that is not finite: mend it, or clip its rewards."
    observed = jax.tree.leaves(actor.now.observation)
    if not all(np.isfinite(x).all() for x in observed if np.issubdtype(x.dtype, np.floating)):
        return "The environment showed a number that is not finite: mend its observations."
    return "Try a lower learning rate or a smaller strength."
