"""Figures of studies: curves of conditions with bands over seeds, and bars of returns."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Patch

from maskless.report import figures, style
from maskless.report.curves import Run, band
from maskless_paper import results
from maskless_paper.study_files import Result

MASK_COLOURS = {name: style.MASK_COLOURS[name] for name in ("oracle", "predicted", "none")}
_WIDTH = 3.3  # inches of a panel
_WHERE_VALID = ("probability_valid", "raw_probability_valid")  # means over enough valid states


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes: a metric of every condition of a study."""

    result: Result
    metric: str
    label: str
    action: str | None = None
    logarithmic: bool = False
    title: str = ""
    conditions: tuple[str, ...] = ()
    """Only these; empty: all."""


def runs_of(result: Result) -> list[Run]:
    """The downsampled logs as `report.figures` draws them: only watched actions have numbers."""
    names = result["action_names"]
    runs = []
    for log in result["logs"]:
        columns = {k: v for k, v in log.items() if isinstance(v, list)}
        rows: list[dict[str, Any]] = [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
        for action, curves in log["actions"].items():
            at = names.index(action)
            for metric, curve in curves.items():
                known = dict(zip(log["frames"], curve, strict=True))
                if metric in _WHERE_VALID:
                    points = results.where_valid(log, action, metric)
                    known = {point.frames: point.probability for point in points}
                for row in rows:
                    value = known.get(row["frames"])
                    row.setdefault(metric, [None] * len(names))[at] = value
        trained = results.has_classifier(log["condition"])
        runs.append(Run(log["condition"], rows, names, classifier=trained))
    return runs


def draw_panels(panels: Sequence[Panel], path: Path, *, columns: int = 2) -> None:
    """All panels in one figure, with one legend, or one each where their conditions differ."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    size = (_WIDTH * columns, 0.6 + 2.0 * rows)
    with style.figure(path, nrows=rows, ncols=columns, squeeze=False, figsize=size) as (fig, axes):
        drawn = [_draw(axis, panel) for axis, panel in zip(axes.flat, panels, strict=False)]
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        if all(labels == drawn[0] for labels in drawn):
            fits = int(size[0] / (0.6 + 0.055 * max(map(len, drawn[0]))))  # inches of an entry
            how: dict[str, Any] = {"loc": "outside lower center", "fontsize": 7}
            fig.legend(figures.legend_keys(drawn[0]), drawn[0], ncols=max(1, fits), **how)
        else:
            for axis, labels in zip(axes.flat, drawn, strict=False):
                axis.legend(figures.legend_keys(labels), labels, fontsize=6)


def _draw(axis: Any, panel: Panel) -> list[str]:
    runs = runs_of(panel.result)
    labels = list(dict.fromkeys(run.label for run in runs))
    labels = [label for label in labels if not panel.conditions or label in panel.conditions]
    for label in labels:
        seeds = [run for run in runs if run.label == label]
        curve = band(seeds, panel.metric, panel.action, logarithmic=panel.logarithmic)
        figures.draw_band(axis, curve, figures.colour_of(labels, label))
    if panel.logarithmic:
        axis.set_yscale("log")
        uniform = 1 / len(panel.result["action_names"])
        axis.axhline(uniform, color=style.GREY, linestyle=(0, (5, 2)), linewidth=0.9)
    axis.set_title(panel.title or results.setting(panel.result), loc="left", fontsize=8)
    axis.set_ylabel(panel.label)
    figures.frames_axis(axis)
    return labels


def draw_returns(studies: Sequence[Result], path: Path, near: int | None = None) -> None:
    """The returns under each kind of mask, condition by condition: a panel for each study, at its
    last budget or at that nearest to `near` frames."""
    most = max(len(results.conditions(result)) for result in studies)
    longest = max(len(name) for result in studies for name in results.conditions(result))
    size = (_WIDTH + max(0, 0.05 * (longest - 12)), (0.5 + 0.42 * most) * len(studies) + 0.5)
    with style.figure(path, nrows=len(studies), squeeze=False, figsize=size) as (fig, axes):
        for axis, result in zip(axes[:, 0], studies, strict=True):
            names, frames = results.conditions(result), results.budget(result, near)
            for number, masks in enumerate(MASK_COLOURS):
                rows = np.arange(len(names)) + 0.26 * (number - 1)
                for row, name in zip(rows, names, strict=True):
                    cell = results.returns(result, name, masks, frames)
                    if cell is None or (masks == "predicted" and not results.has_classifier(name)):
                        continue
                    axis.barh(row, cell.middle, height=0.24, color=MASK_COLOURS[masks])
                    axis.hlines(row, cell.low, cell.high, color="black", linewidth=0.9)
            axis.set_yticks(np.arange(len(names)), names, fontsize=7)
            axis.set_ylim(len(names) - 0.5, -0.5)
            axis.grid(axis="y", visible=False)
            axis.set_title(results.setting_and_frames(result, frames), loc="right", fontsize=8)
        axes[-1, 0].set_xlabel("mean return")
        handles = [Patch(color=colour, label=masks) for masks, colour in MASK_COLOURS.items()]
        fig.legend(handles=handles, loc="outside lower center", ncols=3, title="masks", fontsize=7)
