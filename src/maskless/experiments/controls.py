"""What the paper does not control for: right masks, other losses, penalties, entropy, features."""

from pathlib import Path

from maskless.conditions import condition
from maskless.experiments import drawing, results, suppression, sweep
from maskless.experiments.drawing import Panel
from maskless.experiments.harness import Experiment, Results
from maskless.experiments.run import Result
from maskless.experiments.table import RANGES, Table, percent, text

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
ENTROPY = ("condition", "entropy bonus x", "no masks", "lowest π where valid", "π at the end")


def tables(found: Results) -> list[Table]:
    made = []
    for study, title in TITLES.items():
        if study not in found:
            continue
        result, baseline = found[study], found.get(BASELINES[study])
        if result["config"]["env_options"]["rules"] == "exact" and baseline is not None:
            made += _exact(result, baseline, title)
        if _classifies(result):
            made.append(sweep.sweep_table(result, title))
        if study == "control-entropy":
            made += [_entropy(result, action) for action in result["watched"]]
        if study == "control-frozen":
            made += suppression.tables({study: result})
    made += [
        sweep.sweep_table(found[baseline], "To compare with", frames)
        for baseline, frames in dict.fromkeys(_baselines(found))
    ]
    return made


def _classifies(result: Result) -> bool:
    return any(results.has_classifier(result, name) for name in results.conditions(result))


def _baselines(found: Results) -> list[tuple[str, int]]:
    """What classifiers are compared with, and at which budget: that nearest to their own."""
    pairs = []
    for study, baseline in BASELINES.items():
        if study in found and baseline in found and _classifies(found[study]):
            near = results.budget(found[baseline], found[study]["frames"])
            pairs.append((baseline, near))
    return pairs


def _exact(result: Result, baseline: Result, title: str) -> list[Table]:
    """What errors in the masks cost: the return, and what is never achieved under them."""
    where = results.environment(baseline)
    rows = []
    for frames in results.budgets(result):
        near = results.budget(baseline, frames)
        if abs(near / frames - 1) < 0.05:
            cells = (
                results.returns(baseline, "unmasked", "none", near),
                results.returns(baseline, "masked", "oracle", near),
                results.returns(result, "masked", "oracle", frames),
            )
            rows.append((results.millions(frames), *(text(cell, ".2f") for cell in cells)))
    return [
        Table(f"{title}: {where}, return", ("frames", *EXACT), tuple(rows), (RANGES,)),
        _achieved(result, baseline, f"{title}: {where}, share of episodes with an achievement"),
    ]


def _achieved(result: Result, baseline: Result, title: str) -> Table:
    """The achievements that right masks change most, those first, at the last common budget."""
    frames = results.budget(result)
    near = results.budget(baseline, frames)
    names = {
        name
        for entry in results.entries(result, "masked", "oracle", frames)
        for name in entry["achievement_rates"]
    }
    rows = []
    for name in sorted(names):
        cells = (
            results.achievement(baseline, "unmasked", "none", name, near),
            results.achievement(baseline, "masked", "oracle", name, near),
            results.achievement(result, "masked", "oracle", name, frames),
        )
        _, wrong, right = cells
        if wrong is not None and right is not None:
            gain = right.mean - wrong.mean
            rows.append((-abs(gain), (name, *(percent(cell) for cell in cells))))
    shown = tuple(row for _, row in sorted(rows)[:ACHIEVEMENTS])
    return Table(f"{title}, {results.millions(frames)} frames", ("achievement", *EXACT), shown)


def _entropy(result: Result, action: str) -> Table:
    rows = []
    for name in results.conditions(result):
        late = results.late_cell(result, name, "probability_valid", action)
        rows.append(
            (
                f"`{name}`",
                f"{condition(name).entropy_factor:g}",
                text(results.returns(result, name, "none"), ".2f"),
                text(suppression.lowest_cell(result, name, action), ".2g"),
                text(late, ".2g"),
            )
        )
    return Table(f"{TITLES['control-entropy']}: {action}", ENTROPY, tuple(rows))


def draw(found: Results, path: Path) -> None:
    """A figure for each control, in a folder of their own."""
    path.mkdir(parents=True, exist_ok=True)
    for study, baseline in BASELINES.items():
        if study not in found:
            continue
        if study == "control-entropy":
            _draw_entropy(found[study], path / study)
        else:
            both = [found[name] for name in (study, baseline) if name in found]
            drawing.draw_returns(both, path / study, near=found[study]["frames"])


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
