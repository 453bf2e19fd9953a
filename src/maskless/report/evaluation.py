"""Evaluations as a table, for the terminal and for the page."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.patches import Patch
from rich.console import Console

from maskless.envs import ids
from maskless.evaluation.summary import (
    UNTRAINED,
    Evaluation,
    RunEvaluation,
    Summary,
    recovered,
)
from maskless.report import style
from maskless.report.text import console_table, fitting, mean_known, number, percent

HEADER = (
    *("condition", "masks", "return", "range", "worst", "kept %", "recovered %", "{score}"),
    *("length", "invalid %", "stuck %", "changed %", "empty %"),
)
TEXT_COLUMNS = 2
_DROPPED_FIRST = (
    *("range", "length", "changed", "empty", "worst"),
    *("kept", "success", "achievements", "recovered"),
)
"""Where the terminal has no room."""
_FORGETFUL = "forgetful"
_MOST_DRAWN = 100
"""Conditions in a figure; an image has room for some hundreds."""
NOTES = {
    "return": "mean return ± standard error; for several seeds ± their standard deviation.",
    "range": "95 % bootstrap interval of the mean; for several seeds their lowest to highest.",
    "worst": "the lowest return of an episode.",
    "kept": "the return as a share of the one under the oracle's masks, where none is negative.",
    "recovered": "the way from the return without masks (0) to the one under the oracle's (100).",
    "success": "episodes that the game, and not the time limit, ended with a reward.",
    "invalid": "steps that selected an invalid action.",
    "stuck": "steps that repeated what had just failed: the observation was still the same.",
    "changed": "steps whose action the oracle's mask would have changed, with the same dice.",
    "empty": "steps in which the predicted mask allowed nothing and was ignored.",
}
SIGNS_NOTE = "· = never; – = not known, because there is no oracle."
FORGETFUL_NOTE = (
    "Predicted masks and the clone remember what has just failed and do not repeat it until the"
    " observation changes; `forgetful` is the control without that memory."
)
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
    has_forgetful: bool
    seeds: int
    """Of the condition that has most."""

    @property
    def notes(self) -> list[str]:
        shown = {title.removesuffix(" %") for title in self.header}
        lines = [f"{name}: {what}" for name, what in NOTES.items() if name in shown]
        seeds = [f"Means over {self.seeds} seeds of each condition."] if self.seeds > 1 else []
        others = {FORGETFUL_NOTE: self.has_forgetful, UNTRAINED_NOTE: self.has_untrained}
        return seeds + lines + [SIGNS_NOTE] + [note for note, needed in others.items() if needed]

    def only(self, columns: Sequence[int]) -> "EvaluationTable":
        """With these columns."""
        header, *rows = ([row[n] for n in columns] for row in (self.header, *self.rows))
        return dataclasses.replace(self, header=header, rows=rows)

    def without_blanks(self) -> "EvaluationTable":
        """Without columns that say nothing."""
        return self.only([n for n in range(len(self.header)) if any(row[n] for row in self.rows)])


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
        for before, masks in zip([None, *modes], modes, strict=False):
            title = name if before is None else ""
            control = masks == f"{before}-{_FORGETFUL}"
            kind = _FORGETFUL if control else masks
            rows.append([title, kind, *_numbers(seeds, masks, many)])
    seeds_of_each = Counter(run.condition for run in runs)
    return EvaluationTable(
        header=header,
        rows=rows,
        has_untrained=any(UNTRAINED in run.masks for run in runs),
        has_forgetful=any(_FORGETFUL in cell for row in rows for cell in row[:TEXT_COLUMNS]),
        seeds=max(seeds_of_each.values(), default=0),
    )


def _numbers(seeds: list[RunEvaluation], masks: str, many: bool) -> list[str]:
    """The cells of one row. `many`: the game has several achievements."""
    summaries = [run.masks[masks] for run in seeds]

    def mean(name: str) -> float:
        return float(np.mean([getattr(summary, name) for summary in summaries]))

    average, spread, low, high = _return_spread(summaries)
    oracle, floor = (_mean_return(seeds, kind) for kind in ("oracle", "none"))
    of_worth = None
    if oracle is not None and floor is not None and masks not in ("oracle", "none"):
        of_worth = recovered(average, oracle, floor)
    return [
        f"{average:.2f} ± {spread:.2f}",
        f"{low:.2f} to {high:.2f}",
        number(float(np.min([summary.worst for summary in summaries])), "{:.2f}"),
        f"{100 * average / oracle:.0f}" if oracle is not None and oracle > 0 <= average else "",
        "" if of_worth is None else f"{100 * of_worth:.0f}",
        f"{mean('achievements'):.2f}" if many else percent(mean("success_rate")),
        f"{mean('length'):.0f}",
        *(percent(mean(name)) for name in _SHARES),
    ]


_SHARES = ("invalid_share", "stuck_share", "changed_share", "fallback_rate")


def _mean_return(seeds: Sequence[RunEvaluation], masks: str) -> float | None:
    """Over the seeds; None when they were not played under such masks."""
    return mean_known(run.masks[masks].mean_return for run in seeds if masks in run.masks)


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
    named = {title.removesuffix(" %"): n for n, title in enumerate(table.header)}
    droppable = [named[name] for name in _DROPPED_FIRST if name in named]
    header = [title.replace(" %", "\n%") for title in table.header]
    columns = fitting(header, table.rows, console.width, droppable)
    table = table.only(columns)
    header, caption = [header[column] for column in columns], "\n".join(table.notes)
    console.print(
        console_table(title, header, table.rows, caption=caption, text_columns=TEXT_COLUMNS)
    )
    for line in (*threshold_lines(evaluation.runs), *memory_lines(evaluation)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def threshold_lines(runs: Sequence[RunEvaluation]) -> list[str]:
    """How the masks of these runs were predicted: once, or for each run where they differ."""
    descriptions = {
        f"{run.condition}, seed {run.seed}": masks_in_words(run.thresholds, run.overrides)
        for run in runs
        if run.classifier
        and run.masks.keys() & {"predicted", f"predicted-{_FORGETFUL}"}
        and run.thresholds is not None
    }
    if len(set(descriptions.values())) == 1:
        return [f"Predicted masks: {next(iter(descriptions.values()))}."]
    return [f"Predicted masks of {name}: {text}." for name, text in descriptions.items()]


_MANY_TRIES = 3.0


def clock_lines(evaluation: Evaluation) -> list[str]:
    """A hint, where many actions of an episode were invalid and nothing was ever the same after
    one: then no failure is seen. (In our own worlds it is known what changes by itself.)"""
    forgetful = [
        summary
        for run in evaluation.runs
        for masks, summary in run.masks.items()
        if masks in ("none", UNTRAINED) or masks.endswith(_FORGETFUL)
    ]
    tried = [x for x in forgetful if x.invalid_share * x.length >= _MANY_TRIES]
    if evaluation.env in ids() or not tried or any(x.stuck_share != 0 for x in tried):
        return []
    return [
        "After invalid actions the observation was never the same, so that nothing counts as a"
        " failure: if something in it changes by itself, such as a clock, name it in the"
        " environment's clock_fields before training."
    ]


_ERRORS = 3.0


def memory_lines(evaluation: Evaluation) -> list[str]:
    """Hints, where the memory of failures sees nothing, or does harm."""
    lines = clock_lines(evaluation)
    for name in dict.fromkeys(run.condition for run in evaluation.runs):
        seeds = [run.masks for run in evaluation.runs if run.condition == name]
        for masks in ("predicted", "clone"):
            both = [
                (seed[masks], seed[control])
                for seed in seeds
                for control in [f"{masks}-{_FORGETFUL}"]
                if masks in seed and control in seed
            ]
            if both and _is_harmful(*zip(*both, strict=True)):
                lines.append(
                    f"{name}, {masks}: the memory of failures costs return, because valid actions"
                    " often leave the observation as it was, and it leaves them out. Act with"
                    " memory=False, or let the observation show what they change."
                )
    return lines


def _is_harmful(with_it: Sequence[Summary], without: Sequence[Summary]) -> bool:
    """Whether the memory costs more than chance can. One summary of each seed."""
    lost = [b.mean_return - a.mean_return for a, b in zip(with_it, without, strict=True)]
    errors = [summary.standard_error for summary in (*with_it, *without)]
    return float(np.sum(lost)) > _ERRORS * float(np.linalg.norm(errors))


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


_MODES = {
    "predicted": "under predicted masks",
    "clone": "by its clone, without masks,",
    "none": "without masks",
}


def headlines(runs: Sequence[RunEvaluation]) -> list[str]:
    """What a reader should know first: what is left of the oracle's return, and how."""
    lines = []
    for name in dict.fromkeys(run.condition for run in runs):
        seeds = [run for run in runs if run.condition == name]
        deployed = {"predicted": seeds[0].classifier, "clone": seeds[0].clone}
        for masks in [mode for mode, has in deployed.items() if has] or ["none"]:
            line = _headline(seeds, masks)
            if line is not None:
                lines.append(f"{name}: {line}")
    return lines


