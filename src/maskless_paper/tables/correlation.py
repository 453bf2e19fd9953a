"""RQ2: do the features tell states where an action is valid from states where it is not?"""

from pathlib import Path

from maskless_paper import results
from maskless_paper.studies import TABLE_ONE
from maskless_paper.study_files import Result
from maskless_paper.tables import drawing
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import Table, notes_of, text

HEADER = (
    *("action", "condition", "correlation at φ", "at the actor's last layer"),
    *("cosine with bias", "recall of the classifier"),
)
NOTES = (
    "Means over the last tenth of training. correlation: Pearson, over dimensions, of the mean"
    " features of valid and of invalid states (the paper's). cosine: mean over all pairs of a valid"
    " and an invalid state, with a 1 appended, as a policy head with a bias sees them.",
)
_METRICS = ("feature_correlation", "hidden_correlation", "feature_cosine_with_bias")


def tables(studies: Results) -> list[Table]:
    return [_table(result) for result in studies.values()]


def _table(result: Result) -> Table:
    rows = []
    for action in result["watched"]:
        for name in results.conditions(result):
            cells = [results.final(result, name, metric, action) for metric in _METRICS]
            recall = results.final(result, name, "classifier_recall", action)
            learned = results.has_classifier(name)
            rows.append(
                (
                    action,
                    f"`{name}`",
                    *(text(cell, ".2f") for cell in cells),
                    text(recall, ".2f") if learned else "–",
                )
            )
    for name in results.conditions(result):
        mean = results.final(result, name, "mean_feature_correlation")
        rows.append(("all actions", f"`{name}`", text(mean, ".2f"), "", "", ""))
    title = f"{results.setting_and_frames(result)}: features"
    notes = notes_of(result, *NOTES)
    return Table(title, HEADER, tuple(rows), notes)


def draw(studies: Results, path: Path) -> None:
    panels = []
    for result in studies.values():
        where, action = results.setting(result), result["watched"][0]
        panels += [
            Panel(result, metric, label, action, title=f"{action}, {where}")
            for metric, label in (
                ("feature_correlation", "correlation at φ"),
                ("feature_cosine_with_bias", "cosine with bias"),
            )
        ]
    drawing.draw_panels(panels, path)


EXPERIMENT = Experiment(
    about="feature correlation between states where an action is valid and where it is not",
    paper="RQ2, Figure 3",
    studies=TABLE_ONE,
    tables=tables,
    draw=draw,
)
