"""Names that somebody else chose, made harmless: in a terminal, in a figure, as a file's name."""

import hashlib
import re
import unicodedata

_LONGEST_FILE_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._+=,@-]+")
# Of letters that are not printable, those that words and emojis are joined with.
_JOINERS = "\u200c\u200d"


def printable(text: str, most: int | None = None) -> str:
    """`text` without what moves the cursor, changes colours or turns the direction of writing: such
    characters are shown as `\\x1b` is. Line breaks stay. `most`: so many characters at most."""
    if not text.isprintable():
        spelled_out = (c.encode("unicode_escape").decode() for c in text)
        text = "".join(
            c if _is_harmless(c) else code for c, code in zip(text, spelled_out, strict=True)
        )
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


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
