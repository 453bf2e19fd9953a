"""What the numbers of sentences are made of, and how they are written."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from maskless_paper import results
from maskless_paper.results import Cell, Point
from maskless_paper.study_files import Result

LOOP = "masked-loop:predicted_share=0.5"
MILLION = 1_000_000
Number = Callable[[], str]


@dataclasses.dataclass(frozen=True)
class Query:
    """A study, asked for numbers that it must have."""

    result: Result

    def returns(self, name: str, masks: str = "", frames: int | None = None) -> Cell:
        """Under the masks of training, unless `masks` says which; at the last budget, or that
        nearest to `frames`."""
        masks = masks or results.training_masks(name)
        at = results.budget(self.result, frames)
        return _known(results.returns(self.result, name, masks, at))

    def kept(self, name: str, frames: int | None = None, masks: str = "predicted") -> Cell:
        at = results.budget(self.result, frames)
        return _known(results.retained(self.result, name, masks, at))

    def final(self, metric: str, name: str, action: str | None = None) -> Cell:
        return _known(results.final(self.result, name, metric, action))

    def played(self, metric: str, name: str) -> Cell:
        """A metric of the evaluation under predicted masks."""
        return _known(results.metric(self.result, name, "predicted", metric))

    def lowest(self, name: str, action: str) -> list[Point]:
        """Where an action's probability is lowest, over a hundred states, of each seed."""
        return results.lowest_points(self.result, name, action, states=results.HEADLINE_STATES)

    @property
    def uniform(self) -> float:
        return 1 / len(self.result["action_names"])


@dataclasses.dataclass(frozen=True)
class Files:
    """All committed results."""

    studies: Mapping[str, Result]
    small: Mapping[str, Result]
    read: Callable[[str], Any]
    """Any other JSON below results/."""

    def __getitem__(self, study: str) -> Query:
        return Query(self.studies[study])


def _known(cell: Cell | None) -> Cell:
    assert cell is not None
    return cell


def together(texts: Iterable[str]) -> str:
    """a; a and b; a, b and c. What is the same is said once."""
    *most, last = dict.fromkeys(texts)
    return f"{', '.join(most)} and {last}" if most else last


def listed(texts: Iterable[str]) -> str:
    """The same, with every number of a row that goes with another."""
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def each(cell: Cell, form: str = ".1f") -> str:
    """Every seed's number."""
    return together(signed(value, form) for value in cell.values)


def each_percent(cell: Cell, digits: int = 0) -> str:
    """Every seed's share."""
    return together(signed(100 * value, f".{digits}f") for value in cell.values) + " %"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def scientific(value: float) -> str:
    """2e-8, 0.005."""
    return f"{value:.1g}".replace("e-0", "e-")


def signed(value: float, form: str) -> str:
    """With a true minus sign, and no negative zero."""
    return f"{value:z{form}}".replace("-", "\N{MINUS SIGN}")
