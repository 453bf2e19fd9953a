"""What the paper does not control for: right masks, other losses, penalties, entropy, features."""

from pathlib import Path

from maskless.conditions import condition
from maskless.report import figures, style
from maskless.report.curves import band
from maskless_paper import results
from maskless_paper.results import Cell
from maskless_paper.study_files import Result
from maskless_paper.tables import drawing, sweep
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import (
    LOWEST,
    Table,
    lowest_and_states,
    notes_of,
    percent,
    text,
)

# control -> the study it is compared with
BASELINES = {
    "control-exact": "classic-mlp",
    "control-exact-full": "full-mlp",
    "control-losses": "classic-mlp",
    "control-frozen": "corridor-gru",
    "control-entropy": "classic-mlp",
    "classic-loop": "classic-mlp",
}
TITLES = {
    "control-exact": "Masks without errors",
    "control-exact-full": "Masks without errors, in the full game",
    "control-losses": "The KL-balanced loss taken apart",
    "control-frozen": "No penalty for steps without time",
    "control-entropy": "More and less entropy without masks",
    "classic-loop": "Acting under predicted masks while training",
}
EXACT = ("`unmasked`, no masks", "`masked`, the paper's masks", "`masked`, exact masks")
ACHIEVEMENTS = 10
PENALTY = -0.01
"""Of the corridors, where a study says nothing else."""
FROZEN = (
    *("condition", "penalty", "lowest π({action}) where valid", "over states", "below uniform"),
    *("oracle masks", "no masks"),
)
ENTROPY = (
    *("condition", "entropy bonus x", "no masks", "lowest π where valid", "over states"),
    "π at the end",
)


def tables(studies: Results) -> list[Table]:
    made: list[Table] = []
    for study, title in TITLES.items():
        if study not in studies:
            continue
        result, baseline = studies[study], studies.get(BASELINES[study])
        if baseline is not None and _is_exact(result):
            made += _exact(result, baseline, title)
        if study == "control-entropy":
            made += [_entropy(result, action) for action in result["watched"]]
        elif study == "control-frozen":
            made.append(_frozen([one for one in (result, baseline) if one is not None], title))
        elif _classifies(result):
            made.append(sweep.sweep_table(result, title))
    made += [
        sweep.sweep_table(studies[baseline], "To compare with", frames)
        for baseline, frames in dict.fromkeys(_baselines(studies))
    ]
    return made


def _classifies(result: Result) -> bool:
    return any(results.has_classifier(name) for name in results.conditions(result))


def _baselines(studies: Results) -> list[tuple[str, int]]:
    """What classifiers are compared with, and at which budget: that nearest to their own."""
    pairs = []
    for study, baseline in BASELINES.items():
        if study == "control-frozen":  # has its baseline in its own table
            continue
        if study in studies and baseline in studies and _classifies(studies[study]):
            near = results.budget(studies[baseline], studies[study]["frames"])
            pairs.append((baseline, near))
    return pairs


def _is_exact(result: Result) -> bool:
    return result["config"]["env_options"].get("rules") == "exact"


def _compared(exact: Result, paper: Result) -> tuple[tuple[Result, str, str], ...]:
    """What is compared, in the order of `EXACT`: result, condition, and the masks it acts under."""
    return (paper, "unmasked", "none"), (paper, "masked", "oracle"), (exact, "masked", "oracle")


def _exact(result: Result, baseline: Result, title: str) -> list[Table]:
    """What errors in the masks cost: the return, and what is hardly achieved under them."""
    where = results.setting(baseline)
    compared = _compared(result, baseline)
    rows = []
    for frames in results.budgets(result):
        if abs(results.budget(baseline, frames) / frames - 1) < 0.05:
            cells = [
                results.returns(one, name, masks, results.budget(one, frames))
                for one, name, masks in compared
            ]
            rows.append((results.format_frames(frames), *(text(cell, ".2f") for cell in cells)))
    achieved = tuple(
        (name, *(percent(cell) for cell in cells))
        for name, cells in _achieved(result, baseline).items()
    )
    when = f"{results.format_frames(results.budget(result))} frames"
    header = ("achievement, in how many episodes", *EXACT)
    return [
        Table(f"{title}: {where}, return", ("frames", *EXACT), tuple(rows), notes_of(result)),
        Table(f"{title}: {where}, achievements, {when}", header, achieved),
    ]


