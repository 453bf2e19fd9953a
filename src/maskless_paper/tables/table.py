"""A table for the terminal, for a Markdown page and for JSON."""

import dataclasses
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table as RichTable

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
    """A mean with its range: 13.7 (13.2 to 14.1); a dash for what there is not."""
    if cell is None:
        return "–"
    mean, low, high = (f"{x:{form}}".replace("-", MINUS) for x in (cell.mean, cell.low, cell.high))
    return f"{mean} ({low} to {high})"


def percent(cell: Cell | None) -> str:
    """A share with its range: 62 % (50 to 75)."""
    if cell is None:
        return "–"
    mean, low, high = (f"{100 * x:.0f}" for x in (cell.mean, cell.low, cell.high))
    return f"{mean} % ({low} to {high})".replace("-", MINUS)


def percent_of_mean(cell: Cell | None, digits: int = 0) -> str:
    """Without the range."""
    return "–" if cell is None else f"{100 * cell.mean:.{digits}f} %"


def doubt(one: Cell, other: Cell) -> str:
    """What follows a difference: whether the ranges overlap."""
    return "" if one.above(other) or other.above(one) else " (in doubt)"


def with_stand_in(result: Result, *notes: str) -> tuple[str, ...]:
    """The notes of a table; the first says what was trained in place of the study, if so."""
    return (result["stands_in"], *notes) if result["stands_in"] else notes


RANGES = (
    "In brackets: from the lowest seed to the highest, each with its own 95 % interval over"
    " episodes where it has one."
)
