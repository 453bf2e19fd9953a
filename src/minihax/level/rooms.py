"""Where the rooms of a level go: NetHack's bookkeeping of free rectangles.

Rectangles are int32 rows (left, top, right, bottom), all inclusive. Rooms are made one after the
other; each takes a free rectangle, and what is left of it goes back on the list.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, PRNGKeyArray, UInt32

from minihax import struct
from minihax.level.random_bits import bits_to_int
from minihax.level.terrain import HEIGHT, WIDTH

Rectangle = Int32[Array, "4"]

ATTEMPTS = 101
_BLOCK = 4  # attempts evaluated side by side: most rooms find a place within these
# The game keeps 50 free rectangles. In 200,000 levels of five rooms there were 12 at most, and
# splits were nested 6 deep.
_CAPACITY = 24
_DEPTH = 12
_MARGIN_X, _MARGIN_Y = 4, 3  # squares around a new room that must be stone
_LEAST_SIZE = 2  # the smallest dx and dy that are tried; the floor has one square more
_MOST_SHRINKS = 5  # every shrink costs at least a row, and a room has at most six
_RIGHT, _BOTTOM = WIDTH - 1, HEIGHT - 1
_NOWHERE = 4 * WIDTH  # coordinates of a room that does not exist: no square compares as inside it


@struct.dataclass
class Rooms:
    """The rooms of a level in the order of their creation."""

    floor: Int32[Array, "rooms 4"]
    """Inclusive floor rectangles (left, top, right, bottom); rows from `count` on are far away."""
    count: Int32[Array, ""]
    """How many exist: a room that finds no place is left out."""


class _FreeList(NamedTuple):
    """The free rectangles. Rows from `listed` on are leftovers that the splitting still reads."""

    rectangles: Int32[Array, "capacity 4"]
    listed: Int32[Array, ""]


class _Placement(NamedTuple):
    """Outcome of an attempt to place a room."""

    success: Bool[Array, ""]
    floor: Rectangle
    chosen: Int32[Array, ""]
    """Index of the free rectangle it lies in."""


def place_rooms(key: PRNGKeyArray, number: int) -> Rooms:
    """Up to `number` rooms: one that fits nowhere is left out. The first one always fits."""

    def add_room(
        carry: tuple[Rooms, _FreeList, _Placement], key: PRNGKeyArray
    ) -> tuple[tuple[Rooms, _FreeList, _Placement], None]:
        rooms, free, last = carry
        # Splitting waits for the next room: after the last one it would be wasted.
        free = _subtract_room(free, last)
        placement = _place_room(key, free, rooms)
        floor = rooms.floor.at[rooms.count].set(
            jnp.where(placement.success, placement.floor, _NOWHERE), mode="drop"
        )
        return (Rooms(floor, rooms.count + placement.success), free, placement), None

    rooms = Rooms(jnp.full((number, 4), _NOWHERE, jnp.int32), jnp.int32(0))
    everything = jnp.zeros((_CAPACITY, 4), jnp.int32).at[0].set(jnp.array([0, 0, _RIGHT, _BOTTOM]))
    nothing = _Placement(jnp.bool_(False), jnp.zeros(4, jnp.int32), jnp.int32(0))
    start = (rooms, _FreeList(everything, jnp.int32(1)), nothing)
    (rooms, _, _), _ = jax.lax.scan(add_room, start, jax.random.split(key, number))
    return rooms


# -- One room ---------------------------------------------------------------------------------


def _place_room(key: PRNGKeyArray, free: _FreeList, rooms: Rooms) -> _Placement:
    """The first attempt that succeeds. They are independent, so a block is tried side by side.

    Where no rectangle has space for the smallest room all attempts are bound to fail; hardly any
    other case needs more than a few of them, so leaving those out is what keeps batches fast.
    """
    is_listed = jnp.arange(_CAPACITY) < free.listed
    possible = (is_listed & _has_space(free.rectangles.T, _LEAST_SIZE, _LEAST_SIZE)).any()

    def try_block(
        carry: tuple[Int32[Array, ""], _Placement],
    ) -> tuple[Int32[Array, ""], _Placement]:
        block, _ = carry
        bits = jax.random.bits(jax.random.fold_in(key, block), (_BLOCK, 6))
        placements = jax.vmap(_attempt, in_axes=(0, None, None))(bits, free, rooms)
        success = placements.success & (block * _BLOCK + jnp.arange(_BLOCK) < ATTEMPTS)
        first = jnp.argmax(success)
        return block + 1, _Placement(
            success.any(), placements.floor[first], placements.chosen[first]
        )

    def continues(carry: tuple[Int32[Array, ""], _Placement]) -> Bool[Array, ""]:
        block, placement = carry
        return possible & ~placement.success & (block * _BLOCK < ATTEMPTS)

    nothing = _Placement(jnp.bool_(False), jnp.zeros(4, jnp.int32), jnp.int32(0))
    return jax.lax.while_loop(continues, try_block, (jnp.int32(0), nothing))[1]


def _attempt(bits: UInt32[Array, "6"], free: _FreeList, rooms: Rooms) -> _Placement:
    chosen = bits_to_int(bits[0], jnp.maximum(free.listed, 1))
    rectangle = free.rectangles[chosen]
    left, top, right, bottom = rectangle
    dx = _LEAST_SIZE + jnp.where(
        right - left > 28, bits_to_int(bits[1], 12), bits_to_int(bits[1], 8)
    )
    dy = jnp.minimum(_LEAST_SIZE + bits_to_int(bits[2], 4), 50 // dx)

    border_x, border_y = _borders(rectangle)
    span_x = right - jnp.where(left > 0, left, 3) - dx - border_x + 1
    span_y = bottom - jnp.where(top > 0, top, 2) - dy - border_y + 1
    x = left + jnp.where(left > 0, _MARGIN_X, 3) + bits_to_int(bits[3], jnp.maximum(span_x, 1))
    y = top + jnp.where(top > 0, _MARGIN_Y, 2) + bits_to_int(bits[4], jnp.maximum(span_y, 1))

    # One word throws the row of the top bias (3), the bias itself (1 in the number of rooms; 60
    # is a multiple of it), and the shrinks.
    rest, row = bits[5] // 3, 2 + bits_to_int(bits[5], 3)
    biased = bits_to_int(rest, jnp.maximum(rooms.count, 1)) == 0
    lift = (top == 0) & (bottom >= _BOTTOM) & biased & (y + dy > HEIGHT // 2)
    y = jnp.where(lift, row, y)
    dy = dy - (lift & (rooms.count < 4) & (dy > 1))

    fits, floor = _fit(rest // 60, jnp.stack([x, y, x + dx, y + dy]), rooms)
    return _Placement(_has_space(rectangle, dx, dy) & fits, floor, chosen)


def _borders(
    rectangle: Int32[Array, "4 *n"],
) -> tuple[Int32[Array, "*n"], Int32[Array, "*n"]]:
    """Columns and rows of a free rectangle that a room cannot use: fewer at the map's edge."""
    left, top, right, bottom = rectangle
    border_x = jnp.where((left > 0) & (right < _RIGHT), 2 * _MARGIN_X, _MARGIN_X + 1)
    border_y = jnp.where((top > 0) & (bottom < _BOTTOM), 2 * _MARGIN_Y, _MARGIN_Y + 1)
    return border_x, border_y


