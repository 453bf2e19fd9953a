"""Table 1: the return under oracle, predicted and no masks."""

from pathlib import Path

from maskless_paper import reported, results
from maskless_paper.studies import TABLE_ONE
from maskless_paper.study_files import Result
from maskless_paper.tables import drawing
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import MINUS, Table, notes_of, percent, text

HEADER = (
    *("condition", "frames", "oracle masks", "predicted masks", "no masks", "kept when predicted"),
    *("untrained head", "paper: oracle, predicted"),
)
NOTES = (
    "kept: the return under predicted masks as a share of the same seed's under the oracle's."
    " A condition without a classifier has no predicted masks; what its untrained head would do is"
    " in a column of its own. The paper's numbers are at 1e9 frames (corridors: 2e8).",
)


def tables(studies: Results) -> list[Table]:
    return [_table(result) for result in studies.values()]


def _table(result: Result) -> Table:
    config = result["config"]
    in_paper = reported.TABLE.get((config["env"], config["net"]), {})
    rows = []
    for frames in results.budgets(result):
        for name in results.conditions(result):
            learned = results.has_classifier(name)
            rows.append(
                (
                    f"`{name}`",
                    results.format_frames(frames),
                    text(results.returns(result, name, "oracle", frames)),
                    text(results.returns(result, name, "predicted", frames)) if learned else "–",
                    text(results.returns(result, name, "none", frames)),
                    percent(results.retained(result, name, frames=frames)) if learned else "–",
                    text(results.returns(result, name, "untrained", frames)),
                    ", ".join(f"{x:.1f}" for x in in_paper.get(name, ())).replace("-", MINUS)
                    or "–",
                )
            )
    title = f"{results.setting(result)}: return with and without the oracle"
    notes = notes_of(result, *NOTES)
    return Table(title, HEADER, tuple(rows), notes)


def draw(studies: Results, path: Path) -> None:
    drawing.draw_returns(list(studies.values()), path)


EXPERIMENT = Experiment(
    about="the return under oracle, predicted and no masks",
    paper="Table 1",
    studies=(*TABLE_ONE, "classic-loop", "corridor-loop", "full-loop"),
    tables=tables,
    draw=draw,
)
