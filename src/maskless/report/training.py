"""`maskless report`: all that is known about some runs, on one page.

    write_report([Path("runs/X")], Path("runs/X/report.html"))

Reads what is in the run folders (config.json, metrics.jsonl, evaluation.json, audit.json) and
computes nothing anew.
"""

import dataclasses
import json
import os.path
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maskless.conditions import condition
from maskless.diagnostics.suppression_warning import sentences, suppressed_actions
from maskless.evaluation.runs import find_runs
from maskless.evaluation.summary import Evaluation, RunEvaluation, read_evaluation
from maskless.files import output_folder
from maskless.report import figures
from maskless.report.evaluation import (
    TEXT_COLUMNS,
    draw_evaluation,
    evaluation_table,
    headlines,
)
from maskless.report.page import Page
from maskless.training.log import read_metrics

_CAPTIONS = {
    "returns": "Mean return of the episodes that finished while training.",
    "valid_rate": "Steps that selected a valid action while training.",
    "probabilities": "Rare actions: their probability where they are valid (under the policy that"
    " acted) and where they are not (under the raw softmax).",
    "correlation": "Rare actions: how similar the features of states in which they are valid are to"
    " those of states in which they are not.",
    "classifier": "The validity head at the end of training, action by action.",
}

_AUDITED = {
    "audit_errors": "Where the policy acts: how often each mask entry is wrong.",
    "audit_costs": "Return lost to the errors about each action, ± 2 standard errors.",
}


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """A run, as its folder tells it."""

    folder: Path
    training: str
    label: str
    """The condition, with the training's name where several have the same condition."""
    about: dict[str, Any]
    rows: list[dict[str, Any]]
    evaluation: Evaluation | None

    @property
    def curves(self) -> figures.Run:
        trained = condition(self.about["condition_name"]).strength > 0
        return figures.Run(self.label, self.rows, self.about["action_names"], classifier=trained)

    @property
    def labelled_evaluation(self) -> list[RunEvaluation]:
        if self.evaluation is None:
            return []
        return [dataclasses.replace(run, condition=self.label) for run in self.evaluation.runs]


def write_report(folders: Sequence[Path], path: Path) -> Path:
    """Writes the page, and its figures into figures/ beside it."""
    worlds = _by_environment(_read(folders))
    output_folder(path.parent)
    runs = [run for some in worlds.values() for run in some]
    names = " and ".join(worlds)
    page = Page(f"maskless: {names}", _subtitle(runs))
    for env, some in worlds.items():
        alone = len(worlds) == 1
        place = path.parent / "figures" / ("" if alone else env.replace(":", "-"))
        _add_runs(page, some, output_folder(place), prefix="" if alone else f"{env}: ", at=path)
    return page.write(path)


def _add_runs(page: Page, runs: list[RunFolder], place: Path, *, prefix: str, at: Path) -> None:
    """All sections about runs in one environment."""
    drawn = {path.stem: path.with_suffix(".svg") for path in _draw(runs, place)}

    def show(*names: str) -> None:
        page.figures([(drawn[name], _CAPTIONS[name]) for name in names if name in drawn])

    page.heading(f"{prefix}Under oracle, predicted and no masks")
    _add_evaluation(page, runs, place)
    page.heading(f"{prefix}Curves")
    show("returns", "valid_rate")
    page.heading(f"{prefix}Suppression")
    _add_suppression(page, runs)
    show("probabilities")
    page.heading(f"{prefix}Feature correlation")
    show("correlation")
    if "classifier" in drawn:
        page.heading(f"{prefix}Classifier")
        show("classifier")
        _add_audits(page, runs, at)
    page.heading(f"{prefix}Configuration")
    _add_configuration(page, runs)


def _read(folders: Sequence[Path]) -> list[RunFolder]:
    found = []
    for folder in folders:
        for place, name, _ in find_runs(folder):
            about = json.loads((place / "config.json").read_text())
            training = place.resolve().parent.parent.name
            rows = read_metrics(place)
            found.append(RunFolder(place, training, name, about, rows, read_evaluation(place)))
    trainings: dict[str, set[str]] = {}
    for run in found:
        trainings.setdefault(run.label, set()).add(run.training)
    return [
        dataclasses.replace(run, label=f"{run.training} {run.label}")
        if len(trainings[run.label]) > 1
        else run
        for run in found
    ]


def _by_environment(runs: list[RunFolder]) -> dict[str, list[RunFolder]]:
    worlds: dict[str, list[RunFolder]] = {}
    for run in runs:
        worlds.setdefault(run.about["config"]["env"], []).append(run)
    return worlds


def _subtitle(runs: list[RunFolder]) -> str:
    frames = max((run.rows[-1]["frames"] for run in runs if run.rows), default=0)
    nets = ", ".join(dict.fromkeys(run.about["config"]["net"] for run in runs))
    labels = ", ".join(dict.fromkeys(run.label for run in runs))
    return f"{len(runs)} runs ({labels}), {nets}, {frames:,} frames each."


def _draw(runs: list[RunFolder], place: Path) -> list[Path]:
    return figures.draw_all([run.curves for run in runs], place)


