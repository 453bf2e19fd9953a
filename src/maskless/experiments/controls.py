"""What the paper does not control for: right masks, other losses, penalties, entropy, features."""

from pathlib import Path

from maskless.conditions import condition
from maskless.experiments import drawing, results, suppression, sweep
from maskless.experiments.drawing import Panel
from maskless.experiments.harness import Experiment, Results
from maskless.experiments.run import Result
from maskless.experiments.table import Table, text

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
ENTROPY = ("condition", "entropy bonus x", "no masks", "lowest π where valid", "π at the end")


def tables(found: Results) -> list[Table]:
    made = []
    for study, title in TITLES.items():
        if study in found:
            made.append(sweep.sweep_table(found[study], title))
            if study == "control-entropy":
                made += [_entropy(found[study], action) for action in found[study]["watched"]]
            if study == "control-frozen":
                made += suppression.tables({study: found[study]})
    made += [
        sweep.sweep_table(found[baseline], "To compare with", frames)
        for baseline, frames in dict.fromkeys(_baselines(found))
    ]
    return made


def _baselines(found: Results) -> list[tuple[str, int]]:
    """What each control is compared with, and at which budget: that nearest to its own."""
    pairs = []
    for study, baseline in BASELINES.items():
        if study in found and baseline in found:
            near = results.budget(found[baseline], found[study]["frames"])
            pairs.append((baseline, near))
    return pairs


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