def _achieved(result: Result, baseline: Result) -> dict[str, list[Cell]]:
    """The achievements that right masks change most, those first, at the last common budget."""
    frames = results.budget(result)
    played = results.evaluations(result, "masked", "oracle", frames)
    rates: dict[str, list[Cell]] = {}
    for name in sorted({name for entry in played for name in entry["achievement_rates"]}):
        cells = [
            results.achievement(one, run, masks, name, results.budget(one, frames))
            for one, run, masks in _compared(result, baseline)
        ]
        if None not in cells:
            rates[name] = [cell for cell in cells if cell is not None]

    def change(name: str) -> float:
        _, paper, exact = rates[name]
        return abs(exact.middle - paper.middle)

    most_changed = sorted(rates, key=change, reverse=True)
    return {name: rates[name] for name in most_changed[:ACHIEVEMENTS]}


def _frozen(both: list[Result], title: str) -> Table:
    """Suppression and collapse, without the penalty and with it."""
    action = both[0]["watched"][0]
    uniform = 1 / len(both[0]["action_names"])
    rows = []
    for name in results.conditions(both[0]):
        for result in both:
            low = results.lowest(result, name, action, states=results.HEADLINE_STATES)
            kinds = ("oracle", "none")
            rows.append(
                (
                    f"`{name}`",
                    f"{-result['config']['env_options'].get('frozen_penalty', PENALTY):z.2f}",
                    *lowest_and_states(result, name, action),
                    f"{uniform / low.mean:,.1f} x" if low is not None and low.mean > 0 else "–",
                    *(text(results.returns(result, name, masks), ".2f") for masks in kinds),
                )
            )
    where = f"{both[0]['config']['env']}, {both[0]['config']['net']}"
    frames = results.format_frames(both[0]["frames"])
    notes = notes_of(both[0], LOWEST)
    header = tuple(column.format(action=action) for column in FROZEN)
    return Table(f"{title}: {where}, {frames} frames", header, tuple(rows), notes)


def _entropy(result: Result, action: str) -> Table:
    rows = []
    for name in results.conditions(result):
        late = results.final(result, name, "probability_valid", action)
        rows.append(
            (
                f"`{name}`",
                f"{condition(name).entropy_factor:g}",
                text(results.returns(result, name, "none"), ".2f"),
                *lowest_and_states(result, name, action),
                text(late, ".2g"),
            )
        )
    title = f"{TITLES['control-entropy']}: {action}"
    return Table(title, ENTROPY, tuple(rows), notes_of(result, LOWEST))


def draw(studies: Results, path: Path) -> None:
    """A figure for each control, in a folder of their own."""
    path.mkdir(parents=True, exist_ok=True)
    for study, name in BASELINES.items():
        if study not in studies:
            continue
        result, baseline = studies[study], studies.get(name)
        if study == "control-entropy":
            _draw_entropy(result, path / study)
        elif baseline is not None and _is_exact(result):
            _draw_exact(result, baseline, path / study)
        else:
            both = [one for one in (result, baseline) if one is not None]
            drawing.draw_returns(both, path / study, near=result["frames"])


def _draw_exact(result: Result, baseline: Result, path: Path) -> None:
    """The return while training, and the achievements that right masks change most."""
    colours = (style.VERMILION, style.BLUE, style.PURPLE)
    labels = [label.replace("`", "") for label in EXACT]
    achieved = _achieved(result, baseline)
    with style.figure(path, ncols=2, figsize=(6.6, 3.2)) as (fig, (left, right)):
        for number, (one, name, _) in enumerate(_compared(result, baseline)):
            seeds = [run for run in drawing.runs_of(one) if run.label == name]
            curve, colour = band(seeds, "return"), colours[number]
            left.plot(curve.frames, curve.middle, color=colour, label=labels[number])
            left.fill_between(curve.frames, curve.low, curve.high, color=colour, alpha=0.18)
            rows = [row + 0.27 * (number - 1) for row in range(len(achieved))]
            shares = [100 * cells[number].middle for cells in achieved.values()]
            right.barh(rows, shares, height=0.25, color=colour)
        left.set_ylabel("return while training")
        figures.frames_axis(left)
        right.set_yticks(range(len(achieved)), list(achieved), fontsize=7)
        right.invert_yaxis()
        right.grid(axis="y", visible=False)
        right.set_xlabel(f"% of episodes, {results.format_frames(results.budget(result))} frames")
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _draw_entropy(result: Result, path: Path) -> None:
    panels = [Panel(result, "return", "return", title="return")]
    for action in result["watched"]:
        how = {"action": action, "logarithmic": True, "title": action}
        panels.append(Panel(result, "probability_valid", "probability where valid", **how))
    drawing.draw_panels(panels, path)


EXPERIMENT = Experiment(
    about="controls: exact masks, other losses, no penalty, entropy, detached features, our loop",
    paper="",
    studies=(*TITLES, *dict.fromkeys(BASELINES.values())),
    tables=tables,
    draw=draw,
)
