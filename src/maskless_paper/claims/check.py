"""`Check`: one thing that a claim says, what our runs say of it, and helpers to make one."""

import dataclasses
from collections.abc import Callable, Sequence

from maskless_paper.results import SEEDS, Cell
from maskless_paper.study_files import Result

COLLAPSED = 1 / 3
"""Below this share of its oracle return a policy has collapsed."""
RETAINED = 0.95
"""A policy that keeps at least this share of its oracle return has lost nothing."""
SIMILAR = 0.07
"""Returns within this share of the highest are similar."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing a claim says, and what our runs say of it."""

    says: str
    ours: str
    holds: bool | None
    """None: open, because it was not run, or not for long enough."""


Judge = Callable[[Result], Sequence[Check]]
"""The checks of a claim, from one result."""


def compare(
    says: str,
    cell: Cell | None,
    test: Callable[[float], bool],
    *,
    form: str = ".2f",
    ours: str = "{}",
    decides: bool = True,
    final: bool = True,
) -> Check:
    """Whether every seed passes the test. `ours`: the text around the number; `decides`: False
    where the run is too short for an answer; `final`: False where a "no" may still become "yes"."""
    holds = once_true(every_seed(cell, test), final) if decides else None
    return Check(says, ours.format(show(cell, form)), holds)


def every_seed(cell: Cell | None, test: Callable[[float], bool]) -> bool | None:
    """None where the seeds disagree."""
    return None if cell is None else unanimous([test(value) for value in cell.values])


def unanimous(answers: Sequence[bool]) -> bool | None:
    """What all say; None where they disagree."""
    return answers[0] if len(set(answers)) == 1 else None


def between(low: float, high: float) -> Callable[[float], bool]:
    return lambda value: low <= value <= high


def once_true(holds: bool | None, final: bool) -> bool | None:
    """For what stays true once it is: open as long as it may still become true."""
    return holds if holds or final else None


def is_above(one: Cell | None, other: Cell | None) -> bool | None:
    """The order of two conditions: decided by ranges that are apart, of at least three seeds."""
    if one is None or other is None:
        return None
    if one.above(other):
        return True
    return False if other.above(one) else None


def enough_seeds(*cells: Cell) -> bool:
    """Whether there are seeds enough to say which of them is higher."""
    return min(len(cell.values) for cell in cells) >= SEEDS


def similar(means: Sequence[float]) -> bool:
    return relative_spread(means) <= SIMILAR


def relative_spread(means: Sequence[float]) -> float:
    """The distance of the lowest from the highest, as a share of it."""
    return (max(means) - min(means)) / abs(max(means))


def show(cell: Cell | None, form: str = ".2f") -> str:
    """A mean with its range, where there is one."""
    if cell is None:
        return "–"
    # `z`: no zero is negative
    mean, low, high = (f"{number:z{form}}" for number in (cell.mean, cell.low, cell.high))
    return mean if low == high else f"{mean} ({low} to {high})"


def versus(one: Cell | None, other: Cell | None) -> str:
    """Both, and whether all seeds lie on one side, which alone decides nothing."""
    said = f"{show(one)} against {show(other)}"
    if one is None or other is None or len(one.values) < 2:
        return said
    if max(one.values) < min(other.values):
        return f"{said}, every seed lower"
    return f"{said}, every seed higher" if min(one.values) > max(other.values) else said
