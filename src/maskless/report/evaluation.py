"""Evaluations as a table, for the terminal and for the page."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.patches import Patch
from rich.console import Console

from maskless.evaluation.summary import UNTRAINED, Evaluation, RunEvaluation, Summary
from maskless.report import style
from maskless.report.text import console_table, percent

HEADER = (
    *("condition", "masks", "return", "range", "kept %", "{score}", "length"),
    *("invalid %", "changed %", "empty %"),
)
TEXT_COLUMNS = 2
NOTES = {
    "return": "mean return ± standard error; for several seeds ± their standard deviation.",
    "range": "95 % bootstrap interval of the mean; for several seeds their lowest to highest.",
    "kept": "the return as a share of the one under the oracle's masks.",
    "invalid": "steps that selected an invalid action.",
    "changed": "steps whose action the oracle's mask would have changed, with the same dice.",
    "empty": "steps in which the predicted mask allowed nothing and was ignored. · = never;"
    " – = not known, because there is no oracle.",
}
UNTRAINED_NOTE = (
    "A condition without a classifier has no predicted masks: its `predicted` is sampling without"
    " masks, and `untrained` is what its validity head, which nothing has trained, would do."
)


@dataclasses.dataclass(frozen=True)
class EvaluationTable:
    """The cells of the table, as text."""

    header: list[str]
    rows: list[list[str]]
    has_untrained: bool
    seeds: int
    """Of the condition that has most."""

    @property
    def notes(self) -> list[str]:
        lines = [f"{name}: {what}" for name, what in NOTES.items()]
        seeds = [f"Means over {self.seeds} seeds of each condition."] if self.seeds > 1 else []
        return seeds + lines + [UNTRAINED_NOTE] * self.has_untrained


def evaluation_table(
    runs: Sequence[RunEvaluation], achievement_names: Sequence[str]
) -> EvaluationTable:
    """One row for each condition (all its seeds together) and kind of mask."""
    many = len(achievement_names) > 1
    header = [title.format(score="achievements" if many else "success %") for title in HEADER]
    rows = []
    for name in dict.fromkeys(run.condition for run in runs):
        seeds = [run for run in runs if run.condition == name]
        modes = [masks for masks in seeds[0].masks if all(masks in run.masks for run in seeds)]
        for number, masks in enumerate(modes):
            title = "" if number else name
            rows.append([title, masks, *_numbers(seeds, masks, many)])
    untrained = any(UNTRAINED in run.masks for run in runs)
    seeds_of_each = Counter(run.condition for run in runs)
    return EvaluationTable(header, rows, untrained, max(seeds_of_each.values(), default=0))


def _numbers(seeds: list[RunEvaluation], masks: str, many: bool) -> list[str]:
    """The cells of one row. `many`: the game has several achievements."""
    summaries = [run.masks[masks] for run in seeds]

    def mean(name: str) -> float:
        return float(np.mean([getattr(summary, name) for summary in summaries]))

    average, spread, low, high = _return_spread(summaries)
    oracle = [run.masks["oracle"].mean_return for run in seeds if "oracle" in run.masks]
    return [
        f"{average:.2f} ± {spread:.2f}",
        f"{low:.2f} to {high:.2f}",
        f"{100 * average / np.mean(oracle):.0f}" if sum(oracle) > 0 else "",
        f"{mean('achievements'):.2f}" if many else percent(mean("success_rate")),
        f"{mean('length'):.0f}",
        *(percent(mean(name)) for name in ("invalid_share", "changed_share", "fallback_rate")),
    ]


def _return_spread(seeds: list[Summary]) -> tuple[float, float, float, float]:
    """Mean return, its error, and its range: over episodes for one seed, otherwise over seeds."""
    if len(seeds) == 1:
        return seeds[0].mean_return, seeds[0].standard_error, seeds[0].low, seeds[0].high
    means = np.array([seed.mean_return for seed in seeds])
    return float(means.mean()), float(means.std(ddof=1)), float(means.min()), float(means.max())


def print_evaluation(evaluation: Evaluation, console: Console) -> None:
    table = evaluation_table(evaluation.runs, evaluation.achievement_names)
    how = "most probable actions" if evaluation.settings["greedy"] else "sampled actions"
    title = (
        f"{evaluation.env}: {evaluation.settings['episodes']:,} complete episodes of each run"
        f" under each kind of mask, {how}"
    )
    dropped = ("range", "length") if console.width < 110 else ()
    columns = [number for number, name in enumerate(table.header) if name not in dropped]
    console.print(
        console_table(
            title,
            [table.header[number].replace(" %", "\n%") for number in columns],
            [[row[number] for number in columns] for row in table.rows],
            caption="\n".join(table.notes),
            text_columns=TEXT_COLUMNS,
        )
    )
    for line in threshold_lines(evaluation.runs):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def threshold_lines(runs: Sequence[RunEvaluation]) -> list[str]:
    """How the masks of these runs were predicted: once, or for each run where they differ."""
    descriptions = {
        f"{run.condition}, seed {run.seed}": masks_in_words(run.thresholds, run.overrides)
        for run in runs
        if run.classifier and "predicted" in run.masks and run.thresholds is not None
    }
    if len(set(descriptions.values())) == 1:
        return [f"Predicted masks: {next(iter(descriptions.values()))}."]
    return [f"Predicted masks of {name}: {text}." for name, text in descriptions.items()]


def masks_in_words(
    thresholds: float | Mapping[str, float | None] | None, overrides: Sequence[str]
) -> str:
    """Thresholds and overrides, without a full stop."""
    if isinstance(thresholds, Mapping):
        words = "valid is " + ", ".join(
            f"{name} {'always' if t is None else f'above {t:.3g}'}"
            for name, t in thresholds.items()
        )
    else:
        words = f"valid is what has a probability above {thresholds:g}"
    return words + (f"; overrides: {'; '.join(overrides)}" if overrides else "; no overrides")


def headlines(runs: Sequence[RunEvaluation]) -> list[str]:
    """What a reader should know first: what is kept of the oracle's return, and how."""
    lines = []
    for name in dict.fromkeys(run.condition for run in runs):
        seeds = [run for run in runs if run.condition == name]
        masks = "predicted" if seeds[0].classifier else "none"
        if any(not {"oracle", masks} <= run.masks.keys() for run in seeds):
            continue
        oracle, kept = (
            float(np.mean([run.masks[mode].mean_return for run in seeds]))
            for mode in ("oracle", masks)
        )
        if oracle > 0:
            how = "under predicted masks" if seeds[0].classifier else "without masks"
            lines.append(
                f"{name}: {how} it keeps {100 * kept / oracle:.0f} % of what it earns under the"
                f" oracle's masks ({kept:.2f} of {oracle:.2f})."
            )
    return lines


def draw_evaluation(runs: Sequence[RunEvaluation], path: Path) -> None:
    """The mean return of each condition under each kind of mask; lines are the table's ranges."""
    names = list(dict.fromkeys(run.condition for run in runs))
    colours = {"oracle": style.BLUE, "predicted": style.GREEN, "none": style.VERMILION}
    modes = [mode for mode in colours if all(mode in run.masks for run in runs)]
    with style.figure(path, figsize=(3.3, 0.9 + 0.45 * len(names))) as (fig, axis):
        for number, mode in enumerate(modes):
            rows = np.arange(len(names)) + 0.26 * (number - (len(modes) - 1) / 2)
            for row, name in zip(rows, names, strict=True):
                seeds = [run.masks[mode] for run in runs if run.condition == name]
                mean, _, low, high = _return_spread(seeds)
                axis.barh(row, mean, height=0.24, color=colours[mode])
                axis.hlines(row, low, high, color="black", linewidth=0.9)
        axis.set_yticks(np.arange(len(names)), names)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("mean return")
        handles = [Patch(color=colours[mode], label=mode) for mode in modes]
        fig.legend(handles=handles, loc="outside lower center", ncols=3, title="masks", fontsize=7)
