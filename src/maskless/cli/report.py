"""`maskless report`: one page about some runs."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from maskless.cli.common import OUT
from maskless.errors import require


@dataclasses.dataclass(frozen=True)
class Report:
    """Write one self-contained HTML page about runs: evaluation, curves, suppression, classifier.

    It reads what training, `maskless eval` and `maskless audit` left in the folders, and needs no
    network. The figures are also written, into figures/ beside the page.

    Example: maskless report runs/craftax-classic-gru-1

    Example: maskless report runs/a runs/b --out comparison/report.html
    """

    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN...")]]
    """Folders of runs or of whole trainings."""
    out: Path | None = None
    """The page; default report.html in the first folder."""

    def run(self) -> None:
        from maskless.report.training import write_report

        require(bool(self.runs), "Name at least one folder of a run or a training.")
        path = write_report(self.runs, self.out or self.runs[0] / "report.html")
        OUT.print(f"wrote {path}", soft_wrap=True)
