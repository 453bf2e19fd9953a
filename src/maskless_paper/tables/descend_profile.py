"""Appendix: the fall and recovery of descend, with and without a classifier."""

from pathlib import Path

from maskless_paper import results
from maskless_paper.tables import drawing
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import RANGES, Table, text, with_stand_in

ACTION = "descend"
HEADER = (
    *("condition", "lowest π where valid", "π where valid, at the end"),
    *("raw π where invalid, at the end", "correlation at φ, at the end"),
)


def tables(studies: Results) -> list[Table]:
    result = studies["predictor"]
    rows = []
    for name in results.conditions(result):
        metrics = ("probability_valid", "raw_probability_invalid", "feature_correlation")
        late = [results.final(result, name, metric, ACTION) for metric in metrics]
        low = results.lowest(result, name, ACTION)
        rows.append((f"`{name}`", *(text(cell, ".2g") for cell in (low, *late))))
    notes = with_stand_in(result, RANGES)
    return [Table(f"descend: {results.setting_and_frames(result)}", HEADER, tuple(rows), notes)]


def draw(studies: Results, path: Path) -> None:
    result = studies["predictor"]
    panels = [
        Panel(result, metric, label, ACTION, logarithmic=metric != "feature_correlation")
        for metric, label in (
            ("probability_valid", "probability where valid"),
            ("raw_probability_invalid", "raw probability where invalid"),
            ("feature_correlation", "correlation at φ"),
        )
    ]
    drawing.draw_panels(panels, path, columns=3)


EXPERIMENT = Experiment(
    about="descend: probability where valid and where not, and its features",
    paper="Appendix, suppression and recovery of descend",
    studies=("predictor",),
    tables=tables,
    draw=draw,
)
