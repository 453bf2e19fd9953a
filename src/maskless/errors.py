"""Errors a user can cause and mend. The command line prints their one sentence and exits with 2."""

import difflib
from collections.abc import Iterable

_LONGEST, _MOST = 100, 100
"""Characters of a name, and names, in a message."""


class MasklessError(Exception):
    """Something the caller gave us is wrong; the message says what to do about it."""


class UnknownNameError(MasklessError):
    """A name that is not in a closed list. The message suggests the nearest one."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        # Both may come from a file: comparing long texts would take minutes.
        known = sorted(x[:_LONGEST] for x in known)
        near = difflib.get_close_matches(str(name)[:_LONGEST], known[:_MOST], n=1, cutoff=0.5)
        listed = ", ".join(known[:_MOST]) + (", ..." if known[_MOST:] else "")
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of: {listed}."
        super().__init__(f"Unknown {kind} {repr(name)[:_LONGEST]}: {hint}")


def require(condition: bool, otherwise: str) -> None:
    """Raises the sentence `otherwise` unless the condition holds."""
    if not condition:
        raise MasklessError(otherwise)
