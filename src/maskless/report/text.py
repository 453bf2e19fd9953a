"""Numbers and tables as text, for the terminal and for the page."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from maskless.files import printable

_LONGEST_CELL = 2000


def percent(share: float, digits: int = 1, *, zero: str = "·") -> str:
    """A share as % without the sign. Tells a true zero (·) from a rounded one; a dash stands for
    what is not known (NaN)."""
    if share == 0:
        return zero
    if share != share:
        return "–"
    least = 10.0**-digits
    return f"<{least:g}" if abs(100 * share) < least else f"{100 * share:.{digits}f}"


def number(value: float | None, form: str) -> str:
    """A number in this format; a dash for what is not known (None or NaN)."""
    return "–" if value is None or value != value else form.format(value)


def mean_known(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known (neither None nor NaN); None when none is."""
    known = [value for value in values if value is not None and value == value]
    return float(np.mean(known)) if known else None


def console_table(
    title: str,
    header: Sequence[str | Text],
    rows: Iterable[Sequence[str | Text]],
    *,
    caption: str = "",
    text_columns: int = 1,
) -> Table:
    """A table for the terminal, narrow enough for 80 columns where its cells are. The first
    `text_columns` columns are text, of which the first is folded where there is no room; the others
    are numbers, which are never cut (`fitting` says which there is room for). A row whose first
    cell is empty belongs to the one above. Texts are shown as they are, without markup."""
    table = Table(
        title=_plain(title),
        caption=_plain(caption) if caption else None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for number, column in enumerate(header):
        justify: Any = "left" if number < text_columns else "right"
        table.add_column(_plain(column), justify=justify, no_wrap=number > 0, overflow="fold")
    rows = list(rows)
    in_groups = any(not row[0] for row in rows)
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        is_last = following is None or bool(following[0])
        table.add_row(*map(_plain, row), end_section=in_groups and is_last)
    return table


def fitting(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    droppable: Sequence[int],
    *,
    least: int = 12,
) -> list[int]:
    """The columns of a table that there is room for and that say something. `droppable`: which may
    go, in this order. `least`: how far the first column may be folded."""

    def needed(column: int) -> int:
        cells = [*header[column].split("\n"), *(row[column] for row in rows)]
        widest = max(map(len, cells))
        return 2 + (min(widest, least) if column == 0 else widest)

    columns = [n for n in range(len(header)) if any(row[n] for row in rows)]
    for column in droppable:
        if sum(map(needed, columns)) <= width:
            break
        if column in columns:
            columns.remove(column)
    return columns


def _plain(cell: str | Text) -> Text:
    """Names of actions may hold what a terminal would obey; and a column has an end."""
    return cell if isinstance(cell, Text) else Text(printable(cell, _LONGEST_CELL))


def recorded(picture: Any) -> Console:
    """A console that was shown a picture (anything `rich` prints), for `export_text` or
    `export_html`."""
    console = Console(file=io.StringIO(), width=100, record=True, highlight=False)
    console.print(picture)
    return console
