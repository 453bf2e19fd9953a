"""A table for the terminal, for a Markdown page and for JSON."""

import dataclasses
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table as RichTable

from maskless_paper import results
from maskless_paper.results import Cell
from maskless_paper.study_files import Result

MINUS = "\N{MINUS SIGN}"


@dataclasses.dataclass(frozen=True)
class Table:
    """Texts in rows under a header, and what a reader must know."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def markdown(self) -> str:
        """The table alone, without title and notes."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def page(self) -> str:
        """With title and notes."""
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.title}\n\n{self.markdown()}\n{notes}"

    def rich(self) -> RichTable:
        shown = RichTable(
            title=escape(self.title),
            caption=escape("\n".join(self.notes)),
            title_justify="left",
            caption_justify="left",
            box=SIMPLE_HEAD,
        )
        for number, column in enumerate(self.header):
            shown.add_column(escape(column), justify="left" if number < 2 else "right")
        for row in self.rows:
            shown.add_row(*(escape(text.replace("`", "")) for text in row))
        return shown


def text(cell: Cell | None, form: str = ".1f") -> str:
    """The middle with its range: 13.7 (13.2 to 14.1); a dash for what there is not."""
    if cell is None:
        return "–"
    ends = cell.middle, cell.low, cell.high
    middle, low, high = (f"{x:{form}}".replace("-", MINUS) for x in ends)
    return middle if low == middle == high else f"{middle} ({low} to {high})"


def percent(cell: Cell | None) -> str:
    """A share with its range: 62 % (50 to 75)."""
    if cell is None:
        return "–"
    middle, low, high = (f"{100 * x:.0f}" for x in (cell.middle, cell.low, cell.high))
    shown = f"{middle} %" if low == middle == high else f"{middle} % ({low} to {high})"
    return shown.replace("-", MINUS)


def percent_of_mean(cell: Cell | None, digits: int = 0) -> str:
    """Without the range."""
    return "–" if cell is None else f"{100 * cell.middle:.{digits}f} %"


def doubt(one: Cell, other: Cell) -> str:
    """What follows a difference: whether the ranges overlap, or are of too few seeds to tell."""
    return "" if one.above(other) or other.above(one) else " (in doubt)"


def notes_of(result: Result, *notes: str, frames: int | None = None) -> tuple[str, ...]:
    """The notes of a table of one study, at its end or after so many frames: what its brackets are,
    in what it is smaller than the paper's, or another, and `notes`."""
    differs = results.stand_in(result, frames)
    own = (f"Not as in the paper: {differs}.",) if differs else ()
    return (ranges(result), *notes, *own)


def ranges(result: Result) -> str:
    """What the brackets in a table of this study are."""
    seeds = result["config"]["seeds"]
    if seeds == 1:
        return (
            "One seed: in brackets its own 95 % interval over episodes, which does not say what"
            " another seed would give."
        )
    if seeds < results.SEEDS:
        return (
            "Two seeds: in brackets from the lowest to the highest, each with its own 95 %"
            " interval over episodes where it has one. No order is claimed from two seeds."
        )
    return (
        f"{seeds} seeds: their interquartile mean, in brackets its 95 % bootstrap interval over"
        " seeds and episodes."
    )


LOWEST = (
    f"lowest π: a mean over at least {results.HEADLINE_STATES} states in a row, or over all that"
    " there were; over states: how many, of each seed."
)


def lowest_and_states(result: Result, condition: str, action: str) -> tuple[str, str]:
    """The lowest probability of an action where it is valid, and over how many states."""
    points = results.lowest_points(result, condition, action, states=results.HEADLINE_STATES)
    low = results.cell(point.probability for point in points)
    return text(low, ".2g"), ", ".join(f"{point.states:,}" for point in points) or "–"
