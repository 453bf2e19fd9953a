"""Reading studies: numbers of a condition with all seeds and their range.

result = read_result(Path("results/studies/classic-mlp.json"))
returns(result, "masked-kl", "predicted").mean
"""

import math

from maskless import statistics
from maskless.conditions import condition
from maskless_paper.cells import SEEDS, Cell, cell, cell_of
from maskless_paper.logged import (
    HEADLINE_STATES,
    STATES,
    Entry,
    FirstOccurrence,
    Point,
    final,
    final_mean,
    first_occurrence,
    initial,
    logs,
    lowest,
    lowest_point,
    lowest_points,
    where_valid,
)
from maskless_paper.plans import differences, study_at
from maskless_paper.studies import WORLDS, WorldName
from maskless_paper.study_files import Result

__all__ = [
    "HEADLINE_STATES",
    "SEEDS",
    "STATES",
    "Cell",
    "Entry",
    "FirstOccurrence",
    "Point",
    "cell",
    "final",
    "final_mean",
    "first_occurrence",
    "initial",
    "logs",
    "lowest",
    "lowest_point",
    "lowest_points",
    "where_valid",
]


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


def share_of_budget(result: Result) -> float:
    """Of the paper's frames."""
    paper = study_at(result["study"], "paper")
    return float(result["frames"] / WORLDS[paper.world].frames["paper"])


def has_full_budget(result: Result) -> bool:
    """Whether it was trained for as long as in the paper."""
    return share_of_budget(result) >= 0.99


def decides(result: Result) -> bool:
    """Whether a "no" of this study counts: it is of the paper's game, and at least a tenth of the
    paper's frames long."""
    paper = study_at(result["study"], "paper")
    return paper.world == world(result) and share_of_budget(result) >= 0.099


def stand_in(result: Result, frames: int | None = None) -> str:
    """In what a study is smaller than the paper's, or another, at its end or after so many frames;
    empty: in nothing."""
    if "config" not in result or result["scale"] == "smoke":
        return str(result.get("stands_in", ""))
    return "; ".join(differences(result["study"], result["config"], frames or result["frames"]))


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
    names = ("mean_return", "low", "high", "standard_error")
    return cell_of(*([entry[name] for entry in entries] for name in names))


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
    """The return as a share of the same seed's under the oracle's masks. The intervals hold the
    errors of both."""
    pairs = _with_oracle(result, condition, masks, frames)
    if not pairs:
        return None
    shares, lows, highs, errors = zip(*(_share(*pair) for pair in pairs), strict=True)
    return cell_of(shares, lows, highs, errors)


def retained_by_seed(result: Result, condition: str) -> dict[int, tuple[float, float]]:
    """What each seed keeps under predicted masks at the last budget, and its standard error."""
    found = {}
    for entry, whole in _with_oracle(result, condition, "predicted", None):
        share, _, _, error = _share(entry, whole)
        found[entry["seed"]] = share, error
    return found


def _with_oracle(
    result: Result, condition: str, masks: str, frames: int | None
) -> list[tuple[Entry, Entry]]:
    """Each seed's evaluation, and that under the oracle's masks, where this is above zero."""
    oracle = {e["seed"]: e for e in evaluations(result, condition, "oracle", frames)}
    return [
        (entry, oracle[entry["seed"]])
        for entry in evaluations(result, condition, masks, frames)
        if entry["seed"] in oracle and oracle[entry["seed"]]["mean_return"] > 0
    ]


def _share(part: Entry, whole: Entry) -> tuple[float, float, float, float]:
    """A ratio of two returns, its interval, and its standard error."""
    returns = part["mean_return"], whole["mean_return"]
    errors = part["standard_error"], whole["standard_error"]
    share = returns[0] / returns[1]
    error = math.hypot(errors[0], share * errors[1]) / returns[1]
    return share, *statistics.ratio_interval(*returns, *errors), error


LEARNED = 0.5
"""A policy with a lower return has nothing yet that it could lose."""


def has_learned(result: Result, condition: str, frames: int | None = None) -> bool:
    """Whether the return of every seed, under the masks of its training, is worth losing."""
    trained = returns(result, condition, training_masks(condition), frames)
    return trained is not None and min(trained.values) >= LEARNED


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