def _has_space(
    rectangle: Int32[Array, "4 *n"], dx: Int32[Array, ""] | int, dy: Int32[Array, ""] | int
) -> Bool[Array, "*n"]:
    left, top, right, bottom = rectangle
    border_x, border_y = _borders(rectangle)
    return (right - left >= dx + 3 + border_x) & (bottom - top >= dy + 3 + border_y)


def _fit(
    bits: UInt32[Array, ""], floor: Rectangle, rooms: Rooms
) -> tuple[Bool[Array, ""], Rectangle]:
    """Shrinks a floor away from the rooms that exist, or gives up."""
    low, high = jnp.array([3, 2]), jnp.array([_RIGHT - 2, _BOTTOM - 2])
    floor = jnp.concatenate([jnp.maximum(floor[:2], low), jnp.minimum(floor[2:], high)])
    alive = jnp.bool_(True)
    for _ in range(_MOST_SHRINKS):
        left, top, right, bottom = floor
        alive &= (right > left) & (bottom > top)
        blocked, x, y = _first_obstacle(floor, rooms)
        shrunk = jnp.stack(
            [
                jnp.where(x < left, x + _MARGIN_X + 1, left),
                jnp.where(y < top, y + _MARGIN_Y + 1, top),
                jnp.where(x < left, right, x - _MARGIN_X - 1),
                jnp.where(y < top, bottom, y - _MARGIN_Y - 1),
            ]
        )
        alive &= ~(blocked & (bits_to_int(bits, 3) == 0))
        floor = jnp.where(blocked, shrunk, floor)
        bits = bits // 3
    return alive & (floor[2] > floor[0]) & (floor[3] > floor[1]), floor


def _first_obstacle(
    floor: Rectangle, rooms: Rooms
) -> tuple[Bool[Array, ""], Int32[Array, ""], Int32[Array, ""]]:
    """Whether there is a square of a room in or near `floor`, and the first one (x, y) of them,
    column by column from the left, each from the top.

    Only rooms exist yet, so the map itself is not needed: the first square of a rectangle is its
    top left corner.
    """
    left = jnp.maximum(rooms.floor[:, 0] - 1, floor[0] - _MARGIN_X)
    top = jnp.maximum(rooms.floor[:, 1] - 1, floor[1] - _MARGIN_Y)
    right = jnp.minimum(rooms.floor[:, 2] + 1, floor[2] + _MARGIN_X)
    bottom = jnp.minimum(rooms.floor[:, 3] + 1, floor[3] + _MARGIN_Y)
    order = jnp.where((left <= right) & (top <= bottom), left * HEIGHT + top, _NOWHERE * HEIGHT)
    first = order.min()
    return first < _NOWHERE * HEIGHT, first // HEIGHT, first % HEIGHT


# -- Free rectangles --------------------------------------------------------------------------


