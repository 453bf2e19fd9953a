"""Appendix: the weight lambda of the classification loss, under masks and the KL-balanced loss."""

from pathlib import Path

from maskless.conditions import condition
from maskless_paper import results
from maskless_paper.tables import sweep
from maskless_paper.tables.experiment import Experiment, Results


def draw(studies: Results, path: Path) -> None:
    """The returns under oracle and predicted masks."""
    result = studies["lambda"]
    lines: dict[str, dict[float, results.Cell]] = {"oracle masks": {}, "predicted masks": {}}
    for name in results.conditions(result):
        for masks, line in (("oracle", "oracle masks"), ("predicted", "predicted masks")):
            cell = results.returns(result, name, masks)
            if cell is not None:
                lines[line][condition(name).strength] = cell
    sweep.draw_points({results.setting(result): lines}, path, "λ", "return")


EXPERIMENT = Experiment(
    about="the weight of the classification loss",
    paper="Appendix, coefficient sweep",
    studies=("lambda",),
    tables=sweep.sweep_tables("lambda", "λ of the KL-balanced loss"),
    draw=draw,
)
