"""RQ4: what is a policy worth where no oracle exists, and which loss predicts the best masks?"""

import itertools
from pathlib import Path

from maskless_paper import results
from maskless_paper.results import Cell
from maskless_paper.run import Result
from maskless_paper.studies import TABLE_ONE
from maskless_paper.tables import sweep
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import RANGES, Table, percent, text

HEADER = (
    *("condition", "frames", "predicted masks", "kept", "invalid actions", "changed actions"),
    *("wrong mask entries", "than `unmasked` without masks"),
)
NOTES = (
    RANGES,
    "kept: as a share of the same seed's return under the oracle's masks. invalid: steps that"
    " selected an invalid action. changed: steps whose action the oracle's mask would have changed,"
    " with the same dice.",
)


def tables(found: Results) -> list[Table]:
    made = []
    for world, group in by_world(found).items():
        title = f"{world}: acting without the oracle"
        notes = (group[0]["stands_in"], *NOTES) if group[0]["stands_in"] else NOTES
        made.append(Table(title, HEADER, tuple(_rows(group)), notes))
        ordered = order_table(world, group)
        made += [ordered] if ordered.rows else []
    return made


def by_world(found: Results) -> dict[str, list[Result]]:
    """Studies of the same game and network belong together: other conditions, same seeds."""
    groups: dict[str, list[Result]] = {}
    for result in found.values():
        groups.setdefault(results.environment(result), []).append(result)
    return groups


def kept_by_condition(group: list[Result], frames: int) -> dict[str, Cell]:
    """What each condition with a classifier keeps under its own masks, at one budget: of those
    that have learned something by then."""
    found = {}
    for result in group:
        for name in results.conditions(result):
            if not results.has_classifier(result, name) or frames not in results.budgets(result):
                continue
            cell = results.kept(result, name, frames=frames)
            if cell is not None and results.learned(result, name, frames):
                found[name] = cell
    return found


def common_budgets(group: list[Result]) -> list[int]:
    """Where at least two conditions with a classifier can be compared."""
    frames = sorted({budget for result in group for budget in results.budgets(result)})
    return [budget for budget in frames if len(kept_by_condition(group, budget)) > 1]


def order(cells: dict[str, Cell]) -> str:
    """Best first; `>` where the ranges over seeds are apart, `≳` where they overlap."""
    names = sorted(cells, key=lambda name: -cells[name].mean)
    said = f"`{names[0]}`"
    for better, worse in itertools.pairwise(names):
        said += f" {'>' if cells[better].above(cells[worse]) else '≳'} `{worse}`"
    return said


def order_table(world: str, group: list[Result]) -> Table:
    """The order of the losses at every budget."""
    rows = [
        (results.millions(frames), order(kept_by_condition(group, frames)))
        for frames in common_budgets(group)
    ]
    note = "> : all seeds of one are above all of the next, intervals included; ≳ : they overlap."
    return Table(f"{world}: who keeps most, best first", ("frames", "order"), tuple(rows), (note,))


def _rows(group: list[Result]) -> list[tuple[str, ...]]:
    rows = []
    for result in group:
        for frames in results.budgets(result):
            free = _unmasked(group, frames)
            for name in results.conditions(result):
                if not results.has_classifier(result, name):
                    continue
                cells = [
                    results.number(result, name, "predicted", metric, frames)
                    for metric in ("invalid_share", "changed_share", "mask_errors")
                ]
                rows.append(
                    (
                        f"`{name}`",
                        results.millions(frames),
                        text(results.returns(result, name, "predicted", frames), ".2f"),
                        percent(results.kept(result, name, frames=frames)),
                        *(_share(cell) for cell in cells),
                        _difference(results.returns(result, name, "predicted", frames), free),
                    )
                )
    return rows


def _unmasked(group: list[Result], frames: int) -> Cell | None:
    for result in group:
        if frames in results.budgets(result):
            found = results.returns(result, "unmasked", "none", frames)
            if found is not None:
                return found
    return None


def _difference(mine: Cell | None, free: Cell | None) -> str:
    if mine is None or free is None:
        return "–"
    sure = mine.above(free) or free.above(mine)
    return f"{mine.mean - free.mean:+.2f}{'' if sure else ' (in doubt)'}"


def _share(cell: Cell | None) -> str:
    return "–" if cell is None else f"{100 * cell.mean:.2f} %"


def draw(found: Results, path: Path) -> None:
    """What is kept under predicted masks, over the frames."""
    curves: dict[str, dict[str, dict[float, Cell]]] = {}
    for world, group in by_world(found).items():
        for frames in common_budgets(group):
            for name, cell in kept_by_condition(group, frames).items():
                curves.setdefault(world, {}).setdefault(name, {})[frames] = cell
    sweep.draw_points(curves, path, "frames", "return kept under predicted masks", frames=True)


EXPERIMENT = Experiment(
    about="acting without the oracle: what is kept, and which loss keeps most at which budget",
    paper="RQ4, Table 1",
    studies=(*TABLE_ONE, "classic-loop", "corridor-loop", "full-loop"),
    tables=tables,
    draw=draw,
)
