"""`maskless report`: all that is known about some runs, on one page.

    write_report([Path("runs/X")], Path("runs/X/report.html"))

Reads what is in the run folders (config.json, metrics.jsonl, evaluation.json, audit.json) and
computes nothing anew.
"""

import dataclasses
import itertools
import json
import os.path
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from maskless.conditions import condition
from maskless.diagnostics.suppression_warning import suppressed_actions, warning_lines
from maskless.errors import require
from maskless.evaluation.summary import Evaluation, RunEvaluation, read_evaluation
from maskless.files import check_inside, output_folder, read_json, slug
from maskless.report import audit, figures
from maskless.report.evaluation import (
    TEXT_COLUMNS,
    draw_evaluation,
    evaluation_table,
    headlines,
    memory_lines,
)
from maskless.report.page import Page
from maskless.report.text import mean_known, number
from maskless.training.folder import CONFIG_FILE, find_runs, read_config, read_description
from maskless.training.log import read_run

_CAPTIONS = {
    "returns": "Mean return of the episodes that finished while training.",
    "valid_rate": "Steps that selected a valid action while training.",
    "probabilities": "The least often valid actions: their probability where they are valid (under"
    " the policy that acted) and where they are not (under the raw softmax).",
    "correlation": "The least often valid actions: how similar the features of states in which they"
    " are valid are to those of states in which they are not.",
    "classifier": "The validity head at the end of training, action by action.",
}
_AUDIT_FIGURES = ("audit_errors", "audit_costs")


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
    def env(self) -> str:
        return self.about["config"]["env"]

    def latest(self, metric: str, action: int) -> float | None:
        """The last known value of a metric of an action; None when there is none."""
        values = [row[metric][action] for row in self.rows if row.get(metric) is not None]
        return next((value for value in reversed(values) if value is not None), None)

    @property
    def labelled_evaluation(self) -> list[RunEvaluation]:
        if self.evaluation is None:
            return []
        return [dataclasses.replace(run, condition=self.label) for run in self.evaluation.runs]


def write_report(folders: Sequence[Path], path: Path) -> Path:
    """Writes the page, and its figures into figures/ beside it."""
    runs = _read_runs(folders)
    output_folder(path.parent)
    envs = list(dict.fromkeys(run.env for run in runs))
    page = Page(f"maskless: {' and '.join(envs)}", _subtitle(runs))
    same = Counter(map(slug, envs))
    names = {
        env: slug(env) if same[slug(env)] == 1 else f"{slug(env)}-{n}" for n, env in enumerate(envs)
    }
    for env in envs:
        alone = len(envs) == 1
        drawings = _figures_folder(path.parent, "" if alone else names[env])
        of_env = [run for run in runs if run.env == env]
        _add_runs(page, of_env, drawings, prefix="" if alone else f"{env}: ", page_path=path)
    return page.write(path)


def _figures_folder(folder: Path, name: str) -> Path:
    return check_inside(folder, output_folder(check_inside(folder, folder / "figures") / name))


def _add_runs(
    page: Page, runs: list[RunFolder], drawings: Path, *, prefix: str, page_path: Path
) -> None:
    """All sections about runs in one environment."""
    paths = figures.draw_all([run.curves for run in runs], drawings)
    drawn = {path.stem: path.with_suffix(".svg") for path in paths}

    def show(*names: str) -> None:
        page.figures([(drawn[name], _CAPTIONS[name]) for name in names if name in drawn])

    page.heading(f"{prefix}Under oracle, predicted and no masks")
    bars = _add_evaluation(page, runs, drawings)
    page.heading(f"{prefix}Returns")
    curves = [(drawn[name], _CAPTIONS[name]) for name in ("returns", "valid_rate")]
    page.figures(bars + curves)
    page.heading(f"{prefix}Suppression and feature correlation")
    _add_suppression(page, runs)
    show("probabilities", "correlation")  # the same actions side by side
    if "classifier" in drawn:
        page.heading(f"{prefix}Classifier")
        show("classifier")
        _add_audits(page, runs, page_path)
    page.heading(f"{prefix}Configuration")
    for training in dict.fromkeys(run.training for run in runs):
        _add_configuration(page, [run for run in runs if run.training == training])


def _read_runs(folders: Sequence[Path]) -> list[RunFolder]:
    runs: list[RunFolder] = []
    for folder, label, _ in itertools.chain.from_iterable(map(find_runs, folders)):
        about = _read_about(folder)
        training = folder.resolve().parent.parent.name
        rows = read_run(folder, len(about["action_names"]))
        evaluation = read_evaluation(folder)
        runs.append(RunFolder(folder, training, label, about, rows, evaluation))
    trainings: dict[str, set[str]] = {}
    for run in runs:
        trainings.setdefault(run.label, set()).add(run.training)
    return [
        dataclasses.replace(run, label=f"{run.training} {run.label}")
        if len(trainings[run.label]) > 1
        else run
        for run in runs
    ]


def _read_about(folder: Path) -> dict[str, Any]:
    """The description of a run, with all that the page shows of it."""
    about: Any = read_description(folder)
    for name in ("condition_name", "condition", "seed", "action_names"):
        require(name in about, f"{folder / CONFIG_FILE} is damaged: it lacks {name!r}.")
    names = about["action_names"]
    require(
        0 < len(names) == len(set(names)),
        f"{folder / CONFIG_FILE} is damaged: its action names are not different names.",
    )
    read_config(folder)
    return about


