"""The squares in free view of the hero, lit or not: NetHack 3.6.6's rules, on bitmaps.

The view is built in four quadrants (down or up, times right or left), in coordinates relative to
the hero: row 0 and column 0 are his own, and bits go outward. In each quadrant the rows follow one
another away from the hero, because what is visible in a row depends on the row before it:

- a *free line* (lines.py) reaches a square when all squares on the line to it are clear;
- the *carried* set of a row is what is visible of its clear squares and of the walls that end
  their runs: the next row can be seen from there.

All of it runs twice: for all quadrants within 20 columns, where a row is one word, and then at full
width for the few quadrants (about one in fifty) whose view goes farther.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from minihax import transforms
from minihax.level.terrain import HEIGHT, WIDTH
from minihax.sight import bitmaps
from minihax.sight import lines as sight_lines
from minihax.sight.bitmaps import Bitmap, each

Lanes = Int32[Array, " _lanes"]
Words = UInt32[Array, "21 _lanes"]
_RowState = tuple[Bitmap, Bitmap, Array]  # carried, clear squares, columns reached so far

_LAST_ROW, _LAST_COLUMN = HEIGHT - 1, WIDTH - 1
NEAR = _LAST_ROW
"""The near view reaches this many columns to each side: as far as rows go, so that rows and
columns share one table of slopes, and a row fits into one word."""
WINDOW = np.uint32((2 << NEAR) - 1)
FORGOTTEN_COLUMN = WIDTH - 2


def could_see(opaque_true: Bool[Array, ""], clear: Bitmap, y: Lanes, x: Lanes) -> Bitmap:
    """The squares in free view of a hero at (y, x), given those that can be seen through.

    `opaque_true`: see `materialise`.
    """
    materialise = functools.partial(transforms.materialise, opaque_true)
    # Quadrants with the hero at (0, 0): columns dropped, the left mirrored, the upper half flipped.
    extended = materialise(_near_quadrants, materialise(_near_sides, clear, x))
    towards = jnp.concatenate([y, y, _LAST_ROW - y, _LAST_ROW - y])
    (near,) = bitmaps.drop_rows(opaque_true, (extended,), towards)
    lines = _near_lines(opaque_true, near)
    # The map's edge, where one rule differs (`_forgotten`), lies to the right only.
    edge = jnp.concatenate([FORGOTTEN_COLUMN - x, jnp.full_like(x, -1)] * 2)
    views, farther = _near_view(near, lines, edge)
    views = _far_views(opaque_true, views, farther, clear, y, x, lines, edge)
    # Back to the map: both sides of each half joined, then the half moved to the hero's row.
    halves = materialise(_put_sides_together, views, x)
    down = bitmaps.insert_rows(opaque_true, materialise(bitmaps.rows_before, halves[0]), y)
    up = bitmaps.insert_rows(
        opaque_true, materialise(bitmaps.rows_before, halves[1]), _LAST_ROW - y
    )
    return materialise(lambda down, up: each(lambda d, u: d | u[::-1], down, up), down, up)


# ---- the map relative to the hero: lanes are (down, up) x (right, left) x batch -----------------


def _near_sides(clear: Bitmap, x: Lanes) -> tuple[Words, Words]:
    """The columns right and left of the hero, from his own on."""
    right = bitmaps.drop_columns(clear, x, words=1)
    left = bitmaps.drop_columns(bitmaps.mirror(clear), _LAST_COLUMN - x, words=1)
    return right[0], left[0]


def _near_quadrants(sides: tuple[Words, Words]) -> UInt32[Array, "52 quadrants"]:
    both = jnp.concatenate(sides, axis=1)
    return bitmaps.rows_after((jnp.concatenate([both, both[::-1]], axis=1),))[0]


def _full_quadrants(
    opaque_true: Bool[Array, ""], clear: Bitmap, y: Lanes, x: Lanes, lane: Lanes
) -> Bitmap:
    """The full-width quadrants with the given numbers."""
    batch = y.shape[0]
    element, quadrant = lane % batch, lane // batch
    y, x = y[element], x[element]
    leftward, upward = (quadrant & 1) == 1, quadrant >= 2
    rows = each(lambda word: word[:, element], clear)
    rows = each(lambda a, b: jnp.where(leftward, a, b), bitmaps.mirror(rows), rows)
    rows = bitmaps.drop_columns(rows, jnp.where(leftward, _LAST_COLUMN - x, x))
    rows = each(lambda word: jnp.where(upward, word[::-1], word), rows)
    extended = transforms.materialise(opaque_true, bitmaps.rows_after, rows)
    return bitmaps.drop_rows(opaque_true, extended, jnp.where(upward, _LAST_ROW - y, y))


def _put_sides_together(views: Bitmap, x: Lanes) -> tuple[Bitmap, Bitmap]:
    """The view below and the view above the hero, rows still counted from his own."""
    batch = x.shape[0]

    def half(number: int) -> Bitmap:
        right, left = (
            each(lambda word, k=k: word[:, k * batch : (k + 1) * batch], views)
            for k in (2 * number, 2 * number + 1)
        )
        left = bitmaps.mirror(bitmaps.insert_columns(left, _LAST_COLUMN - x))
        return each(jnp.bitwise_or, bitmaps.insert_columns(right, x), left)

    return half(0), half(1)


# ---- lines ------------------------------------------------------------------------------------


def _near_lines(opaque_true: Bool[Array, ""], rows: Words) -> Words:
    """Free lines to the squares of the near quadrants: bit c of row r.

    The hero's own row and column need no line test: they are seen only as far as all squares
    before are clear.
    """
    materialise = functools.partial(transforms.materialise, opaque_true)
    lanes = rows.shape[1]
    # `free_lines` steps along the longer axis. Rows serve the steep octant (at least as many rows
    # as columns away), the transposed map serves the flat one.
    turned = materialise(bitmaps.transpose, jnp.pad(rows, ((0, 32 - HEIGHT), (0, 0))))
    octants = jnp.concatenate([rows[1:], turned[1:HEIGHT]], axis=1)
    lines = sight_lines.free_lines(opaque_true, octants, max_short=NEAR)
    steep, flat = lines[:, :lanes], lines[:, lanes:]
    flat = materialise(bitmaps.transpose, jnp.pad(flat, ((1, 31 - NEAR), (0, 0))))[:HEIGHT]
    in_steep = ((np.uint32(2) << np.arange(HEIGHT, dtype=np.uint32)) - 1)[:, None]  # 0..row
    steep = jnp.pad(steep, ((1, 0), (0, 0)))
    return materialise(lambda s, f: (s & in_steep) | (f & ~in_steep) | np.uint32(1), steep, flat)


def _full_lines(opaque_true: Bool[Array, ""], rows: Bitmap, near_lines: Words) -> Bitmap:
    """Free lines to all squares of full-width quadrants, given those to the near ones."""
    turn = functools.partial(transforms.materialise, opaque_true, bitmaps.transpose)
    turned = [turn(jnp.pad(word, ((0, 32 - HEIGHT), (0, 0)))) for word in rows]
    octants = jnp.concatenate(turned)[1:WIDTH]
    lines = sight_lines.free_lines(opaque_true, octants, max_short=_LAST_ROW)
    lines = jnp.pad(lines, ((1, 32 * bitmaps.WORDS - WIDTH), (0, 0)))
    words = [turn(lines[first : first + 32])[:HEIGHT] for first in range(0, lines.shape[0], 32)]
    words[0] = (words[0] & ~WINDOW) | (near_lines & WINDOW)
    return tuple(words)


# ---- views ------------------------------------------------------------------------------------


def _near_view(near: Words, lines: Words, edge: Lanes) -> tuple[Bitmap, Bool[Array, " lanes"]]:
    (seen,), farther = _view((near & WINDOW,), (lines,), edge)
    nothing = jnp.zeros_like(seen)
    return (seen & WINDOW, nothing, nothing), farther


def _far_views(
    opaque_true: Bool[Array, ""],
    views: Bitmap,
    farther: Bool[Array, " lanes"],
    clear: Bitmap,
    y: Lanes,
    x: Lanes,
    near_lines: Words,
    edge: Lanes,
) -> Bitmap:
    """Replaces the view of the quadrants that reach beyond `NEAR` columns.

    They are few (about one in fifty), so they are gathered from the whole batch, a thirty-second
    of it at a time, until none remains.
    """
    lanes = farther.shape[0]
    size = max(1, lanes // 32)

    def replace_some(state: tuple[Bitmap, Array]) -> tuple[Bitmap, Array]:
        views, remaining = state
        chosen = jnp.nonzero(remaining, size=size, fill_value=lanes)[0]
        lane = jnp.minimum(chosen, lanes - 1)
        rows = _full_quadrants(opaque_true, clear, y, x, lane)
        lines = _full_lines(opaque_true, rows, near_lines[:, lane])
        wide, _ = _view(rows, lines, edge[lane])
        views = each(lambda v, w: v.at[:, chosen].set(w, mode="drop"), views, wide)
        return views, remaining.at[chosen].set(False, mode="drop")

    return jax.lax.while_loop(lambda state: state[1].any(), replace_some, (views, farther))[0]


def _view(clear: Bitmap, lines: Bitmap, edge: Lanes) -> tuple[Bitmap, Bool[Array, " lanes"]]:
    """The free view in quadrants, from the hero's row outward.

    `edge` is the column where a wall can be forgotten, or negative. Also tells whether the view
    comes as far as column `NEAR`.
    """
    edge_row = bitmaps.single_column(edge, len(clear))
    hero = bitmaps.single_column(jnp.zeros_like(edge), len(clear))
    first_clear = each(lambda word, h: word[0] | h, clear, hero)
    run = bitmaps.flood(first_clear, hero)
    first = each(lambda r, o, c: r | (o & ~c), run, bitmaps.outward(run), first_clear)

    def one_row(state: _RowState, inputs: tuple[Bitmap, Bitmap]) -> tuple[_RowState, Bitmap]:
        carried, previous, reached = state
        here, free = inputs
        seen, carried = next_row(carried, previous, here, free, edge_row)
        return (carried, here, reached | carried[0]), seen

    inputs = each(lambda word: word[1:], clear), each(lambda word: word[1:], lines)
    (_, _, reached), seen = transforms.scan(one_row, (first, first_clear, first[0]), inputs)
    # The near view is cut off at column NEAR; a view that gets there is done again at full width.
    view = each(lambda f, s: jnp.concatenate([f[None], s]), first, seen)
    return view, ((reached >> NEAR) & 1).astype(bool)


def next_row(
    carried: Bitmap, previous: Bitmap, clear: Bitmap, free: Bitmap, edge: Bitmap
) -> tuple[Bitmap, Bitmap]:
    """One row: (the squares seen, the set carried to the next row).

    `carried` and `previous` (the clear squares) belong to the row before, toward the hero;
    `clear` and `free` (lines) to this one.
    """
    blocked = each(jnp.bitwise_not, clear)
    # Clear squares are seen along a run from a carried one, as far as lines are free.
    in_line = each(jnp.bitwise_and, clear, free)
    first_seen = each(jnp.bitwise_and, in_line, carried)
    seen_clear = bitmaps.flood(in_line, first_seen)
    # A blocked square that ends a visible run is seen if the view that comes along the run has it
    # already, or if it has a free line.
    joined = _joined(carried, previous)
    beside_seen = bitmaps.outward(seen_clear)
    # Beside the hero's own column a wall needs no line.
    free_end = (free[0] | np.uint32(2), *free[1:])
    ends = each(lambda b, s, j, f: b & s & (j | f), *(blocked, beside_seen, joined, free_end))
    # A wall that goes on behind a view is seen one square farther, unless that view has reached
    # it along this row already.
    beside_wall = bitmaps.outward(
        each(
            lambda p, b, e, j, q: p & b & ~(e & j) & q, *(carried, blocked, ends, joined, previous)
        )
    )
    forgotten = _forgotten(first_seen, joined, clear, free, edge)
    seen = each(
        lambda s, e, b, p, w, f: s | e | (b & (p | w) & ~f),
        *(seen_clear, ends, blocked, carried, beside_wall, forgotten),
    )
    return seen, each(jnp.bitwise_or, seen_clear, ends)


def _joined(carried: Bitmap, previous: Bitmap) -> Bitmap:
    """The carried squares that belong to the same view as the carried square before them.

    The game follows each opening of a row by itself. Two of its views can touch: one ends at a
    blocked square (a boulder, say), the next begins right behind it. They stay two, and what one
    has seen says nothing about the walls at the end of the other.
    """
    before = bitmaps.outward(each(jnp.bitwise_and, carried, previous))
    return each(jnp.bitwise_and, carried, before)


def _forgotten(
    visible: Bitmap, joined: Bitmap, clear: Bitmap, free: Bitmap, edge: Bitmap
) -> Bitmap:
    """The wall square at x = 78 that the real game forgets.

    When it looks along a clear run for the first visible square and finds none, it normally goes
    back to mark the wall at the end. But if it has come to the map's last column by then, which
    lies right behind a wall at x = 78, it stops before that. So this happens to a view that has the
    wall when, from its first square of the run on, neither the run nor the wall has a free line.
    `visible`: the clear squares under carried ones that have one.
    """
    along = each(jnp.bitwise_and, clear, joined)
    after = each(lambda a, v, b: a & (v | b), along, visible, bitmaps.outward(visible))
    found = each(jnp.bitwise_or, visible, bitmaps.flood(along, after))
    searched = bitmaps.outward(each(lambda c, v: c & ~v, clear, found))
    return each(lambda s, j, e, f: s & j & e & ~f, searched, joined, edge, free)
