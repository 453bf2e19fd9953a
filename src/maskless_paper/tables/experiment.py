"""What a table or figure is made of."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from maskless_paper.run import Result, Say
from maskless_paper.studies import Scale
from maskless_paper.tables.table import Table

Results = Mapping[str, Result]
"""The studies that there are, by name, in the order the experiment names them."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One table or figure: what it needs, and how it is made of that."""

    about: str
    paper: str
    """Where it is in the paper; empty: it is not."""
    studies: tuple[str, ...]
    tables: Callable[[Results], list[Table]]
    draw: Callable[[Results, Path], None] | None = None
    compute: Callable[[Scale, Say], dict[str, Result]] | None = None
    """What is computed without training, by name, in place of studies."""
