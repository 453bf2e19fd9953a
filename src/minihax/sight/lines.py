"""Free lines of sight from the hero to all squares around him, by slope instead of by square.

The game draws a Bresenham line: one step along the longer axis at a time, the shorter coordinate
rounded (a half goes up). After i steps toward a target that lies `short` to the side and `long`
ahead the line is at floor(i * short / long + 1/2): it depends on the slope short/long only.
So there is one bit for each slope, "still free", and one pass outward: at step i, every blocked
square clears the slopes that run through it, which are neighbours in the sorted list of slopes.
A target's line is free if its slope still is when the pass arrives, before its own square counts.

Everything is seen in an octant: step i has a word whose bit j is the square i ahead, j aside.
"""

import dataclasses
import functools
import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32

from minihax import transforms

ONES = np.uint32(0xFFFFFFFF)
_MOST_UNROLLED = 400
"""Up to so many targets are picked by straight code: ten times faster than indexing on a CPU, but
it has to be compiled."""


@dataclasses.dataclass(frozen=True)
class _Tables:
    """Where the slopes of each step are. Axis 0 is the step i - 1, for i = 1..max_long."""

    target_word: np.ndarray
    """[steps, sides] the word that holds the slope of the target `side + 1` aside."""
    target_bit: np.ndarray
    """[steps, sides] and its bit there."""
    side: np.ndarray
    """[steps, words, terms] a square that some slopes of the word run through, and"""
    spared: np.ndarray
    """[steps, words, terms] the slopes of the word that do not."""

    @property
    def words(self) -> int:
        return self.side.shape[1]


@functools.cache
def slope_tables(max_long: int, max_short: int) -> _Tables:
    """For the targets 1..max_long ahead and 1..max_short aside (never more than ahead)."""
    reach: dict[Fraction, int] = {}  # slope -> the farthest target that has it
    for long in range(1, max_long + 1):
        for short in range(1, min(long, max_short) + 1):
            reach[Fraction(short, long)] = long
    slopes = sorted(reach)
    number = {slope: index for index, slope in enumerate(slopes)}
    words = math.ceil(len(slopes) / 32)

    target = np.zeros((max_long, max_short), np.int64)
    through: list[list[dict[int, int]]] = []  # [step][word]: side -> the slopes through it
    for step in range(1, max_long + 1):
        for short in range(1, min(step, max_short) + 1):
            target[step - 1, short - 1] = number[Fraction(short, step)]
        sides: list[dict[int, int]] = [{} for _ in range(words)]
        for index, slope in enumerate(slopes):
            if reach[slope] > step:
                side = math.floor(slope * step + Fraction(1, 2))
                squares = sides[index // 32]
                squares[side] = squares.get(side, 0) | (1 << (index % 32))
        through.append(sides)

    terms = max(len(squares) for sides in through for squares in sides)
    side_table = np.zeros((max_long, words, terms), np.uint32)
    spared = np.full((max_long, words, terms), ONES, np.uint32)
    for i, sides in enumerate(through):
        for word, squares in enumerate(sides):
            for term, (side, mask) in enumerate(sorted(squares.items())):
                side_table[i, word, term] = side
                spared[i, word, term] = ONES ^ np.uint32(mask)
    return _Tables(
        (target // 32).astype(np.int32), (target % 32).astype(np.uint32), side_table, spared
    )


def free_lines(
    opaque_true: Bool[Array, ""], clear: UInt32[Array, "long lanes"], *, max_short: int
) -> UInt32[Array, "long lanes"]:
    """Which targets of an octant have a free line (`opaque_true`: see `materialise`).

    `clear[i - 1]` has bit j set when the square i ahead and j aside can be seen through. In the
    result, bit j of word i - 1 tells whether all squares strictly between hero and (i, j) are
    clear; it has a meaning for 1 <= j <= min(i, max_short).
    """
    tables = slope_tables(clear.shape[0], max_short)

    def step(free: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        here, side, spared = inputs
        before = free
        for term in range(side.shape[1]):
            seen_through = (here >> side[:, term, None]) & np.uint32(1)
            free = free & ((np.uint32(0) - seen_through) | spared[:, term, None])
        return free, before

    start = jnp.full((tables.words, clear.shape[1]), ONES)
    _, free = transforms.scan(
        step, start, (clear, jnp.asarray(tables.side), jnp.asarray(tables.spared))
    )
    return transforms.materialise(
        opaque_true, functools.partial(_pick_targets, tables=tables), free
    )


def _pick_targets(
    free: UInt32[Array, "long words lanes"], tables: _Tables
) -> UInt32[Array, "long lanes"]:
    """Collects the bits of the targets of each step from the slopes that were free then."""
    steps, sides = tables.target_word.shape
    if steps * sides > _MOST_UNROLLED:
        chosen = free[np.arange(steps)[:, None], tables.target_word]  # [steps, sides, lanes]
        bits = (chosen >> tables.target_bit[..., None]) & np.uint32(1)
        places = np.uint32(1) << np.arange(1, sides + 1, dtype=np.uint32)
        return jnp.sum(bits * places[:, None], axis=1, dtype=jnp.uint32)
    picked = []
    for i in range(steps):
        lines = jnp.zeros_like(free[0, 0])
        for k in range(min(i + 1, sides)):
            bit = (free[i, int(tables.target_word[i, k])] >> tables.target_bit[i, k]) & np.uint32(1)
            lines = lines | (bit << np.uint32(k + 1))
        picked.append(lines)
    return jnp.stack(picked)
