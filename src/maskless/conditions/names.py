"""Names of runs: a condition of the table and, after a colon, the numbers that differ from it."""

import dataclasses
import itertools
import re
from collections.abc import Iterable
from typing import Any

from maskless.conditions.condition import ALWAYS, Condition
from maskless.conditions.table import CONDITIONS
from maskless.errors import MasklessError, UnknownNameError
from maskless.hyperparameters import VARYING

_SWITCHES = tuple(field.name for field in dataclasses.fields(Condition) if field.type is bool)
_NUMBERS = tuple(field.name for field in dataclasses.fields(Condition) if field.type is float)


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(inf|nan)", re.IGNORECASE | re.ASCII)
_LONGEST_NAME = 1000


def condition(name: str) -> Condition:
    """The condition of this name; changes follow a colon: `masked-kl:strength=20,gamma=1`."""
    base, changes = _parse(name)
    own: dict[str, Any] = {
        field: bool(value) if field in _SWITCHES else value
        for field, value in changes.items()
        if field not in VARYING
    }
    chosen = dataclasses.replace(CONDITIONS[base], **own)
    _check(name, chosen)
    return chosen


def prudence_of(name: str) -> float:
    """`Condition.prudence` of a run of this name; of what is no run of ours, such as a policy by
    itself, the default."""
    known = name.partition(":")[0] in CONDITIONS
    return condition(name).prudence if known else Condition(masked=True).prudence


def numbers(name: str) -> dict[str, float]:
    """PPO's numbers in the name of a run: `masked:learning_rate=0.001` has one."""
    return {field: value for field, value in _parse(name)[1].items() if field in VARYING}


def grid(*conditions: str, **values: float | Iterable[float]) -> tuple[str, ...]:
    """Names for all combinations of conditions and numbers, to be trained in one program.

        maskless.train("staircase", maskless.grid("masked-kl", learning_rate=[1e-4, 3e-4]))

    Numbers are those of `Condition` and those of `Hyperparameters` that change no shape.
    """
    lists = {name: _as_tuple(name, value) for name, value in values.items()}
    names = []
    for base, chosen in itertools.product(conditions, itertools.product(*lists.values())):
        changes = [f"{name}={value!r}" for name, value in zip(lists, chosen, strict=True)]
        mark = "," if ":" in base else ":"
        names.append(base + (mark + ",".join(changes) if changes else ""))
        _parse(names[-1])
    return tuple(names)


def _as_tuple(name: str, value: Any) -> tuple[float | int, ...]:
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    given: list[Any] = list(value) if listed else [value]
    given = [x.item() if hasattr(x, "item") else x for x in given]  # NumPy's numbers, too
    if not given or not all(isinstance(number, int | float) for number in given):
        raise MasklessError(f"{name} needs one or more numbers, not {value!r}.")
    return tuple(given)


def _parse(name: str) -> tuple[str, dict[str, float]]:
    """The condition that a run's name begins with, and the numbers that follow."""
    if len(name) > _LONGEST_NAME:
        raise MasklessError(f"The name of a condition is too long: {name[:80]!r}...")
    base, _, changes = name.partition(":")
    if base not in CONDITIONS:
        raise UnknownNameError("condition", base, CONDITIONS)
    values = {}
    for change in changes.split(",") if changes else []:
        field, _, text = change.partition("=")
        known = (*_NUMBERS, *_SWITCHES, *VARYING)
        if field not in known:
            raise UnknownNameError(f"part of the condition {base}", field, known)
        text = {"True": "1", "False": "0"}.get(text, text)
        if not _NUMBER.fullmatch(text):  # float takes more, which would be in a folder's name
            raise MasklessError(f"{change!r} in {name!r} needs a number: {field}=0.5.")
        values[field] = float(text)
        if field in _SWITCHES and values[field] not in (0.0, 1.0):
            raise MasklessError(f"{field} in {name!r} must be 0 or 1.")
    return base, values


_SHARES = (
    *("threshold", "kl_share", "predicted_share", "clone_share", "explore", "distil_below"),
    *("label_noise", "labelled_share", "labelled_states", "labelled_actions", "balance"),
)
_NEGATIVE = ("soft_mask",)
_LARGEST_PRUDENCE = 2**20


def _check(name: str, condition: Condition) -> None:
    for field in _NUMBERS:
        value = getattr(condition, field)
        if field in _SHARES and not 0.0 <= value <= 1.0:
            raise MasklessError(f"{field} in {name!r} must be between 0 and 1.")
        if field in _NEGATIVE and not -float("inf") < value <= 0.0:
            raise MasklessError(f"{field} in {name!r} must be a number of at most 0.")
        if field not in (*_SHARES, *_NEGATIVE, "prudence") and not 0.0 <= value < float("inf"):
            raise MasklessError(f"{field} in {name!r} must be a number of at least 0.")
    number = condition.prudence
    if number != -1 and not (0 <= number < _LARGEST_PRUDENCE and number == int(number)):
        raise MasklessError(
            f"prudence in {name!r} must be a whole number: the sum of 1, 2, 4, ... for the rules"
            " that apply, or -1 for those that the environment was made with."
        )
    if condition.predicted_share and not condition.has_classifier:
        raise MasklessError(
            f"{name!r} acts under predicted masks but trains no classifier: give it a strength."
        )
    if condition.clone_share and not condition.has_clone:
        raise MasklessError(f"{name!r} acts by a clone but trains none: give it clone=1.")
    for part, whole in _PARTS.items():
        if getattr(condition, part) and not getattr(condition, whole):
            raise MasklessError(f"{part} in {name!r} means nothing without {whole}.")
    if condition.replaces and condition.masked:
        raise MasklessError(f"{name!r} is under masks: there is nothing to replace.")


_PARTS = {
    "tolerance": "predicted_share",
    "learns_replaced": "replaces",
    "importance": "unmasked_ratio",
    "confidence": "ridge",
}
"""Numbers that only mean something beside another one."""


def name_of(condition: Condition) -> str:
    """A name that `condition` turns back into these values."""
    base = CONDITIONS["masked" if condition.masked else "unmasked"]
    changes = {
        field: float(getattr(condition, field))
        for field in (*_NUMBERS, *_SWITCHES)
        if getattr(condition, field) != getattr(base, field)
    }
    return grid("masked" if condition.masked else "unmasked", **changes)[0]


def identity(condition: Condition) -> dict[str, float]:
    """The numbers that tell a condition from others, for checkpoints: those that are used. (As
    there were fewer of them, older checkpoints have fewer.)"""
    return {
        field.name: float(getattr(condition, field.name))
        for field in dataclasses.fields(condition)
        if field.name in (*ALWAYS, "predicted_share") or condition.uses(field.name)
    }
