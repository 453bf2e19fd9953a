"""RQ4: what is a policy worth where no oracle exists, and which loss predicts the best masks?"""

import itertools
from pathlib import Path

from maskless_paper import results
from maskless_paper.results import Cell
from maskless_paper.studies import TABLE_ONE
from maskless_paper.study_files import Result
from maskless_paper.tables import sweep
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import (
    Table,
    doubt,
    notes_of,
    percent,
    percent_of_mean,
    text,
)

HEADER = (
    *("condition", "frames", "predicted masks", "kept", "invalid actions", "changed actions"),
    *("wrong mask entries", "than `unmasked` without masks"),
)
NOTES = (
    "kept: as a share of the same seed's return under the oracle's masks. invalid: steps that"
    " selected an invalid action. changed: steps whose action the oracle's mask would have changed,"
    " with the same dice.",
)


def tables(studies: Results) -> list[Table]:
    made = []
    for world, group in by_world(studies).items():
        title = f"{world}: acting without the oracle"
        notes = notes_of(group[0], *NOTES)
        made.append(Table(title, HEADER, tuple(_rows(group)), notes))
        ordered = order_table(world, group)
        made += [ordered] if ordered.rows else []
    return made


def by_world(studies: Results) -> dict[str, list[Result]]:
    """Studies of the same game and network belong together: other conditions, same seeds."""
    groups: dict[str, list[Result]] = {}
    for result in studies.values():
        groups.setdefault(results.setting(result), []).append(result)
    return groups


def retained_by_condition(group: list[Result], frames: int) -> dict[str, Cell]:
    """What each condition with a classifier keeps under its own masks, at one budget: of those
    that have learned something by then."""
    shares = {}
    for result in group:
        for name in results.conditions(result):
            if not results.has_classifier(name) or frames not in results.budgets(result):
                continue
            cell = results.retained(result, name, frames=frames)
            if cell is not None and results.has_learned(result, name, frames):
                shares[name] = cell
    return shares


def common_budgets(group: list[Result]) -> list[int]:
    """Where at least two conditions with a classifier can be compared."""
    frames = sorted({budget for result in group for budget in results.budgets(result)})
    return [budget for budget in frames if len(retained_by_condition(group, budget)) > 1]


def order(cells: dict[str, Cell]) -> str:
    """Best first; `>` where the ranges are apart, of at least three seeds; `≳` elsewhere."""
    names = sorted(cells, key=lambda name: -cells[name].middle)
    said = f"`{names[0]}`"
    for better, worse in itertools.pairwise(names):
        said += f" {'>' if cells[better].above(cells[worse]) else '≳'} `{worse}`"
    return said


def order_table(world: str, group: list[Result]) -> Table:
    """The order of the losses at every budget."""
    rows = [
        (results.format_frames(frames), order(retained_by_condition(group, frames)))
        for frames in common_budgets(group)
    ]
    note = (
        "> : the ranges of one and the next are apart, with at least three seeds of each;"
        " ≳ : they overlap, or are of fewer seeds."
    )
    return Table(f"{world}: who keeps most, best first", ("frames", "order"), tuple(rows), (note,))


def _rows(group: list[Result]) -> list[tuple[str, ...]]:
    rows = []
    for result in group:
        for frames in results.budgets(result):
            unmasked = _unmasked(group, frames)
            for name in results.conditions(result):
                if not results.has_classifier(name):
                    continue
                cells = [
                    results.metric(result, name, "predicted", metric, frames)
                    for metric in ("invalid_share", "changed_share", "mask_errors")
                ]
                rows.append(
                    (
                        f"`{name}`",
                        results.format_frames(frames),
                        text(results.returns(result, name, "predicted", frames), ".2f"),
                        percent(results.retained(result, name, frames=frames)),
                        *(percent_of_mean(cell, digits=2) for cell in cells),
                        _difference(results.returns(result, name, "predicted", frames), unmasked),
                    )
                )
    return rows


def _unmasked(group: list[Result], frames: int) -> Cell | None:
    for result in group:
        if frames in results.budgets(result):
            returns = results.returns(result, "unmasked", "none", frames)
            if returns is not None:
                return returns
    return None


def _difference(masked: Cell | None, unmasked: Cell | None) -> str:
    if masked is None or unmasked is None:
        return "–"
    return f"{masked.middle - unmasked.middle:+.2f}{doubt(masked, unmasked)}"


def draw(studies: Results, path: Path) -> None:
    """What is kept under predicted masks, over the frames."""
    curves: dict[str, dict[str, dict[float, Cell]]] = {}
    for world, group in by_world(studies).items():
        for frames in common_budgets(group):
            for name, cell in retained_by_condition(group, frames).items():
                curves.setdefault(world, {}).setdefault(name, {})[frames] = cell
    sweep.draw_points(curves, path, "frames", "return kept under predicted masks")


EXPERIMENT = Experiment(
    about="acting without the oracle: what is kept, and which loss keeps most at which budget",
    paper="RQ4, Table 1",
    studies=(*TABLE_ONE, "classic-loop", "corridor-loop", "full-loop"),
    tables=tables,
    draw=draw,
)
