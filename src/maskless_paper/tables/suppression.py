"""RQ1: does an unmasked policy lose actions that it will need?"""

from pathlib import Path

import numpy as np

from maskless_paper import results
from maskless_paper.studies import TABLE_ONE
from maskless_paper.study_files import Result
from maskless_paper.tables import drawing
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import LOWEST, Table, lowest_and_states, notes_of, text

HEADER = (
    *("action", "condition", "lowest π where valid", "over states", "below uniform", "at frames"),
    *("π at the end", "frames to ½"),
)
NOTES = (
    "π: mean probability at states where the action is valid, under the policy that acted; uniform"
    " is 1 / number of actions. below uniform: uniform / lowest. frames to ½: from when the action"
    " first became valid until π exceeded one half.",
    LOWEST,
)
RATES = ("condition", "valid actions, first tenth", "valid actions, last tenth")


def tables(studies: Results) -> list[Table]:
    made = []
    for result in studies.values():
        where, notes = results.setting_and_frames(result), notes_of(result, *NOTES)
        made.append(Table(f"{where}: rare actions", HEADER, _rows(result), notes))
        made.append(Table(f"{where}: how often a valid action is selected", RATES, _rates(result)))
    return made


def _rows(result: Result) -> tuple[tuple[str, ...], ...]:
    return tuple(
        _row(result, action, name)
        for action in result["watched"]
        for name in results.conditions(result)
    )


def _row(result: Result, action: str, name: str) -> tuple[str, ...]:
    points = results.lowest_points(result, name, action, states=results.HEADLINE_STATES)
    low = results.cell(point.probability for point in points)
    below = "–"
    if low is not None:
        below = f"{1 / len(result['action_names']) / low.mean:,.1f} x" if low.mean > 0 else "∞"
    frames = [point.frames for point in points]
    to_half = results.cell(
        log["history"][action]["frames_to_half"] for log in results.logs(result, name)
    )
    return (
        action,
        f"`{name}`",
        *lowest_and_states(result, name, action),
        below,
        results.format_frames(float(np.mean(frames))) if frames else "–",
        text(results.final(result, name, "probability_valid", action), ".2g"),
        "not yet" if to_half is None else results.format_frames(to_half.mean),
    )


def _rates(result: Result) -> tuple[tuple[str, ...], ...]:
    rows = []
    for name in results.conditions(result):
        ends = (measure(result, name, "valid_rate") for measure in (results.initial, results.final))
        rows.append((f"`{name}`", *(text(cell, ".3f") for cell in ends)))
    return tuple(rows)


def draw(studies: Results, path: Path) -> None:
    panels = []
    for result in studies.values():
        action, where = result["watched"][0], results.setting(result)
        label, title = "probability where valid", f"{action}, {where}"
        panels += [
            Panel(result, "probability_valid", label, action, logarithmic=True, title=title),
            Panel(result, "valid_rate", "share of valid actions", title=where),
        ]
    drawing.draw_panels(panels, path)


EXPERIMENT = Experiment(
    about="suppression of rare actions: descend in Craftax, open_door in Corridor-R5",
    paper="RQ1, Figure 2",
    studies=TABLE_ONE,
    tables=tables,
    draw=draw,
)