def _add_evaluation(page: Page, runs: list[RunFolder], place: Path) -> None:
    known = [run for run in runs if run.evaluation is not None]
    missing = sorted({run.label for run in runs} - {run.label for run in known})
    if missing:
        page.text(f"Not evaluated yet: {', '.join(missing)}. Run `maskless eval RUN` first.")
    if not known:
        return
    judged = [one for run in known for one in run.labelled_evaluation]
    evaluations = [run.evaluation for run in known if run.evaluation is not None]
    page.bullets(headlines(judged))
    table = evaluation_table(judged, evaluations[0].achievement_names)
    page.table(table.header, table.rows, text_columns=TEXT_COLUMNS)
    draw_evaluation(judged, place / "evaluation")
    least = min(one.settings["episodes"] for one in evaluations)
    page.figures([(place / "evaluation.svg", f"{least:,} complete episodes or more for each bar.")])
    page.bullets(table.notes, dim=True)


def _add_suppression(page: Page, runs: list[RunFolder]) -> None:
    """Sentences about runs that acted without masks, and the paper's measures of rare actions."""
    measured = [run for run in runs if any("probability_valid" in row for row in run.rows)]
    if not measured:
        page.text("Nothing was measured: these runs were trained without diagnostics.")
        return
    free = [run for run in measured if condition(run.about["condition_name"]).masked == 0]
    for run in free:
        names = run.about["action_names"]
        lines = sentences(suppressed_actions(run.rows, names)) or [
            "no action is suppressed at the end."
        ]
        page.subheading(f"{run.label}, seed {run.about['seed']}")
        page.bullets(lines)
    if not free:
        page.text("All these runs acted under masks, where invalid tries cannot suppress anything.")
    header = ["action", "condition", "first valid at", "ln π then", "ratio", "π now", "frames to ½"]
    page.table(header, _suppression_rows(measured), text_columns=2)
    page.bullets(
        [
            "first valid at: frames until a state was met in which the action is valid.",
            "ln π then: the mean log-probability there, in that update, under the policy that"
            " acted; ratio: the same, compared with uniform.",
            "π now: the mean probability at valid states at the end of training.",
            "frames to ½: frames from then until the probability at valid states exceeded one"
            " half. Means over seeds; – = has not happened.",
        ],
        dim=True,
    )


_MEASURES = (
    ("first_valid_frames", "{:,.0f}"),
    ("first_valid_log_probability", "{:.2f}"),
    ("suppression_ratio", "{:.2g}"),
    ("probability_valid", "{:.2g}"),
    ("frames_to_half", "{:,.0f}"),
)


def _suppression_rows(runs: list[RunFolder]) -> list[list[str]]:
    names = list(runs[0].about["action_names"])
    rows = []
    for action in figures.tracked_actions([run.curves for run in runs]):
        at = names.index(action)
        for number, label in enumerate(dict.fromkeys(run.label for run in runs)):
            seeds = [run for run in runs if run.label == label]
            numbers = [_latest_mean(seeds, name, at) for name, _ in _MEASURES]
            texts = [
                "–" if value is None else form.format(value)
                for value, (_, form) in zip(numbers, _MEASURES, strict=True)
            ]
            rows.append(["" if number else action.replace("_", " "), label, *texts])
    return rows


def _latest_mean(seeds: list[RunFolder], metric: str, action: int) -> float | None:
    """The last known value of a metric, mean over those seeds that have one."""
    latest = []
    for run in seeds:
        values = [row[metric][action] for row in run.rows if row.get(metric) is not None]
        known = [value for value in values if value is not None]
        latest += known[-1:]
    return float(np.mean(latest)) if latest else None


def _add_audits(page: Page, runs: list[RunFolder], at: Path) -> None:
    """What `maskless audit` found, with links to its pages."""
    audited = [run for run in runs if (run.folder / "audit.json").exists()]
    if not audited:
        page.text("Not audited yet: `maskless audit RUN` compares the predicted masks with the"
                  " true ones where the policy acts.", dim=True)  # fmt: skip
        return
    page.subheading("Audit")
    for run in audited:
        found = json.loads((run.folder / "audit.json").read_text())
        page.text(f"{run.label}, seed {run.about['seed']}: {found['summary']}")
        drawn = {run.folder / "figures" / f"{name}.svg": text for name, text in _AUDITED.items()}
        page.figures([(path, text) for path, text in drawn.items() if path.exists()])
        target = (run.folder / "audit.html").resolve()
        address = os.path.relpath(target, at.resolve().parent)
        page.link("Its own page shows the worst states and more.", address)


def _add_configuration(page: Page, runs: list[RunFolder]) -> None:
    """What was trained with what, once for each training."""
    for training in dict.fromkeys(run.training for run in runs):
        mine = [run for run in runs if run.training == training]
        about = mine[0].about
        config = about["config"]
        page.subheading(training)
        seeds = sorted({run.about["seed"] for run in mine})
        plain = {name: value for name, value in config.items() if name != "ppo"}
        plain |= {
            "conditions": ", ".join(dict.fromkeys(run.about["condition_name"] for run in mine)),
            "seeds": ", ".join(map(str, seeds)),
            "commit": about.get("commit"),
            "device": about.get("device"),
            "versions": ", ".join(f"{name} {v}" for name, v in about.get("versions", {}).items()),
        }
        plain.pop("first_seed", None)
        rows = [[name.replace("_", " "), _plain(value)] for name, value in plain.items()]
        page.table(["setting", "value"], rows, text_columns=2)
        page.folded("Hyperparameters of PPO", json.dumps(config["ppo"], indent=1))
        conditions = {run.about["condition_name"]: run.about["condition"] for run in mine}
        page.folded("Conditions, in full", json.dumps(conditions, indent=1))


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_plain(x)}" for name, x in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
