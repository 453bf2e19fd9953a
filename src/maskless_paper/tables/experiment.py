"""`Experiment`: one table or figure of the paper, or of ours."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from maskless_paper.plans import Scale
from maskless_paper.study_files import Result
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
    compute: Callable[[Scale, Callable[[str], None]], dict[str, Result]] | None = None
    """In place of studies: results that need no training, by name. The second argument prints a
    line of progress."""

    def select(self, name: str, studies: Results) -> Results:
        """Those of the studies that this experiment, of this name, is made of."""
        names = (*self.studies, name) if self.compute is not None else self.studies
        return {study: studies[study] for study in names if study in studies}