def _headline(seeds: Sequence[RunEvaluation], masks: str) -> str | None:
    """What one kind of masks is worth; None when it was not compared with the oracle's."""
    found, oracle, floor = (_mean_return(seeds, kind) for kind in (masks, "oracle", "none"))
    if found is None or oracle is None:
        return None
    if oracle > 0:
        line = (
            f"{_MODES[masks]} it keeps {100 * found / oracle:.0f} % of what it earns under the"
            f" oracle's masks ({found:.2f} of {oracle:.2f})"
        )
    else:
        line = f"{_MODES[masks]} it earns {found:.2f}, under the oracle's masks {oracle:.2f}"
    if masks == "none" or floor is None:
        return f"{line}."
    share = recovered(found, oracle, floor)
    if share is None:
        return f"{line}; masks are worth nothing here ({floor:.2f} without any)."
    return (
        f"{line}; of what the masks are worth, {number(100 * share, '{:.0f}')} % is recovered"
        f" ({floor:.2f} without any)."
    )


def draw_evaluation(runs: Sequence[RunEvaluation], path: Path) -> None:
    """The mean return of each condition under each kind of mask; lines are the table's ranges."""
    names = list(dict.fromkeys(run.condition for run in runs))[:_MOST_DRAWN]
    colours = style.MASK_COLOURS
    modes = [mode for mode in colours if all(mode in run.masks for run in runs)]
    with style.figure(path, figsize=(3.3, 0.9 + 0.15 * len(modes) * len(names))) as (fig, axis):
        bar = 0.78 / max(len(modes), 1)
        for order, mode in enumerate(modes):
            rows = np.arange(len(names)) + bar * (order - (len(modes) - 1) / 2)
            for row, name in zip(rows, names, strict=True):
                of_condition = [run for run in runs if run.condition == name]
                if mode == "predicted" and not all(run.classifier for run in of_condition):
                    continue  # these are the bars of none
                seeds = [run.masks[mode] for run in of_condition]
                mean, _, low, high = _return_spread(seeds)
                axis.barh(row, mean, height=0.92 * bar, color=colours[mode])
                axis.hlines(row, low, high, color="black", linewidth=0.9)
        axis.set_yticks(np.arange(len(names)), [style.label(name) for name in names])
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("mean return")
        handles = [Patch(color=colours[mode], label=mode) for mode in modes]
        fig.legend(handles=handles, loc="outside lower center", ncols=4, title="masks", fontsize=7)
