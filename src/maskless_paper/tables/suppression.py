"""RQ1: does an unmasked policy lose actions that it will need?"""

from pathlib import Path

import numpy as np

from maskless_paper import results
from maskless_paper.results import Cell, cell
from maskless_paper.run import Result
from maskless_paper.studies import TABLE_ONE
from maskless_paper.tables import drawing
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import RANGES, Table, text

HEADER = (
    *("action", "condition", "lowest π where valid", "below uniform", "at frames", "π at the end"),
    *("first valid: π / uniform", "frames to ½"),
)
NOTES = (
    RANGES,
    "π: mean probability at states where the action is valid, at least"
    f" {results.STATES} of them, under the policy that acted; uniform is 1 / number of actions."
    " below uniform: uniform / lowest. first valid: the probability when the action first became"
    " valid (the paper's suppression ratio). frames to ½: from then until π exceeded one half.",
)
RATES = ("condition", "valid actions, first tenth", "valid actions, last tenth")


def tables(found: Results) -> list[Table]:
    made = []
    for result in found.values():
        notes = (result["stands_in"], *NOTES) if result["stands_in"] else NOTES
        where = f"{results.environment(result)}, {results.millions(result['frames'])} frames"
        made.append(Table(f"{where}: rare actions", HEADER, _rows(result), notes))
        made.append(Table(f"{where}: how often a valid action is selected", RATES, _rates(result)))
    return made


def lowest_cell(
    result: Result, condition: str, action: str, until: float = float("inf")
) -> Cell | None:
    """The lowest probability at valid states of each seed."""
    found = [results.lowest(log, action, until) for log in results.logs(result, condition)]
    known = [low[0] for low in found if low is not None]
    return cell(known) if known else None


def _rows(result: Result) -> tuple[tuple[str, ...], ...]:
    rows = []
    uniform = 1 / len(result["action_names"])
    for action in result["watched"]:
        for name in results.conditions(result):
            seeds = results.logs(result, name)
            low = lowest_cell(result, name, action)
            places = [place for log in seeds if (place := results.lowest(log, action))]
            times = "–"
            if low is not None:
                times = f"{uniform / low.mean:,.1f} x" if low.mean > 0 else "∞"
            rows.append(
                (
                    action,
                    f"`{name}`",
                    text(low, ".2g"),
                    times,
                    results.millions(float(np.mean([place[1] for place in places])))
                    if places
                    else "–",
                    text(results.late_cell(result, name, "probability_valid", action), ".2g"),
                    text(_history(seeds, action, "suppression_ratio"), ".2g"),
                    _frames(_history(seeds, action, "frames_to_half")),
                )
            )
    return tuple(rows)


def _history(seeds: list[Result], action: str, name: str) -> Cell | None:
    known = [x for log in seeds if (x := log["history"][action][name]) is not None]
    return cell(known) if known else None


def _frames(found: Cell | None) -> str:
    return "not yet" if found is None else results.millions(found.mean)


def _rates(result: Result) -> tuple[tuple[str, ...], ...]:
    rows = []
    for name in results.conditions(result):
        early = [results.early(log, "valid_rate") for log in results.logs(result, name)]
        ends = (cell(early), results.late_cell(result, name, "valid_rate"))
        rows.append((f"`{name}`", *(text(found, ".3f") for found in ends)))
    return tuple(rows)


def draw(found: Results, path: Path) -> None:
    panels = []
    for result in found.values():
        action = result["watched"][0]
        where = results.environment(result)
        panels.append(
            Panel(
                result,
                "probability_valid",
                "probability where valid",
                action,
                logarithmic=True,
                title=f"{action}, {where}",
            )
        )
        panels.append(Panel(result, "valid_rate", "share of valid actions", title=where))
    drawing.draw_panels(panels, path)


EXPERIMENT = Experiment(
    about="suppression of rare actions: descend in Craftax, open_door in Corridor-R5",
    paper="RQ1, Figure 2",
    studies=TABLE_ONE,
    tables=tables,
    draw=draw,
)
