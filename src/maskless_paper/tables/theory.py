"""The paper's theory, statement by statement, as `maskless theory` checks it."""

import time
from collections.abc import Callable
from pathlib import Path

from maskless.provenance import provenance
from maskless_paper.plans import Scale
from maskless_paper.study_files import FORMAT, Result
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import Table
from maskless_paper.theory import Size, check_all
from maskless_paper.theory.report import draw_theory

MDPS: dict[Scale, int] = {"smoke": 10, "cpu": 1000, "gpu": 1000, "paper": 1000}
"""Random MDPs for each statement."""


def compute(scale: Scale, say: Callable[[str], None]) -> dict[str, Result]:
    """All statements; half a minute on two cores."""
    began = time.monotonic()
    findings = check_all(Size(mdps=MDPS[scale]), lambda done, what: None)
    say(f"theory: {len(findings)} statements checked.")
    about = {"format": FORMAT, "study": "theory", "scale": scale, "mdps": MDPS[scale]}
    seconds = round(time.monotonic() - began, 1)
    statements = {name: finding.to_json() for name, finding in findings.items()}
    return {"theory": about | provenance() | {"seconds": seconds, "statements": statements}}


def tables(studies: Results) -> list[Table]:
    rows = [
        (statement["claim"], statement["paper"], statement["verdict"], statement["evidence"])
        for statement in studies["theory"]["statements"].values()
    ]
    cells = tuple(tuple(text.replace("|", "\\|") for text in row) for row in rows)
    return [Table("Theory", ("statement", "in the paper", "verdict", "evidence"), cells)]


def draw(studies: Results, path: Path) -> None:
    """The figures of `maskless theory`, in a folder of their own."""
    path.mkdir(parents=True, exist_ok=True)
    draw_theory(studies["theory"]["statements"], path)


EXPERIMENT = Experiment(
    about="every statement of the theory, as printed and as corrected",
    paper="Sections 4 and A",
    studies=(),
    tables=tables,
    draw=draw,
    compute=compute,
)
