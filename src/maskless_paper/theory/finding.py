"""What a check of a statement found."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

Verdict = Literal["holds", "false as printed", "holds after correction", "correction fails"]

IDENTITY = 1e-12
"""Two numbers that are equal on paper may differ by this much."""
ROUNDING = 1e-9
"""A bound on a log-probability, summed over thousands of steps, may be missed by this much."""


@dataclasses.dataclass(frozen=True)
class Size:
    """How much to check."""

    seed: int = 0
    mdps: int = 1000
    """Random MDPs and feature maps per statement."""

    @property
    def mixed(self) -> int:
        """`mixed_problems` per statement: enough that many meet a statement's conditions."""
        return max(self.mdps, 100)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A statement, whether it held in every check, and the numbers behind that."""

    claim: str
    paper: str
    """Where it is in the paper."""
    printed: bool
    """It held as printed."""
    corrected: bool | None
    """The corrected statement held; None where there is none."""
    evidence: str
    numbers: Mapping[str, float]
    correction: str = ""
    """The corrected statement, where there is one."""
    curves: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the figures draw: numbers and arrays by name."""

    @property
    def verdict(self) -> Verdict:
        if self.printed:
            return "holds"
        if self.corrected is None:
            return "false as printed"
        return "holds after correction" if self.corrected else "correction fails"

    def to_json(self) -> dict[str, Any]:
        """Everything, for theory.json."""
        return {
            "claim": self.claim,
            "paper": self.paper,
            "correction": self.correction,
            "verdict": self.verdict,
            "evidence": self.evidence,
            "numbers": {name: float(value) for name, value in self.numbers.items()},
            "curves": {name: np.asarray(c).tolist() for name, c in self.curves.items()},
        }


Statement = Callable[[Size], Finding]
