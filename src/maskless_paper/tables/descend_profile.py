"""Appendix: the fall and recovery of descend, with and without a classifier."""

from pathlib import Path

from maskless_paper import results
from maskless_paper.tables import drawing
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import LOWEST, Table, lowest_and_states, notes_of, text

ACTION = "descend"
HEADER = (
    *("condition", "lowest π where valid", "over states", "π where valid, at the end"),
    *("raw π where invalid, at the end", "correlation at φ, at the end"),
)


def tables(studies: Results) -> list[Table]:
    result = studies["predictor"]
    rows = []
    for name in results.conditions(result):
        metrics = ("probability_valid", "raw_probability_invalid", "feature_correlation")
        late = [results.final(result, name, metric, ACTION) for metric in metrics]
        lowest = lowest_and_states(result, name, ACTION)
        rows.append((f"`{name}`", *lowest, *(text(cell, ".2g") for cell in late)))
    notes = notes_of(result, LOWEST)
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
