"""Which method for whom: the tables and the figure of what benchmarks/methods.py measured.

A block is a world. A method is a condition at the best of its settings that were tried, deployed in
the best of the ways that it was trained for; `masked` also with its student (`maskless finish`).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maskless.conditions import condition
from maskless.report import style
from maskless_paper.results import format_frames
from maskless_paper.tables.table import MINUS, Table

Block = Mapping[str, Any]
"""What benchmarks/methods.py wrote."""

WAYS = {"predicted": "predicted masks", "clone": "clone", "none": "no masks", "oracle": "oracle"}
FINISHED = "finished"
WORLDS = {
    "classic": "Classic, the paper's masks",
    "classic-prudent": "Classic, prudent masks",
    "corridor": "Corridor-R5",
    "full": "full game, prudent masks",
    "packing": "packing",
    "2048": "2048",
    "job-shop": "job shop",
    "taxi": "Taxi",
}
"""The blocks in the order of the page."""
HEADER = (
    *("method", "settings", "deployed with", "return so", "invalid steps"),
    *("without the memory of failures", "return with the oracle's masks"),
)


@dataclasses.dataclass(frozen=True)
class Method:
    """A method in one world, at its best."""

    name: str
    """The condition with its numbers, and `finished` behind it where it has a student."""
    tried: int
    """Settings of its own."""
    way: str
    """Of `WAYS`: how it is deployed."""
    runs: Sequence[Mapping[str, Any]]
    """Its evaluated runs, one for each seed."""

    @property
    def family(self) -> str:
        """Its name without numbers."""
        return self.name.partition(":")[0] + (f", {FINISHED}" if FINISHED in self.name else "")

    def over_seeds(self, masks: str, number: str = "mean_return") -> list[float]:
        """Of every seed; empty where it was not played so."""
        return [run["masks"][masks][number] for run in self.runs if masks in run["masks"]]

    @property
    def deployed(self) -> float:
        """The mean return as it is deployed."""
        return float(np.mean(self.over_seeds(self.way)))


def methods(*blocks: Block) -> list[Method]:
    """Those of a world, best first."""
    settings: dict[str, list[Any]] = {}
    for run in (run for block in blocks for run in block["runs"]):
        settings.setdefault(run["condition"], []).append(run)
    families: dict[str, list[str]] = {}
    for name in settings:
        families.setdefault(name.partition(":")[0], []).append(name)
    found = [
        max(
            (
                Method(name, len(names), way, settings[name])
                for name in names
                for way in condition(name).deployments
            ),
            key=lambda method: method.deployed,
        )
        for names in families.values()
    ]
    students = [run for block in blocks for run in block.get("finished", [])]
    for name in dict.fromkeys(run["condition"] for run in students):
        runs = [run for run in students if run["condition"] == name]
        found += [
            Method(f"{name}, {FINISHED}", 1, way, runs)
            for way in ("predicted", "clone")
            if way in runs[0]["masks"]
        ]
    return sorted(found, key=lambda method: -method.deployed)


def table(*blocks: Block) -> Table:
    """All methods of a world."""
    rows = tuple(_row(method) for method in methods(*blocks))
    config = blocks[0]["config"]
    frames = format_frames(config["frames"])
    return Table(f"{config['env']}, {config['net']}, {frames} frames", HEADER, rows)


def _row(method: Method) -> tuple[str, ...]:
    forgetful = method.over_seeds(f"{method.way}-forgetful")
    invalid = 100 * float(np.mean(method.over_seeds(method.way, "invalid_share")))
    return (
        f"`{method.name.removesuffix(f', {FINISHED}')}`"
        + (f", {FINISHED}" if FINISHED in method.name else ""),
        str(method.tried),
        WAYS[method.way],
        spread(method.over_seeds(method.way)),
        f"{invalid:.1f} %",
        spread(forgetful) if forgetful else "–",
        spread(method.over_seeds("oracle")),
    )


def spread(values: Sequence[float]) -> str:
    """Mean, and the range of the seeds."""
    middle = f"{np.mean(values):.2f}"
    ends = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return (middle + ends).replace("-", MINUS)


def overview(worlds: Mapping[str, Sequence[Block]]) -> Table:
    """One row for each method, one column for each world: the mean return as it is deployed, and
    as a share of what `masked` returns there with the oracle's masks."""
    columns = {name: methods(*blocks) for name, blocks in worlds.items()}
    families = dict.fromkeys(m.family for column in columns.values() for m in column)
    best = {
        family: {name: _best(column, family) for name, column in columns.items()}
        for family in families
    }

    def standing(family: str) -> float:
        shares = [_share(columns[n], m) for n, m in best[family].items() if m is not None]
        return -float(np.mean(shares))

    rows = tuple(
        (
            f"`{family.partition(',')[0]}`" + (f", {FINISHED}" if FINISHED in family else ""),
            *(_cell(columns[name], method) for name, method in best[family].items()),
        )
        for family in sorted(families, key=standing)
    )
    return Table("", ("method", *(WORLDS[name] for name in worlds)), rows)


def _best(column: Sequence[Method], family: str) -> Method | None:
    return next((method for method in column if method.family == family), None)


def _share(column: Sequence[Method], method: Method) -> float:
    """Of the return that `masked` has with the oracle's masks."""
    masked = next(m for m in column if m.name == "masked")
    return method.deployed / float(np.mean(masked.over_seeds("oracle")))


def _cell(column: Sequence[Method], method: Method | None) -> str:
    if method is None:
        return "–"
    shown = f"{method.deployed:.2f} ({100 * _share(column, method):.0f} %), {WAYS[method.way]}"
    return shown.replace("-", MINUS)


def draw(worlds: Mapping[str, Sequence[Block]], path: Path) -> None:
    """A panel for each world: every method's return as it is deployed, a dot for each seed; the
    line is `masked` with the oracle's masks."""
    columns = {name: methods(*blocks) for name, blocks in worlds.items()}
    across = 3
    down = -(-len(columns) // across)
    size = (3.6 * across, down * (1.0 + 0.15 * max(map(len, columns.values()))))
    with style.figure(path, nrows=down, ncols=across, squeeze=False, figsize=size) as (fig, axes):
        for ax, (name, column) in zip(axes.flat, columns.items(), strict=False):
            _panel(ax, column)
            ax.set_title(WORLDS[name])
        for ax in axes.flat[len(columns) :]:
            ax.set_axis_off()
        handles = [
            style.plt.Line2D([], [], marker=".", ls="", color=colour, label=WAYS[way])
            for way, colour in style.MASK_COLOURS.items()
        ]
        fig.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _panel(ax: Any, column: Sequence[Method]) -> None:
    for place, method in enumerate(column):
        values = method.over_seeds(method.way)
        ax.plot(values, [place] * len(values), ".", color=style.MASK_COLOURS[method.way])
    masked = next(m for m in column if m.name == "masked")
    ax.axvline(float(np.mean(masked.over_seeds("oracle"))), color=style.GREY, lw=1)
    ax.set_yticks(range(len(column)), [method.name for method in column], fontsize=6)
    ax.invert_yaxis()
    ax.set_xlabel("return")
