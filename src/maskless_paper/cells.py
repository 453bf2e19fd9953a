"""A number of one condition: the value of every seed, and a range."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from maskless import statistics

SEEDS = statistics.SEEDS


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number of one condition: the value of every seed, and a range."""

    values: tuple[float, ...]
    """Of the seeds."""
    low: float
    """Of fewer than three seeds, the lowest of their own 95 % intervals over episodes; of more, the
    end of the 95 % bootstrap interval over seeds and episodes."""
    high: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def middle(self) -> float:
        """The interquartile mean: of fewer than four seeds, their mean."""
        return float(statistics.interquartile_mean(np.array(self.values)))

    def above(self, other: "Cell") -> bool:
        """Whether the ranges are apart, with at least three seeds of each: those of two seeds are
        apart by chance too often."""
        return min(len(self.values), len(other.values)) >= SEEDS and self.low > other.high


def cell(values: Iterable[float | None]) -> Cell | None:
    """Of numbers without intervals of their own. None and NaN are left out; None where no seed is
    left."""
    seeds = [value for value in values if value is not None and value == value]
    return cell_of(seeds, seeds, seeds, [0.0] * len(seeds)) if seeds else None


def cell_of(
    seeds: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    errors: Sequence[float],
) -> Cell:
    """Of seeds with the ends of their own intervals, and with their standard errors."""
    low, high = min(lows), max(highs)
    if len(seeds) >= SEEDS:
        draws = statistics.bootstrap(
            [np.array(seeds)],
            lambda strata: statistics.interquartile_mean(strata[0]),
            errors=[np.array(errors)],
        )
        low, high = statistics.percentile_interval(draws)
    return Cell(tuple(seeds), low, high)
