"""Every number that a sentence of our pages tells, by name, made from the committed results.

    numbers(Files(studies, small, read))["detached-kept"]()   # "29 %"

query          `Files` and `Query`: what numbers are made of, and how they are written
suppression    first occurrence, lowest probabilities, feature correlation
kept           what is kept under predicted masks
masks          returns under the paper's masks, under right ones and under none
controls       the penalty, entropy, the ablation, the corridor
worlds         the same games annealed, with three seeds, and other worlds
"""

from maskless_paper.numbers import controls, kept, masks, methods, suppression, worlds
from maskless_paper.numbers.query import Files, Number

__all__ = ["Files", "Number", "numbers"]


def numbers(files: Files) -> dict[str, Number]:
    """All of them; each is made when it is called."""
    made: dict[str, Number] = {}
    for module in (suppression, kept, masks, controls, worlds, methods):
        own = module.numbers(files)
        assert not made.keys() & own.keys()
        made |= own
    return made
