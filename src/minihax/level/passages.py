"""How rooms are joined: doors in their walls, and corridors dug from door to door.

The game works through a fixed list of possible joins. A level here does so at its own pace: one
round of the loop settles the join that has just ended, begins the next one, and digs up to
`_STRETCH` squares. Levels of a batch thus wait for each other at the end only, and the larger part
of the work (the digging) is a loop of fixed length with a state of a few numbers.

Two facts keep that state small. Corridors may be crossed by others, so whether a square can be
dug depends on the rooms alone. And a square is made only once, so the dice for what a corridor
square holds can be thrown per square, after all is dug.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, PRNGKeyArray, UInt8, UInt32

from minihax import struct
from minihax.level.custom_batching import merging_batches
from minihax.level.digging import Digger, dig, flat, start_digging
from minihax.level.rooms import Rooms, roll
from minihax.level.terrain import HEIGHT, WIDTH, Terrain

TOP, RIGHT, BOTTOM, LEFT = range(4)
"""The sides of a room; (side + 2) % 4 is the opposite one."""
LONGEST_WALL = 14

_STRETCH = 16  # squares dug per round of the main loop
_STONE, _BY_EXTRA, _BY_NORMAL = 0, 1, 2
_T = TypeVar("_T")


@struct.dataclass
class Passages:
    """What joins the rooms."""

    doors: Int8[Array, "rooms 4 14"]
    """Terrain code of the door at each place of each wall (from the left or from the top,
    corners not counted), 0 where the wall is whole."""
    corridors: Bool[Array, "21 80"]
    """Squares that were dug."""
    extra: Bool[Array, "21 80"]
    """Those of them that only superfluous corridors run through: boulders lie there."""


def join_rooms(key: PRNGKeyArray, rooms: Rooms, *, secrets: bool) -> Passages:
    """Joins the rooms so that all can be reached, with some superfluous corridors.

    Without `secrets` all doors are regular ones.
    """
    key, extras_key = jax.random.split(key)
    extras = roll(jax.random.bits(extras_key), jnp.maximum(rooms.count, 1)) + 4
    extras = jnp.where(rooms.count > 2, extras, 0)
    batch = jax.tree.map(lambda x: x[None], (key, rooms, extras))
    doors, dug = jax.tree.map(lambda x: x[0], _works_done(secrets)(*batch))
    dug = dug.reshape(HEIGHT, WIDTH)
    return Passages(doors, dug != _STONE, dug == _BY_EXTRA)


@functools.cache
def _works_done(secrets: bool) -> Callable:
    """A function of a batch of levels that does all the work: it gives the doors and what is dug.

    Nothing changes any more on a level that is finished, so the loop just goes on until all are.
    `jax.vmap` of a loop for one level would instead copy everything in every round.
    """

    def work(
        turn: Int32[Array, ""],
        key: PRNGKeyArray,
        rooms: Rooms,
        extras: Int32[Array, ""],
        blocked: Bool[Array, "1680"],
        works: _Works,
    ) -> _Works:
        bits = jax.random.bits(jax.random.fold_in(key, turn), (8 + 2 * _STRETCH,))
        works = _settle(works, bits[0], secrets)
        works = _begin(works, bits[1:8], _Plan(len(rooms.floor), extras), rooms, secrets)
        return _dig_on(works, bits[8:].reshape(_STRETCH, 2), blocked)

    def all_works(keys: PRNGKeyArray, rooms: Rooms, extras: Array) -> tuple[Array, Array]:
        given = keys, rooms, extras, jax.vmap(blocked_squares)(rooms)

        def one_round(carry: tuple[Int32[Array, ""], _Works]) -> tuple[Int32[Array, ""], _Works]:
            turn, works = carry
            return turn + 1, jax.vmap(functools.partial(work, turn))(*given, works)

        _, works = jax.lax.while_loop(
            lambda carry: ~carry[1].finished.all(),
            one_round,
            (jnp.int32(0), jax.vmap(_first_works)(rooms)),
        )
        return works.doors, works.dug

    return merging_batches(all_works)


def blocked_squares(rooms: Rooms) -> Bool[Array, "1680"]:
    """Rooms with their walls, flat: where nothing can be dug."""
    inside_y, inside_x = (
        membership(rooms.floor[:, axis] - 1, rooms.floor[:, axis + 2] + 1, length)
        for axis, length in ((1, HEIGHT), (0, WIDTH))
    )
    return ((inside_y[:, None] & inside_x[None, :]) != 0).reshape(-1)


def membership(
    first: Int32[Array, "rooms"], last: Int32[Array, "rooms"], length: int
) -> UInt8[Array, "length"]:
    """For each coordinate 0 .. length-1 the set of rooms (bit r = room r) with first <= it <= last.

    Rectangles of all rooms come out of one `&` of a row set with a column set.
    """
    at = jnp.arange(length)[:, None]
    bits = jnp.left_shift(1, jnp.arange(len(first)))
    inside = (first <= at) & (at <= last)
    return jnp.where(inside, bits, 0).sum(1).astype(jnp.uint8)


def door_places(rooms: Rooms) -> tuple[Int32[Array, "rooms 4 14"], Int32[Array, "rooms 4 14"]]:
    """The squares (y, x) that the entries of `Passages.doors` stand for."""
    place = jnp.arange(LONGEST_WALL)
    left, top, right, bottom = (rooms.floor[:, i, None] for i in range(4))
    still = jnp.zeros_like(place)
    y = jnp.stack([top - 1 + still, top + place, bottom + 1 + still, top + place], axis=1)
    x = jnp.stack([left + place, right + 1 + still, left + place, left - 1 + still], axis=1)
    return y, x


# -- The list of possible joins ---------------------------------------------------------------


class _Plan:
    """All joins that may come up, in order; which of them do is decided on the way.

    Pass 1 joins neighbours in the order of creation, pass 2 every other one, pass 3 whatever is
    still apart, pass 4 is for superfluous corridors between random rooms.
    """

    def __init__(self, rooms: int, extras: Int32[Array, ""]):
        ordered = [(1, a, a + 1) for a in range(rooms - 1)]
        ordered += [(2, a, a + 2) for a in range(rooms - 2)]
        ordered += [(3, a, b) for a in range(rooms) for b in range(rooms) if a != b]
        ordered += [(4, i, 0) for i in range(rooms + 3)]
        self.phase, self.a, self.b = (jnp.asarray(c) for c in np.array(ordered).T)
        self.second_pass = rooms - 1
        self.extras = extras

    def due(self, works: "_Works", rooms: Rooms) -> Bool[Array, "joins"]:
        """Which of the joins are to be tried, as things stand now."""
        exist = (self.a < rooms.count) & (self.b < rooms.count)
        apart = exist & (works.groups[self.a] != works.groups[self.b])
        due = jnp.select(
            [self.phase == 1, self.phase == 2, self.phase == 3],
            # Pass 3 ends with the first room for which nothing was tried.
            [exist, apart, apart & (self.a <= works.rows_tried)],
            self.a < self.extras,
        )
        return due & (jnp.arange(len(self.phase)) >= works.next_join)


class _Door(NamedTuple):
    """A place for a door: a room, a side of it, and how far along; `fit` if it may be new."""

    room: Int32[Array, ""]
    side: Int32[Array, ""]
    place: Int32[Array, ""]
    fit: Bool[Array, ""]


class _Works(NamedTuple):
    """Everything that changes while the rooms are joined."""

    doors: Int8[Array, "rooms 4 14"]
    dug: Int8[Array, "1680"]
    groups: Int32[Array, "rooms"]
    next_join: Int32[Array, ""]
    rows_tried: Int32[Array, ""]
    finished: Bool[Array, ""]
    extra: Bool[Array, ""]
    """The corridor under way is a superfluous one."""
    source: Int32[Array, ""]
    """The room it comes from."""
    target: _Door
    """The door it is to end at."""
    digger: Digger


def _first_works(rooms: Rooms) -> _Works:
    count, zero, no = len(rooms.floor), jnp.int32(0), jnp.bool_(False)
    return _Works(
        doors=jnp.zeros((count, 4, LONGEST_WALL), jnp.int8),
        dug=jnp.zeros(HEIGHT * WIDTH, jnp.int8),
        groups=jnp.arange(count),
        next_join=zero,
        rows_tried=zero,
        finished=no,
        extra=no,
        source=zero,
        target=_Door(zero, zero, zero, no),
        digger=Digger(zero, zero, zero, zero, zero, zero, zero, no, no),
    )


# -- Beginning and ending a join --------------------------------------------------------------


def _begin(
    works: _Works, bits: UInt32[Array, "7"], plan: _Plan, rooms: Rooms, secrets: bool
) -> _Works:
    """Begins the next join, when no corridor is under way."""
    due = plan.due(works, rooms)
    idle = ~works.digger.active
    begins = idle & due.any()
    number = jnp.argmax(due)
    phase = plan.phase[number]
    extra = phase == 4
    random_a = roll(bits[0], jnp.maximum(rooms.count, 1))
    random_b = roll(bits[1], jnp.maximum(rooms.count - 2, 1))
    a = jnp.where(extra, random_a, plan.a[number])
    b = jnp.where(extra, random_b + 2 * (random_b >= random_a), plan.b[number])

    side = _facing(rooms.floor[a], rooms.floor[b])
    source = _choose_door(bits[2], works.doors, rooms, a, side)
    target = _choose_door(bits[3], works.doors, rooms, b, (side + 2) % 4)
    digger = start_digging(_outside(source, rooms), _outside(target, rooms))
    stone = works.dug[flat(*_outside(source, rooms))] == _STONE
    digs = begins & (stone | ~extra)
    stop = (phase == 1) & (roll(bits[4], 50) == 0)
    return works._replace(
        doors=_make_door(works.doors, source, bits[5], digs & (source.fit | ~extra), secrets),
        next_join=jnp.where(begins, jnp.where(stop, plan.second_pass, number + 1), works.next_join),
        rows_tried=jnp.where(begins & (phase == 3), a + 1, works.rows_tried),
        finished=works.finished | (idle & ~begins),
        extra=jnp.where(begins, extra, works.extra),
        source=jnp.where(begins, a, works.source),
        target=_where(begins, target, works.target),
        digger=_where(digs, digger, works.digger),
    )


def _settle(works: _Works, bits: UInt32[Array, ""], secrets: bool) -> _Works:
    """When a corridor has arrived: makes the door there, and one group of the two rooms."""
    arrived = works.digger.arrived
    a, b = works.source, works.target.room
    group = jnp.minimum(works.groups[a], works.groups[b])
    # Only these two rooms change, not the rest of their groups: that is how the game does it.
    here = jnp.arange(len(works.groups))
    merged = jnp.where(arrived & ((here == a) | (here == b)), group, works.groups)
    wanted = arrived & (works.target.fit | ~works.extra)
    return works._replace(
        doors=_make_door(works.doors, works.target, bits, wanted, secrets),
        groups=merged,
        digger=works.digger._replace(arrived=jnp.bool_(False)),
    )


def _facing(a: Int32[Array, "4"], b: Int32[Array, "4"]) -> Int32[Array, ""]:
    """The side of room a on which room b lies."""
    right, above, left = b[0] > a[2], b[3] < a[1], b[2] < a[0]
    return jnp.where(right, RIGHT, jnp.where(above, TOP, jnp.where(left, LEFT, BOTTOM))).astype(
        jnp.int32
    )


def _choose_door(
    bits: UInt32[Array, ""],
    doors: Int8[Array, "rooms 4 14"],
    rooms: Rooms,
    room: Int32[Array, ""],
    side: Int32[Array, ""],
) -> _Door:
    """A random place in the wall if a door fits there; else the first fitting place; else the
    first door. A door fits where the wall is whole and has no door next to it."""
    left, top, right, bottom = rooms.floor[room]
    across = (side == TOP) | (side == BOTTOM)
    length = jnp.where(across, right - left, bottom - top) + 1
    taken = doors[room, side] != 0
    apart = jnp.pad(taken, 1)
    place = jnp.arange(LONGEST_WALL)
    fits = ~(taken | apart[:-2] | apart[2:]) & (place < length)
    wish = roll(bits, jnp.maximum(length, 1))
    # The first place in the order: the wish, then fitting places, then doors.
    rank = jnp.where(fits, jnp.where(place == wish, 0, 1), jnp.where(taken, 2, 3))
    chosen = jnp.argmin(rank)
    return _Door(room, side, chosen.astype(jnp.int32), fits.any())


def _outside(door: _Door, rooms: Rooms) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """The square (y, x) in front of a door."""
    left, top, right, bottom = rooms.floor[door.room]
    y = jnp.stack([top - 2, top + door.place, bottom + 2, top + door.place])[door.side]
    x = jnp.stack([left + door.place, right + 2, left + door.place, left - 2])[door.side]
    return y, x


def _make_door(
    doors: Int8[Array, "rooms 4 14"],
    door: _Door,
    bits: UInt32[Array, ""],
    wanted: Bool[Array, ""],
    secrets: bool,
) -> Int8[Array, "rooms 4 14"]:
    """Makes a door, or makes an existing one anew (and then never a secret one)."""
    old = doors[door.room, door.side, door.place]
    new = _door_kind(bits, (old == 0) & secrets)
    return doors.at[door.room, door.side, door.place].set(jnp.where(wanted, new, old))


def _door_kind(bits: UInt32[Array, ""], may_be_secret: Bool[Array, ""]) -> Int8[Array, ""]:
    """One word throws all dice, one after the other."""
    secret = may_be_secret & (roll(bits, 8) == 0)
    there, swung, locked = (roll(bits // d, n) == 0 for d, n in ((8, 3), (24, 5), (120, 6)))
    regular = jnp.where(
        there,
        jnp.where(
            swung,
            Terrain.OPEN_DOOR,
            jnp.where(locked, Terrain.LOCKED_DOOR, Terrain.CLOSED_DOOR),
        ),
        Terrain.DOORWAY,
    )
    hidden = jnp.where(swung, Terrain.SECRET_LOCKED_DOOR, Terrain.SECRET_DOOR)
    return jnp.where(secret, hidden, regular).astype(jnp.int8)


def _dig_on(
    works: _Works, bits: UInt32[Array, "stretch 2"], blocked: Bool[Array, "1680"]
) -> _Works:
    digger, squares, dug = dig(works.digger, bits, works.extra, blocked)
    mark = jnp.where(works.extra, _BY_EXTRA, _BY_NORMAL)
    # Normal corridors come first, so the larger mark is the one that made the square.
    marks = jnp.where(dug, mark, _STONE).astype(jnp.int8)
    return works._replace(
        dug=works.dug.at[squares].max(marks, mode="promise_in_bounds"), digger=digger
    )


def _where(condition: Bool[Array, ""], new: _T, old: _T) -> _T:
    return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
