"""Names that somebody else chose, made harmless: in a terminal, in a figure, as a file's name."""

import hashlib
import re
import unicodedata

_LONGEST_FILE_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._+=,@-]+")
_ODD = re.compile(r"[^\x20-\x7e\n\t]")
# Of letters that are not printable, those that words and emojis are joined with.
_JOINERS = "\u200c\u200d"


def printable(text: str, most: int | None = None) -> str:
    """`text` without what moves the cursor, changes colours or turns the direction of writing: such
    characters are shown as `\\x1b` is. Line breaks stay. `most`: so many characters at most."""
    if most is not None:
        text = text[: most + 1]  # it may have millions
    if not text.isprintable():
        text = _ODD.sub(_shown, text)
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    return character if _is_harmless(character) else character.encode("unicode_escape").decode()


def _is_harmless(character: str) -> bool:
    usual = character.isprintable() or character in "\n\t" + _JOINERS
    return usual or unicodedata.category(character) == "Zs"


def slug(name: str) -> str:
    """`name` as the name of one file or folder: no separators, not hidden, not too long."""
    safe = _UNSAFE.sub("-", name).lstrip(".")
    if len(safe) > _LONGEST_FILE_NAME:
        whole = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
        safe = f"{safe[:_LONGEST_FILE_NAME]}-{whole[:8]}"
    return safe or "unnamed"