def _subtitle(runs: list[RunFolder]) -> str:
    frames = max((run.rows[-1]["frames"] for run in runs if run.rows), default=0)
    nets = ", ".join(dict.fromkeys(run.about["config"]["net"] for run in runs))
    labels = ", ".join(dict.fromkeys(run.label for run in runs))
    return f"{len(runs)} runs ({labels}), {nets}, {frames:,} frames each."


def _add_evaluation(page: Page, runs: list[RunFolder], drawings: Path) -> list[tuple[Path, str]]:
    """Sentences and a table; gives the figure, if there is one, with its caption."""
    evaluations = [run.evaluation for run in runs if run.evaluation is not None]
    missing = sorted(
        {run.label for run in runs} - {run.label for run in runs if run.evaluation is not None}
    )
    if missing:
        page.text(f"Not evaluated yet: {', '.join(missing)}. Run `maskless eval RUN` first.")
    if not evaluations:
        return []
    evaluated = [labelled for run in runs for labelled in run.labelled_evaluation]
    page.bullets(headlines(evaluated))
    table = evaluation_table(evaluated, evaluations[0].achievement_names).without_blanks()
    page.table(table.header, table.rows, text_columns=TEXT_COLUMNS)
    draw_evaluation(evaluated, drawings / "evaluation")
    least = min(evaluation.settings["episodes"] for evaluation in evaluations)
    caption = f"{least:,} complete episodes or more for each bar."
    page.bullets(table.notes, dim=True)
    for line in dict.fromkeys(line for each in evaluations for line in memory_lines(each)):
        page.text(line)
    return [(drawings / "evaluation.svg", caption)]


def _add_suppression(page: Page, runs: list[RunFolder]) -> None:
    """Sentences about runs that acted without masks, and the paper's measures of rare actions."""
    measured = [run for run in runs if any("probability_valid" in row for row in run.rows)]
    if not measured:
        page.text("Nothing was measured: these runs were trained without diagnostics.")
        return
    unmasked = [run for run in measured if not condition(run.about["condition_name"]).masked]
    for run in unmasked:
        page.subheading(f"{run.label}, seed {run.about['seed']}")
        page.bullets(_suppression_lines(run))
    if not unmasked:
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


def _suppression_lines(run: RunFolder) -> list[str]:
    """What is suppressed at the end; where nothing is, what was, when it was last."""
    names = run.about["action_names"]
    if warnings := warning_lines(suppressed_actions(run.rows, names)):
        return warnings
    lines = ["no action is suppressed at the end."]
    for when, quarters in (("three quarters", 3), ("half", 2), ("a quarter", 1)):
        rows = run.rows[: len(run.rows) * quarters // 4]
        if found := suppressed_actions(rows, names):
            return [*lines, *(f"After {when} of its frames: {each.sentence}" for each in found)]
    return lines


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
        for order, label in enumerate(dict.fromkeys(run.label for run in runs)):
            seeds = [run for run in runs if run.label == label]
            texts = [
                number(mean_known(run.latest(name, names.index(action)) for run in seeds), form)
                for name, form in _MEASURES
            ]
            rows.append(["" if order else action.replace("_", " "), label, *texts])
    return rows


class _Audit(TypedDict):
    """Of audit.json, what the page shows."""

    summary: str


def _add_audits(page: Page, runs: list[RunFolder], page_path: Path) -> None:
    """What `maskless audit` wrote, with links to its pages."""
    audited = [run for run in runs if os.path.isfile(run.folder / "audit.json")]
    if not audited:
        hint = "Not audited yet: `maskless audit RUN` compares the predicted masks with the true"
        page.text(f"{hint} ones where the policy acts.", dim=True)
        return
    page.subheading("Audit")
    for run in audited:
        summary = read_json(run.folder / "audit.json", _Audit, advice="audit the run again")[
            "summary"
        ]
        page.text(f"{run.label}, seed {run.about['seed']}: {summary}")
        figures_folder = check_inside(run.folder, run.folder / "figures")
        drawn = {name: figures_folder / f"{name}.svg" for name in _AUDIT_FIGURES}
        page.figures([(x, audit.CAPTIONS[n]) for n, x in drawn.items() if os.path.isfile(x)])
        # Of the folders: the page itself may be a link, to somewhere else or to itself.
        target = run.folder.resolve() / "audit.html"
        address = os.path.relpath(target, page_path.parent.resolve())
        page.link("Its own page shows the worst states and more.", address)


def _add_configuration(page: Page, runs: list[RunFolder]) -> None:
    """What the runs of one training were trained with."""
    about = runs[0].about
    page.subheading(runs[0].training)
    settings = {k: v for k, v in about["config"].items() if k not in ("ppo", "first_seed")}
    settings |= {
        "conditions": ", ".join(dict.fromkeys(run.about["condition_name"] for run in runs)),
        "seeds": ", ".join(map(str, sorted({run.about["seed"] for run in runs}))),
        "commit": about.get("commit"),
        "device": about.get("device"),
        "versions": ", ".join(f"{name} {v}" for name, v in about.get("versions", {}).items()),
    }
    rows = [[name.replace("_", " "), _setting(value)] for name, value in settings.items()]
    page.table(["setting", "value"], rows, text_columns=2)
    conditions = {run.about["condition_name"]: run.about["condition"] for run in runs}
    page.folded("Hyperparameters of PPO", json.dumps(about["config"]["ppo"], indent=1))
    page.folded("Conditions, in full", json.dumps(conditions, indent=1))


def _setting(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_setting(x)}" for name, x in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
