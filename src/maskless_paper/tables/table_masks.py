"""Table 1: the return under oracle, predicted and no masks."""

from pathlib import Path

from maskless.conditions import condition
from maskless_paper import results
from maskless_paper.claims import paper
from maskless_paper.run import Result
from maskless_paper.studies import TABLE_ONE
from maskless_paper.tables import drawing
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import MINUS, RANGES, Table, percent, text

HEADER = (
    *("condition", "frames", "oracle masks", "predicted masks", "no masks", "kept when predicted"),
    *("untrained head", "paper: oracle, predicted"),
)
NOTES = (
    RANGES,
    "kept: the return under predicted masks as a share of the same seed's under the oracle's."
    " A condition without a classifier has no predicted masks; what its untrained head would do is"
    " in a column of its own. The paper's numbers are at 1e9 frames (corridors: 2e8).",
)


def tables(found: Results) -> list[Table]:
    return [_table(result) for result in found.values()]


def _table(result: Result) -> Table:
    config = result["config"]
    theirs = paper.TABLE.get((config["env"], config["net"]), {})
    rows = []
    for frames in results.budgets(result):
        for name in results.conditions(result):
            learned = condition(name).strength > 0
            rows.append(
                (
                    f"`{name}`",
                    results.millions(frames),
                    text(results.returns(result, name, "oracle", frames)),
                    text(results.returns(result, name, "predicted", frames)) if learned else "–",
                    text(results.returns(result, name, "none", frames)),
                    percent(results.kept(result, name, frames=frames)) if learned else "–",
                    text(results.returns(result, name, "untrained", frames)),
                    ", ".join(f"{x:.1f}" for x in theirs.get(name, ())).replace("-", MINUS) or "–",
                )
            )
    title = f"{results.environment(result)}: return with and without the oracle"
    notes = (result["stands_in"], *NOTES) if result["stands_in"] else NOTES
    return Table(title, HEADER, tuple(rows), notes)


def draw(found: Results, path: Path) -> None:
    drawing.draw_returns(list(found.values()), path)


EXPERIMENT = Experiment(
    about="the return under oracle, predicted and no masks",
    paper="Table 1",
    studies=(*TABLE_ONE, "classic-loop", "corridor-loop", "full-loop"),
    tables=tables,
    draw=draw,
)