class _Split(NamedTuple):
    """The splitting under way: a stack of rectangles `old` that lose the part `hole`."""

    free: _FreeList
    old: Int32[Array, "depth 4"]
    hole: Int32[Array, "depth 4"]
    upto: Int32[Array, "depth"]
    """Free rectangles with an index below this are still to be compared with the hole."""
    depth: Int32[Array, ""]


def _subtract_room(free: _FreeList, placement: _Placement) -> _FreeList:
    """The free rectangles after a room was placed; unchanged when none was.

    Every rectangle that meets the room is split by what it shares with it, which in turn splits
    the ones that meet the shared part: a recursion in the game, a loop with a stack here.
    """
    block = placement.floor + jnp.array([-1, -1, 1, 1])
    split = _Split(
        free,
        jnp.zeros((_DEPTH, 4), jnp.int32),
        jnp.zeros((_DEPTH, 4), jnp.int32),
        jnp.zeros(_DEPTH, jnp.int32),
        jnp.int32(0),
    )
    first = _descend(split, free.rectangles[placement.chosen], block)
    split = jax.tree.map(lambda new, old: jnp.where(placement.success, new, old), first, split)
    return jax.lax.while_loop(lambda split: split.depth > 0, _advance, split).free


def _advance(split: _Split) -> _Split:
    """One step: descend into the next rectangle that meets the hole, or finish the top one."""
    top = split.depth - 1
    old, hole = split.old[top], split.hole[top]
    rectangles = split.free.rectangles
    shared = _intersection(rectangles, hole)
    index = jnp.arange(_CAPACITY)
    meets = (shared[:, 0] <= shared[:, 2]) & (shared[:, 1] <= shared[:, 3])
    next_met = jnp.where(meets & (index < split.upto[top]), index, -1).max()

    deeper = _descend(
        split._replace(upto=split.upto.at[top].set(next_met)),
        rectangles[next_met],
        shared[next_met],
    )
    done = split._replace(free=_add_rest(split.free, old, hole), depth=top)
    return jax.tree.map(lambda a, b: jnp.where(next_met >= 0, a, b), deeper, done)


def _descend(split: _Split, old: Rectangle, hole: Rectangle) -> _Split:
    free = _remove(split.free, old)
    level = split.depth
    return _Split(
        free,
        split.old.at[level].set(old, mode="drop"),
        split.hole.at[level].set(hole, mode="drop"),
        split.upto.at[level].set(free.listed, mode="drop"),
        jnp.minimum(level + 1, _DEPTH),
    )


def _intersection(a: Int32[Array, "n 4"], b: Rectangle) -> Int32[Array, "n 4"]:
    return jnp.concatenate([jnp.maximum(a[:, :2], b[:2]), jnp.minimum(a[:, 2:], b[2:])], axis=1)


def _remove(free: _FreeList, rectangle: Rectangle) -> _FreeList:
    """The last one takes its place. A leftover that is no longer listed removes nothing."""
    listed = (free.rectangles == rectangle).all(1) & (jnp.arange(_CAPACITY) < free.listed)
    at = jnp.where(listed.any(), jnp.argmax(listed), _CAPACITY)
    last = free.rectangles[free.listed - 1]
    return _FreeList(free.rectangles.at[at].set(last, mode="drop"), free.listed - listed.any())


def _add_rest(free: _FreeList, old: Rectangle, hole: Rectangle) -> _FreeList:
    """Lists what is left of `old` on the four sides of `hole`, where that is large enough."""
    left, top, right, bottom = old
    hole_left, hole_top, hole_right, hole_bottom = hole
    least_x, least_y = 2 * _MARGIN_X + 4, 2 * _MARGIN_Y + 4
    edge_x, edge_y = _MARGIN_X + 5, _MARGIN_Y + 5  # less is enough at the edge of the map
    remains = (
        (
            hole_top - top - 1 > jnp.where(bottom < _BOTTOM, least_y, edge_y),
            old.at[3].set(hole_top - 2),
        ),
        (
            hole_left - left - 1 > jnp.where(right < _RIGHT, least_x, edge_x),
            old.at[2].set(hole_left - 2),
        ),
        (
            bottom - hole_bottom - 1 > jnp.where(top > 0, least_y, edge_y),
            old.at[1].set(hole_bottom + 2),
        ),
        (
            right - hole_right - 1 > jnp.where(left > 0, least_x, edge_x),
            old.at[0].set(hole_right + 2),
        ),
    )
    for large_enough, rectangle in remains:
        free = _add(free, rectangle, large_enough)
    return free


def _add(free: _FreeList, rectangle: Rectangle, large_enough: Bool[Array, ""]) -> _FreeList:
    contains = (free.rectangles[:, :2] <= rectangle[:2]).all(1)
    contains &= (free.rectangles[:, 2:] >= rectangle[2:]).all(1)
    contained = (contains & (jnp.arange(_CAPACITY) < free.listed)).any()
    added = large_enough & ~contained & (free.listed < _CAPACITY)
    at = jnp.where(added, free.listed, _CAPACITY)
    return _FreeList(free.rectangles.at[at].set(rectangle, mode="drop"), free.listed + added)
