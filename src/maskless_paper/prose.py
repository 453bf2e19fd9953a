"""Numbers in sentences: filled in from the committed results, as tables are.

    In Classic <!--n classic-kl-kept-->89 %<!--/n--> are kept.

`fill` puts the number of that name (`maskless_paper.numbers`) between the two comments. `unbacked`
finds numbers that somebody typed: every other number of a page must be allowed, with its reason, in
results/typed-numbers.toml.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from maskless.errors import UnknownNameError

_NUMBER = re.compile(r"<!--n ([a-z0-9-]+)-->.*?<!--/n-->", re.DOTALL)
_BLOCK = re.compile(r"<!-- ([a-z-]+) -->\n.*?<!-- /\1 -->", re.DOTALL)
_NOT_PROSE = (
    re.compile(r"```.*?```", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"``.+?``|`[^`\n]+(?:\n[^`\n]+)?`"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"https?://\S+"),
)
_DIGITS = re.compile(r"[^\s|(\[]*\d[^\s|)\]]*")


def fill(text: str, numbers: Mapping[str, Callable[[], str]]) -> str:
    """The text with every number between its comments made anew."""

    def made(found: re.Match[str]) -> str:
        name = found[1]
        if name not in numbers:
            raise UnknownNameError("number", name, numbers)
        return f"<!--n {name}-->{numbers[name]()}<!--/n-->"

    return _NUMBER.sub(made, text)


def unbacked(text: str, typed: Sequence[str]) -> list[str]:
    """Words with a digit that no file backs: neither made by `fill`, nor in a table that is made,
    nor matched by one of the patterns of what may be typed. Code and links do not count."""
    rest = _BLOCK.sub(" ", _NUMBER.sub(" ", text))
    for pattern in _NOT_PROSE:
        rest = pattern.sub(" ", rest)
    rest = " ".join(rest.split())
    for allowed in typed:
        rest = re.sub(allowed, " ", rest)
    return _DIGITS.findall(rest)
