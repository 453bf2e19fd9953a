"""The paper's own measure: what a policy gave an action when it was valid for the first time."""

from pathlib import Path

import numpy as np

from maskless.conditions import condition
from maskless.report import style
from maskless_paper import results
from maskless_paper.results import FirstOccurrence
from maskless_paper.studies import PAPER_CONDITIONS, TABLE_ONE
from maskless_paper.study_files import Result
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import Table

EXACT = "control-exact-full"
NOTE = (
    "Probability at the first states where the action is valid, divided by uniform (the paper's"
    " suppression ratio, L1057-L1065), of every seed; in brackets over how many states at most,"
    " and after how many frames. Often it is a single state: the pattern over runs counts, not one"
    " number. Under a mask, uniform among the valid actions is above 1. –: never valid."
)
MARKS = {"craftax": "o", "craftax-classic": "s", "corridor-r5": "^"}


def tables(studies: Results) -> list[Table]:
    """One row for each action that is logged, in each game and network."""
    shown = {name: one for name, one in studies.items() if name in TABLE_ONE}
    header = ("action", *(f"`{name}`" for name in PAPER_CONDITIONS), "`masked`, exact masks")
    rows: list[tuple[str, ...]] = []
    for result in shown.values():
        exact = studies.get(EXACT) if results.world(result) == "full" else None
        rows.append((f"**{results.setting_and_frames(result)}**", *[""] * (len(header) - 1)))
        for action in result["watched"]:
            cells = [_cell(result, name, action) for name in PAPER_CONDITIONS]
            rows.append((action, *cells, _cell(exact, "masked", action)))
    return [Table("First occurrence", header, tuple(rows), (NOTE,))]


def first_occurrences(result: Result, name: str, action: str) -> list[FirstOccurrence]:
    """Of the seeds in which the action was ever valid."""
    found = [results.first_occurrence(log, action) for log in results.logs(result, name)]
    return [one for one in found if one is not None]


def _cell(result: Result | None, condition: str, action: str) -> str:
    found = first_occurrences(result, condition, action) if result is not None else []
    return (
        ", ".join(
            f"{_ratio(one.ratio)} ({one.states:,}; {results.format_frames(one.frames)})"
            for one in found
        )
        or "–"
    )


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.095 else f"{ratio:.1g}".replace("e-0", "e-")


def draw(studies: Results, path: Path) -> None:
    """Every run that acts under the oracle's masks, or under none: the later an action is met, the
    deeper."""
    with style.figure(path, figsize=(5.2, 3.4)) as (fig, axis):
        labels: dict[str, str] = {}
        for result in studies.values():
            mark = MARKS.get(result["config"]["env"], "o")
            for name in results.conditions(result):
                if condition(name).predicted_share > 0:
                    continue  # in part it acts under the masks of an untrained classifier
                masked = results.training_masks(name) == "oracle"
                colour = style.BLUE if masked else style.VERMILION
                kind = "under masks" if masked else "without masks"
                for action in results.logs(result, name)[0]["history"]:
                    for one in first_occurrences(result, name, action):
                        label = None if kind in labels else labels.setdefault(kind, kind)
                        height = max(one.ratio, 1e-8)
                        how = {"color": colour, "marker": mark, "ms": 4, "alpha": 0.6}
                        axis.plot(one.frames, height, linestyle="none", label=label, **how)
        axis.axhline(1.0, color=style.GREY, linestyle=(0, (5, 2)), linewidth=0.9)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_yticks(10.0 ** np.arange(-8, 2))
        axis.set_xlabel("frames until the action is valid for the first time")
        axis.set_ylabel("probability there / uniform")
        fig.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)


EXPERIMENT = Experiment(
    about="the probability of an action when it is valid for the first time in training",
    paper="Appendix, measurement of suppression",
    studies=(*TABLE_ONE, EXACT, "classic-loop", "corridor-loop", "full-loop", "predictor"),
    tables=tables,
    draw=draw,
)
