"""RQ2 to RQ4: does a lower feature correlation go with more that is kept without the oracle?"""

import dataclasses
from pathlib import Path

import numpy as np

from maskless import statistics
from maskless.report import figures, style
from maskless_paper import results
from maskless_paper.study_files import Result
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import Table

HEADER = (
    "game, network, frames",
    "action",
    "runs",
    "correlation at φ",
    "kept",
    "rank correlation",
    "p",
)
NOTE = (
    "Runs of all masked conditions with a classifier, each seed one point: the feature correlation"
    " at the end of training, and what is kept under predicted masks."
    " Spearman's rank correlation; p: how often shuffling gives one as far from zero. Seeds of one"
    " condition are not independent, so p is on the small side."
)


@dataclasses.dataclass(frozen=True)
class Points:
    """Runs of one game and network, at the same number of frames."""

    where: str
    action: str
    names: tuple[str, ...]
    correlation: np.ndarray
    kept: np.ndarray

    @property
    def enough(self) -> bool:
        """Whether their rank correlation is worth a number."""
        return statistics.can_rank(self.correlation, self.kept)

    @property
    def rank_correlation(self) -> float:
        return statistics.rank_correlation(self.correlation, self.kept)

    @property
    def p(self) -> float:
        return statistics.rank_correlation_p(self.correlation, self.kept)


def points_by_world(studies: Results) -> list[Points]:
    """One group for each action of each game, network and number of frames."""
    groups: dict[str, list[Result]] = {}
    for result in studies.values():
        groups.setdefault(results.setting_and_frames(result), []).append(result)
    return [
        _points(where, group, action)
        for where, group in groups.items()
        for action in group[0]["watched"]
    ]


def _points(where: str, group: list[Result], action: str) -> Points:
    names, points = [], []
    for result in group:
        for name in results.conditions(result):
            if not results.has_classifier(name) or results.training_masks(name) != "oracle":
                continue
            for point in points_of(result, name, action):
                if point not in points:  # two sweeps may hold the same run
                    names.append(name)
                    points.append(point)
    correlation, kept = np.array(points).reshape(-1, 2).T
    return Points(where, action, tuple(names), correlation, kept)


def points_of(result: Result, name: str, action: str) -> list[tuple[float, float]]:
    """The correlation at the end of each seed of a condition, and what the seed keeps."""
    kept = results.retained_by_seed(result, name)
    points = []
    for log in results.logs(result, name):
        correlation = results.final_mean(log, "feature_correlation", action)
        if correlation is not None and log["seed"] in kept:
            points.append((correlation, kept[log["seed"]][0]))
    return points


def tables(studies: Results) -> list[Table]:
    rows = tuple(
        (
            points.where,
            points.action,
            str(len(points.names)),
            *_described(points),
        )
        for points in points_by_world(studies)
    )
    return [Table("Correlation and what is kept", HEADER, rows, (NOTE,))]


def _described(points: Points) -> tuple[str, ...]:
    """Both ranges, and how they go together."""
    if not points.enough:
        return ("–",) * 4
    return (
        f"{points.correlation.min():.2f} to {points.correlation.max():.2f}",
        f"{100 * points.kept.min():.0f} to {100 * points.kept.max():.0f} %",
        f"{points.rank_correlation:+.2f}".replace("-", "\N{MINUS SIGN}"),
        f"{points.p:.2g}",
    )


def draw(studies: Results, path: Path) -> None:
    every = [points for points in points_by_world(studies) if points.enough]
    groups = list({points.where: points for points in reversed(every)}.values())[::-1]
    columns = max(1, len(groups))
    with style.figure(path, ncols=columns, squeeze=False, figsize=(2.4 * columns, 2.9)) as (
        fig,
        axes,
    ):
        names = list(dict.fromkeys(_family(name) for points in groups for name in points.names))
        for axis, points in zip(axes[0], groups, strict=False):
            for x, y, name in zip(points.correlation, points.kept, points.names, strict=True):
                colour = figures.colour_of(names, _family(name))
                axis.plot(x, 100 * y, "o", color=colour, ms=4, alpha=0.8)
            axis.set_title(points.where, loc="left", fontsize=7)
            axis.set_xlabel(f"correlation at φ, {points.action}", fontsize=7)
        axes[0, 0].set_ylabel("% kept under predicted masks")
        keys = figures.legend_keys(names, marker="o")
        fig.legend(keys, names, loc="outside lower center", ncols=5, fontsize=7)


def _family(name: str) -> str:
    """A condition without its numbers."""
    return name.partition(":")[0]


EXPERIMENT = Experiment(
    about="whether a lower feature correlation goes with more that is kept without the oracle",
    paper="RQ2, its last paragraph",
    studies=(
        *("full-mlp", "full-loop", "predictor", "classic-mlp", "classic-loop", "lambda", "gamma"),
        *("control-losses", "corridor-gru", "corridor-loop"),
    ),
    tables=tables,
    draw=draw,
)
