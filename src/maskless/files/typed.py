"""JSON of declared types: `read_json(path, Config)` gives a `Config` or says what is wrong where.

A type is anything that msgspec understands: dataclasses, TypedDicts, list[float | None], ...
"""

import functools
import json
import math
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from maskless.errors import MasklessError
from maskless.files.names import printable
from maskless.files.reading import UnreadableError, read_bytes

Size = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
"""A whole number that counts something."""
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Number = Annotated[float, msgspec.Meta(ge=-1e40, le=1e40)]
"""What a float32 can be, which all that is measured has been: figures overflow beyond it."""
Probability = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
DEEPEST = 64
"""Levels of lists and objects inside one another."""
_LARGEST_WHOLE = 2**63
_LARGEST_JSON = 2**22  # bytes: what is read of it can be thirty times as large
_Place = tuple[Any, str] | None
"""A field, as (the one around it, its name): the whole name may be long, and is made for errors."""
# What msgspec says, and how it goes on after the name of a field.
_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<place>.*)`)?", re.DOTALL)
_WORDS = {
    r"Object missing required field `(.*)`": r"lacks '\1'",
    r"Expected `(.*)`, got `(.*)`": r"must be \1, not \2",
    r"Expected `(.*)` ([<>=]+) (.*)": r"must be \1 \2 \3",
    r"^(?!lacks|must)": "is wrong: ",
}


def read_json(path: Path, kind: Any = Any, *, most: int = _LARGEST_JSON, advice: str = "") -> Any:
    """The JSON file as a `kind`. `most`: its size in bytes; `advice`: what to do if it is damaged,
    as the end of a sentence."""
    try:
        return parse_json(read_bytes(path, most=most), kind)
    except UnreadableError as error:
        raise type(error)(path, error.reason, advice) from error
    except MasklessError as error:
        raise UnreadableError(path, str(error).rstrip("."), advice) from error


def parse_json(content: bytes, kind: Any = Any) -> Any:
    """The same for what was read before. The error says what is wrong, not in which file."""
    try:
        parsed = json.loads(content.decode("utf-8"))
        _check(parsed)
    except UnicodeDecodeError as error:
        raise MasklessError(f"it is not text in UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise MasklessError(f"it is nested more than {DEEPEST} levels deep") from error
    except ValueError as error:
        raise MasklessError(f"it is not JSON ({error})") from error
    return check_type(parsed, kind)


def parse_line(line: bytes, kind: Any) -> Any:
    """One line of many, ten times as fast. `kind` must have no `Any` in it: the depth and the size
    of the numbers are those of the type."""
    try:
        return _decoder(kind).decode(line)
    except msgspec.ValidationError as error:
        raise MasklessError(_in_words(error)) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise MasklessError(f"it is not JSON ({error})") from error


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder:
    return msgspec.json.Decoder(kind)


def check_type(content: Any, kind: Any) -> Any:
    """What JSON can hold, as a `kind`."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise MasklessError(_in_words(error)) from error


def _in_words(error: msgspec.ValidationError) -> str:
    """'ppo.num_envs' must be int, not str"""
    found = _MESSAGE.fullmatch(str(error))
    what, place = (found["what"], found["place"]) if found else (str(error), None)
    for pattern, words in _WORDS.items():
        what = re.sub(pattern, words, what)
    return f"{repr(printable(place, 100)) if place else 'it'} {what}"


def _check(content: Any) -> None:
    """Refuses what can be written in JSON and used nowhere: depth, numbers that are not finite or
    have hundreds of digits, halves of characters."""
    waiting: list[tuple[Any, _Place, int]] = [(content, None, 0)]
    while waiting:
        value, place, level = waiting.pop()
        kind = type(value)  # one of JSON's; there may be a million of them
        if kind in (dict, list) and level >= DEEPEST:
            raise MasklessError(f"it is nested more than {DEEPEST} levels deep")
        if kind is dict:
            waiting += [(name, place, level) for name in value if not name.isascii()]
            waiting += [(x, (place, name), level + 1) for name, x in value.items()]
        elif kind is list:
            waiting += [(x, place, level + 1) for x in value]
        elif kind is str and not value.isascii():
            _check_text(value, place)
        elif kind is float and not math.isfinite(value):
            raise MasklessError(f"{_name_of(place)} is not a finite number")
        elif kind is int and abs(value) > _LARGEST_WHOLE:
            raise MasklessError(f"{_name_of(place)} is a number out of range")


def _check_text(content: str, place: _Place) -> None:
    try:
        content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MasklessError(f"{_name_of(place)} holds half of a character (a surrogate)") from error


def _name_of(place: _Place) -> str:
    """The field, short enough and safe to be shown: it may hold anything itself."""
    names = []
    while place is not None:
        place, name = place
        names.append(name)
    whole = ".".join(reversed(names))
    return printable(whole.encode("utf-8", "replace").decode(), 100) or "it"
