"""Clocks: fields of an observation, or entries of them, that change by themselves. The memory of
failures leaves them out."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maskless.errors import MasklessError, UnknownNameError, require
from maskless.files import printable

_CLOCK = re.compile(r"(?P<field>[^\[\]]+)(\[\s*(?P<index>\d+\s*(,\s*\d+\s*)*)(,\s*)?\])?")
_LONGEST = 1000
_MOST = 1000
"""Clocks of a policy: with so many, and as many fields as there may be, loading takes seconds."""


def check_clocks(clock_fields: Sequence[str], fields: Mapping[str, Any]) -> None:
    """Refuses names of fields, or entries of them, that an observation does not have.

    `fields`: by name, whatever has the `shape` of one.
    """
    few = len(clock_fields) <= _MOST
    require(few, f"There are {len(clock_fields):,} clocks: an observation has at most {_MOST:,}.")
    for clock in clock_fields:
        field, index = parse_clock(clock)
        if field not in fields:
            raise UnknownNameError("observation field", field, fields)
        shape = fields[field].shape
        if index and not (len(index) == len(shape) and all(np.less(index, shape))):
            raise MasklessError(
                f"The clock {clock!r} needs {len(shape)} index numbers within the shape"
                f" {list(shape)} of {field!r}."
            )


def clock_entries(clock_fields: Sequence[str], name: str, shape: Sequence[int]) -> np.ndarray:
    """Which entries of the field `name` are clocks. bool[*shape]"""
    ignored = np.zeros(shape, bool)
    for field, index in map(parse_clock, clock_fields):
        if field == name:
            ignored[index] = True
    return ignored


def parse_clock(clock: str) -> tuple[str, tuple[int, ...]]:
    """The field's name and the index; () for the whole field."""
    parsed = _parsed(clock) if isinstance(clock, str) and len(clock) <= _LONGEST else None
    if parsed is None:
        raise MasklessError(
            "A clock is a field of the observation, or an entry FIELD[INDEX]; not"
            f" {printable(repr(clock), 100)}."
        )
    return parsed


@functools.lru_cache(maxsize=2 * _MOST)
def _parsed(clock: str) -> tuple[str, tuple[int, ...]] | None:
    found = _CLOCK.fullmatch(clock.strip())
    if found is None:
        return None
    numbers = (found["index"] or "").split(",")
    return found["field"].strip(), tuple(int(number) for number in numbers if number.strip())
