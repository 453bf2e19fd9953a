"""What the sweeps have in common: a table with a row for each value, and points with ranges."""

from collections.abc import Callable, Mapping
from pathlib import Path

from maskless.report import figures, style
from maskless_paper import results
from maskless_paper.results import Cell
from maskless_paper.study_files import Result
from maskless_paper.tables.experiment import Results
from maskless_paper.tables.table import Table, notes_of, percent, text

HEADER = (
    *("condition", "oracle masks", "predicted masks", "no masks", "kept", "classifier accuracy"),
    *("classification loss", "wrong mask entries in play"),
)
NOTES = ("Accuracy and loss: means over the last tenth of the frames.",)
Curves = Mapping[str, Mapping[str, Mapping[float, Cell]]]
"""panel -> line -> position -> cell"""


def sweep_table(result: Result, title: str, frames: int | None = None) -> Table:
    """One row for each condition, at the last budget, unless `frames` says which."""
    frames = results.budget(result) if frames is None else frames
    rows = []
    for name in results.conditions(result):
        learned = results.has_classifier(name)
        wrong = results.metric(result, name, "predicted", "mask_errors", frames)
        accuracy = results.final(result, name, "classifier_accuracy", until=frames)
        loss = results.final(result, name, "classification_loss", until=frames)
        rows.append(
            (
                f"`{name}`",
                text(results.returns(result, name, "oracle", frames), ".2f"),
                text(results.returns(result, name, "predicted", frames), ".2f") if learned else "–",
                text(results.returns(result, name, "none", frames), ".2f"),
                percent(results.retained(result, name, frames=frames)) if learned else "–",
                text(accuracy, ".4f") if learned else "–",
                text(loss, ".2g") if learned else "–",
                text(wrong, ".2g") if learned else "–",
            )
        )
    notes = notes_of(result, *NOTES, frames=frames)
    return Table(
        f"{title}: {results.setting_and_frames(result, frames)}", HEADER, tuple(rows), notes
    )


def sweep_tables(study: str, title: str) -> Callable[[Results], list[Table]]:
    return lambda studies: [sweep_table(studies[study], title)]


def draw_points(curves: Curves, path: Path, across: str, up: str) -> None:
    """A panel for each group, a line for each name, with the range of each point. `across`, `up`:
    the labels of the axes; `frames` is linear, anything else logarithmic."""
    panels = list(curves) or [""]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    size = (3.3 * columns, 0.6 + 2.1 * rows)
    with style.figure(path, nrows=rows, ncols=columns, squeeze=False, figsize=size) as (fig, axes):
        names = list(dict.fromkeys(name for lines in curves.values() for name in lines))
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for axis, panel in zip(axes.flat, panels, strict=False):
            for name, points in curves.get(panel, {}).items():
                colour = figures.colour_of(names, name)
                at = sorted(points)
                axis.plot(at, [points[x].middle for x in at], "o-", color=colour, ms=3, lw=1.2)
                lows, highs = ([getattr(points[x], end) for x in at] for end in ("low", "high"))
                axis.vlines(at, lows, highs, color=colour, linewidth=0.9)
            axis.set_title(panel, loc="left", fontsize=8)
            axis.set_ylabel(up, fontsize=7)
            if across == "frames":
                figures.frames_axis(axis)
            else:
                axis.set_xlabel(across)
                axis.set_xscale("symlog", linthresh=0.1)
        handles = figures.legend_keys(names, marker="o")
        fig.legend(handles, names, loc="outside lower center", ncols=2, fontsize=7)
