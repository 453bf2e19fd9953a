"""Numbers and tables as text, for the terminal and for the page."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def percent(share: float, digits: int = 1) -> str:
    """A share as % without the sign. Tells a true zero (·) from a rounded one; a dash stands for
    what is not known (NaN)."""
    if share == 0:
        return "·"
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
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str = "",
    text_columns: int = 1,
) -> Table:
    """A table for the terminal, narrow enough for 80 columns where its cells are. The first
    `text_columns` columns are text, the others numbers. A row whose first cell is empty belongs to
    the one above."""
    table = Table(
        title=title,
        caption=caption or None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for number, column in enumerate(header):
        table.add_column(column, justify="left" if number < text_columns else "right", no_wrap=True)
    rows = list(rows)
    in_groups = any(row[0] == "" for row in rows)
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        is_last = following is None or following[0] != ""
        table.add_row(*row, end_section=in_groups and is_last)
    return table


def recorded(picture: Any) -> Console:
    """A console that was shown a picture (anything `rich` prints), for `export_text` or
    `export_html`."""
    console = Console(file=io.StringIO(), width=100, record=True, highlight=False)
    console.print(picture)
    return console
