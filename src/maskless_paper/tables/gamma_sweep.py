"""The focal parameter gamma, in both losses: promised by the paper, and empty there."""

from pathlib import Path

from maskless.conditions import condition
from maskless_paper import results
from maskless_paper.tables import sweep
from maskless_paper.tables.experiment import Experiment, Results


def draw(studies: Results, path: Path) -> None:
    """What is kept under predicted masks."""
    result = studies["gamma"]
    lines: dict[str, dict[float, results.Cell]] = {}
    for name in results.conditions(result):
        cell = results.retained(result, name)
        if cell is not None:
            lines.setdefault(name.partition(":")[0], {})[condition(name).gamma] = cell
    sweep.draw_points(
        {results.setting(result): lines}, path, "γ", "return kept under predicted masks"
    )


EXPERIMENT = Experiment(
    about="the focal parameter; 0 is cross-entropy",
    paper="announced, not there",
    studies=("gamma",),
    tables=sweep.sweep_tables("gamma", "γ of the focal and the KL-balanced loss"),
    draw=draw,
)
