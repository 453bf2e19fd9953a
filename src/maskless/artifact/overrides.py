"""Rules that a person adds to a policy, applied after the prediction of the mask.

    Override("descend", "never", when="blstats[10] < 5")

A rule names an action, what happens to it ("never" or "always" valid, or another "threshold"), and
perhaps the observations it is for. The rules are applied in their order, so the last one decides.
A condition is `FIELD[INDEX] OP NUMBER`, read by a regular expression; nothing is executed.
What is computed is computed with the operators of the arrays that are given, NumPy's or JAX's.
"""

import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maskless.artifact.fields import Field
from maskless.errors import MasklessError, UnknownNameError, require
from maskless.files import check_type, printable

EFFECTS = ("never", "always", "threshold")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_CONDITION = re.compile(
    r"\s*(?P<field>\w[\w.]*)\s*(\[(?P<index>\s*\d+\s*(,\s*\d+\s*)*)\])?"
    r"\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<number>[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)\s*"
)
_LONGEST_CONDITION = 1000
"""Characters: the expression takes seconds for a hundred thousand that do not fit it."""
_MOST_RULES = 128
"""Compiling a policy with so many takes ten seconds."""


@dataclasses.dataclass(frozen=True)
class Override:
    """One rule."""

    action: str
    effect: str
    """One of `EFFECTS`."""
    threshold: float | None = None
    """For the effect "threshold": valid above this predicted probability."""
    when: str | None = None
    """The states it is for, such as "observation[3] > 0"; None: all."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(entry: Any) -> "Override":
        """The rule that `to_json` wrote; refuses anything else."""
        known = {field.name for field in dataclasses.fields(Override)}
        if not isinstance(entry, dict) or entry.keys() != known:
            raise MasklessError("An override is not an entry with an action and an effect.")
        try:
            return check_type(entry, Override)
        except MasklessError as error:
            raise MasklessError(f"An override: {error}.") from error

    def __str__(self) -> str:
        effect = {"never": "is never valid", "always": "is always valid"}.get(
            self.effect, f"is valid above {self.threshold}"
        )
        return f"{self.action} {effect}" + (f" when {self.when}" if self.when else "")


@dataclasses.dataclass(frozen=True)
class Condition:
    """`field[index] op number`, parsed and checked."""

    field: Field
    index: tuple[int, ...]
    op: str
    number: float

    def holds(self, fields: Mapping[str, Any]) -> Any:
        """For each observation of a batch, {name: [batch, ...]}: bool[batch]."""
        values = fields[self.field.name][(slice(None), *self.index)]
        if np.issubdtype(np.dtype(self.field.dtype), np.floating):
            return _OPERATORS[self.op](values.astype(np.float32), np.float32(self.number))
        # Integers are compared as integers: float32 cannot tell large ones apart.
        kind = _integer_kind(self.field)
        return _OPERATORS[self.op](values.astype(kind), kind(self.number))


def _integer_kind(field: Field) -> Any:
    return np.uint32 if field.dtype == "uint32" else np.int32


def parse_condition(text: str, fields: Sequence[Field]) -> Condition:
    """The condition in `text`, for observations with these fields."""
    parsed = _CONDITION.fullmatch(text) if len(text) <= _LONGEST_CONDITION else None
    if not parsed:
        raise MasklessError(
            f"The condition {printable(repr(text), 100)} must have the form FIELD[INDEX] OP NUMBER,"
            f" such as '{_example(fields)} > 0' (OP is one of {' '.join(_OPERATORS)})."
        )
    by_name = {field.name: field for field in fields}
    if parsed["field"] not in by_name:
        raise UnknownNameError("observation field", parsed["field"], by_name)
    field = by_name[parsed["field"]]
    index = tuple(int(part) for part in (parsed["index"] or "").split(",") if part.strip())
    require(
        len(index) == len(field.shape) and all(np.less(index, field.shape)),
        f"The field {field.name!r} has the shape {list(field.shape)}, so {text!r} needs"
        f" {len(field.shape)} index numbers within it.",
    )
    number = float(parsed["number"])
    if np.issubdtype(np.dtype(field.dtype), np.floating):
        finite = abs(number) <= float(np.finfo(np.float32).max)
        require(finite, f"The number in {text!r} is too large.")
    else:
        limits = np.iinfo(_integer_kind(field))
        require(
            limits.min <= number <= limits.max and number == int(number),
            f"The field {field.name!r} holds integers: compare it with one, not with"
            f" {parsed['number']}.",
        )
    return Condition(field, index, parsed["op"], number)


def check_overrides(
    overrides: Sequence[Override], action_names: Sequence[str], fields: Sequence[Field]
) -> None:
    """Refuses rules that name what there is not, or that leave no action to choose."""
    few = len(overrides) <= _MOST_RULES
    require(few, f"There are {len(overrides):,} overrides: a policy has at most {_MOST_RULES}.")
    for rule in overrides:
        if rule.action not in action_names:
            raise UnknownNameError("action", rule.action, action_names)
        if rule.effect not in EFFECTS:
            raise UnknownNameError("effect of an override", rule.effect, EFFECTS)
        needs = rule.effect == "threshold"
        require(
            needs == (rule.threshold is not None),
            f"The override of {rule.action!r} {'needs' if needs else 'takes no'} threshold.",
        )
        possible = rule.threshold is None or 0.0 <= rule.threshold <= 1.0
        require(possible, f"A threshold is between 0 and 1, not {rule.threshold}.")
        if rule.when is not None:
            parse_condition(rule.when, fields)
    last = {rule.action: rule.effect for rule in overrides if rule.when is None}
    all_forbidden = all(last.get(name) == "never" for name in action_names)
    require(not all_forbidden, "The overrides forbid every action: leave one to choose.")


@dataclasses.dataclass(frozen=True)
class Rules:
    """The overrides of a policy as a function on masks."""

    overrides: tuple[Override, ...]
    action_names: tuple[str, ...]
    fields: tuple[Field, ...]

    @functools.cached_property
    def _parsed(self) -> list[tuple[Override, np.ndarray, Condition | None]]:
        """Each rule, the action that it is about [actions], and its condition."""
        return [
            (
                rule,
                np.array([name == rule.action for name in self.action_names]),
                None if rule.when is None else parse_condition(rule.when, self.fields),
            )
            for rule in self.overrides
        ]

    def apply(self, leaves: Sequence[Any], validity: Any, mask: Any) -> tuple[Any, Any, list[Any]]:
        """The mask after all rules; where a rule forbids an action; and for each rule where it
        changed the mask ([batch] each).

        `leaves`: the observation in the order of the fields. `validity`: predicted probabilities,
        float[batch, actions]. `mask`: bool[batch, actions].
        """
        observed = {field.name: leaf for field, leaf in zip(self.fields, leaves, strict=True)}
        forbidden = mask & False
        changed = []
        for rule, column, condition in self._parsed:
            here = column if condition is None else condition.holds(observed)[:, None] & column
            allowed: Any = rule.effect == "always"
            if rule.effect == "threshold":
                allowed = validity > np.float32(rule.threshold)
            changed.append((here & (mask != allowed)).any(-1))
            # No where: ONNX Runtime cannot choose between booleans.
            mask = (here & allowed) | (~here & mask)
            forbidden = forbidden | here if rule.effect == "never" else forbidden & ~here
        return mask, forbidden, changed


def _example(fields: Sequence[Field]) -> str:
    field = fields[0]
    index = f"[{', '.join('0' for _ in field.shape)}]" if field.shape else ""
    return f"{field.name}{index}"
