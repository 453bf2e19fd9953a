"""What the sweeps have in common: a table with a row for each value, and points with ranges."""

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from maskless.report import figures, style
from maskless_paper import results
from maskless_paper.results import Cell
from maskless_paper.run import Result
from maskless_paper.tables.experiment import Results
from maskless_paper.tables.table import RANGES, Table, percent, text

HEADER = (
    *("condition", "oracle masks", "predicted masks", "no masks", "kept", "classifier accuracy"),
    *("classification loss", "wrong mask entries in play"),
)
NOTES = (
    RANGES,
    "Accuracy and loss: means over the last tenth of the frames.",
)
Curves = Mapping[str, Mapping[str, Mapping[float, Cell]]]
"""panel -> line -> position -> cell"""


def sweep_table(result: Result, title: str, frames: int | None = None) -> Table:
    """One row for each condition, at the last budget, unless `frames` says which."""
    frames = results.budget(result) if frames is None else frames
    rows = []
    for name in results.conditions(result):
        learned = results.has_classifier(result, name)
        wrong = results.number(result, name, "predicted", "mask_errors", frames)
        accuracy = results.late_cell(result, name, "classifier_accuracy", until=frames)
        loss = results.late_cell(result, name, "classification_loss", until=frames)
        rows.append(
            (
                f"`{name}`",
                text(results.returns(result, name, "oracle", frames), ".2f"),
                text(results.returns(result, name, "predicted", frames), ".2f") if learned else "–",
                text(results.returns(result, name, "none", frames), ".2f"),
                percent(results.kept(result, name, frames=frames)) if learned else "–",
                text(accuracy, ".4f") if learned else "–",
                text(loss, ".2g") if learned else "–",
                text(wrong, ".2g") if learned else "–",
            )
        )
    where = f"{results.environment(result)}, {results.millions(frames)} frames"
    notes = (result["stands_in"], *NOTES) if result["stands_in"] else NOTES
    return Table(f"{title}: {where}", HEADER, tuple(rows), notes)


def sweep_tables(study: str, title: str) -> Callable[[Results], list[Table]]:
    return lambda found: [sweep_table(found[study], title)]


def draw_points(curves: Curves, path: Path, across: str, up: str, *, frames: bool = False) -> None:
    """A panel for each group, a line for each name, with the range of each point."""
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
                axis.plot(at, [points[x].mean for x in at], "o-", color=colour, ms=3, lw=1.2)
                lows, highs = ([getattr(points[x], end) for x in at] for end in ("low", "high"))
                axis.vlines(at, lows, highs, color=colour, linewidth=0.9)
            axis.set_title(panel, loc="left", fontsize=8)
            axis.set_ylabel(up, fontsize=7)
            axis.set_xlabel(across)
            if frames:
                axis.set_xlim(left=0)
                axis.xaxis.set_major_formatter(EngFormatter(sep=" "))
            else:
                axis.set_xscale("symlog", linthresh=0.1)
        handles = [
            Line2D([], [], color=figures.colour_of(names, name), marker="o") for name in names
        ]
        fig.legend(handles, names, loc="outside lower center", ncols=2, fontsize=7)
