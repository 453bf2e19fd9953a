"""Clocks: fields of an observation, or entries of them, that change by themselves. The memory of
failures leaves them out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maskless.errors import MasklessError, UnknownNameError

_CLOCK = re.compile(r"\s*(?P<field>[^\[\]]+?)\s*(\[(?P<index>[\d\s,]+)\])?\s*")


def check_clocks(clock_fields: Sequence[str], fields: Mapping[str, Any]) -> None:
    """Refuses names of fields, or entries of them, that an observation does not have.

    `fields`: by name, whatever has the `shape` of one.
    """
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
    parsed = _CLOCK.fullmatch(clock) if isinstance(clock, str) else None
    if not parsed:
        raise MasklessError(
            f"A clock is a field of the observation, or an entry FIELD[INDEX]; not {clock!r}."
        )
    numbers = (parsed["index"] or "").split(",")
    return parsed["field"], tuple(int(number) for number in numbers if number.strip())
