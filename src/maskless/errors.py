"""Errors a user can cause and mend. The command line prints their one sentence and exits with 2."""

import difflib
from collections.abc import Iterable


class MasklessError(Exception):
    """Something the caller gave us is wrong; the message says what to do about it."""


class UnknownNameError(MasklessError):
    """A name that is not in a closed list. The message suggests the nearest one."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = sorted(known)
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of: {', '.join(known)}."
        super().__init__(f"Unknown {kind} {name!r}: {hint}")


def require(condition: bool, otherwise: str) -> None:
    """Raises the sentence `otherwise` unless the condition holds."""
    if not condition:
        raise MasklessError(otherwise)
