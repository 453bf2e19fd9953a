"""How rooms are joined: doors in their walls, and corridors dug from door to door.

The game works through a fixed list of possible joins, one corridor after the other. A batch of
levels would wait for the longest corridor of each join, so each level goes through its list at its
own pace. One round of the loop, for all levels at once:

1. `_finish_join`: if the corridor has arrived, make its second door, merge the two rooms' groups;
2. `_start_join`: if no corridor is under way, make the first door of the next join that is due;
3. `_dig_stretch`: dig up to `_STRETCH` squares, a loop of fixed length over a few numbers.

Two facts keep the state small. Corridors may cross, so whether a square can be dug depends on the
rooms alone. And a square is dug only once, so what a corridor square holds (secret or not, a
boulder) can be drawn per square after all is dug.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, Key, PRNGKeyArray, UInt8, UInt32

from minihax import struct
from minihax.level.digging import Digger, dig, flat, start_digging
from minihax.level.random_bits import bits_to_int
from minihax.level.rooms import Rooms
from minihax.level.terrain import HEIGHT, WIDTH, Terrain
from minihax.transforms import flat_vmap

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
    extras = bits_to_int(jax.random.bits(extras_key), jnp.maximum(rooms.count, 1)) + 4
    extras = jnp.where(rooms.count > 2, extras, 0)
    batch = jax.tree.map(lambda x: x[None], (key, rooms, extras))
    doors, dug = jax.tree.map(lambda x: x[0], _batched_joins(secrets)(*batch))
    dug = dug.reshape(HEIGHT, WIDTH)
    return Passages(doors, dug != _STONE, dug == _BY_EXTRA)


@functools.cache
def _batched_joins(secrets: bool) -> Callable:
    """The joining loop as a function of a batch of levels: it gives their doors and dug squares.

    Rounds change nothing on a finished level, so the loop runs until all levels are finished.
    (`jax.vmap` of a loop for one level would select between old and new state, a copy of
    everything, in every round.)
    """

    def advance(
        turn: Int32[Array, ""],
        key: PRNGKeyArray,
        rooms: Rooms,
        extras: Int32[Array, ""],
        blocked: Bool[Array, "1680"],
        state: _JoinState,
    ) -> _JoinState:
        bits = jax.random.bits(jax.random.fold_in(key, turn), (8 + 2 * _STRETCH,))
        state = _finish_join(state, bits[0], secrets)
        state = _start_join(state, bits[1:8], _JoinList(len(rooms.floor), extras), rooms, secrets)
        return _dig_stretch(state, bits[8:].reshape(_STRETCH, 2), blocked)

    def join_all(keys: Key[Array, " levels"], rooms: Rooms, extras: Array) -> tuple[Array, Array]:
        fixed = keys, rooms, extras, jax.vmap(blocked_squares)(rooms)

        def one_round(
            carry: tuple[Int32[Array, ""], _JoinState],
        ) -> tuple[Int32[Array, ""], _JoinState]:
            turn, state = carry
            return turn + 1, jax.vmap(functools.partial(advance, turn))(*fixed, state)

        _, state = jax.lax.while_loop(
            lambda carry: ~carry[1].finished.all(),
            one_round,
            (jnp.int32(0), jax.vmap(_initial_state)(rooms)),
        )
        return state.doors, state.dug

    return flat_vmap(join_all)


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


class _JoinList:
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

    def due(self, state: "_JoinState", rooms: Rooms) -> Bool[Array, "joins"]:
        """Which of the joins are to be tried, as things stand now."""
        exist = (self.a < rooms.count) & (self.b < rooms.count)
        apart = exist & (state.groups[self.a] != state.groups[self.b])
        due = jnp.select(
            [self.phase == 1, self.phase == 2, self.phase == 3],
            # Pass 3 ends with the first room for which nothing was tried.
            [exist, apart, apart & (self.a <= state.rows_tried)],
            self.a < self.extras,
        )
        return due & (jnp.arange(len(self.phase)) >= state.next_join)


class _Door(NamedTuple):
    """A place for a door: a room, a side of it, and how far along; `fit` if it may be new."""

    room: Int32[Array, ""]
    side: Int32[Array, ""]
    place: Int32[Array, ""]
    fit: Bool[Array, ""]


class _JoinState(NamedTuple):
    """The state of the joining loop, for one level."""

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


def _initial_state(rooms: Rooms) -> _JoinState:
    count, zero, no = len(rooms.floor), jnp.int32(0), jnp.bool_(False)
    return _JoinState(
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


def _start_join(
    state: _JoinState, bits: UInt32[Array, "7"], joins: _JoinList, rooms: Rooms, secrets: bool
) -> _JoinState:
    """Starts the first join that is due, if no corridor is under way; finished if none is due."""
    due = joins.due(state, rooms)
    idle = ~state.digger.active
    starts = idle & due.any()
    number = jnp.argmax(due)
    phase = joins.phase[number]
    extra = phase == 4
    # Superfluous corridors join two random rooms; as in the game, b is neither a nor a + 1.
    random_a = bits_to_int(bits[0], jnp.maximum(rooms.count, 1))
    random_b = bits_to_int(bits[1], jnp.maximum(rooms.count - 2, 1))
    a = jnp.where(extra, random_a, joins.a[number])
    b = jnp.where(extra, random_b + 2 * (random_b >= random_a), joins.b[number])

    side = _side_facing(rooms.floor[a], rooms.floor[b])
    source = _choose_door(bits[2], state.doors, rooms, a, side)
    target = _choose_door(bits[3], state.doors, rooms, b, (side + 2) % 4)
    digger = start_digging(_outside(source, rooms), _outside(target, rooms))
    # The game gives up a superfluous corridor that would start in another one, and ends the first
    # pass with 1 in 50 after each join.
    stone = state.dug[flat(*_outside(source, rooms))] == _STONE
    digs = starts & (stone | ~extra)
    stop = (phase == 1) & (bits_to_int(bits[4], 50) == 0)
    return state._replace(
        doors=_make_door(state.doors, source, bits[5], digs & (source.fit | ~extra), secrets),
        next_join=jnp.where(
            starts, jnp.where(stop, joins.second_pass, number + 1), state.next_join
        ),
        rows_tried=jnp.where(starts & (phase == 3), a + 1, state.rows_tried),
        finished=state.finished | (idle & ~starts),
        extra=jnp.where(starts, extra, state.extra),
        source=jnp.where(starts, a, state.source),
        target=_where(starts, target, state.target),
        digger=_where(digs, digger, state.digger),
    )


def _finish_join(state: _JoinState, bits: UInt32[Array, ""], secrets: bool) -> _JoinState:
    """When a corridor has arrived: makes the door there, and one group of the two rooms."""
    arrived = state.digger.arrived
    a, b = state.source, state.target.room
    group = jnp.minimum(state.groups[a], state.groups[b])
    # Only these two rooms change, not the rest of their groups: that is how the game does it.
    here = jnp.arange(len(state.groups))
    merged = jnp.where(arrived & ((here == a) | (here == b)), group, state.groups)
    makes_door = arrived & (state.target.fit | ~state.extra)
    return state._replace(
        doors=_make_door(state.doors, state.target, bits, makes_door, secrets),
        groups=merged,
        digger=state.digger._replace(arrived=jnp.bool_(False)),
    )


def _side_facing(a: Int32[Array, "4"], b: Int32[Array, "4"]) -> Int32[Array, ""]:
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
    preferred = bits_to_int(bits, jnp.maximum(length, 1))
    # The first place in this order: the preferred one, then fitting places, then doors.
    rank = jnp.where(fits, jnp.where(place == preferred, 0, 1), jnp.where(taken, 2, 3))
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
    makes_door: Bool[Array, ""],
    secrets: bool,
) -> Int8[Array, "rooms 4 14"]:
    """Makes a door, or makes an existing one anew (and then never a secret one)."""
    old = doors[door.room, door.side, door.place]
    new = _door_kind(bits, (old == 0) & secrets)
    return doors.at[door.room, door.side, door.place].set(jnp.where(makes_door, new, old))


def _door_kind(bits: UInt32[Array, ""], may_be_secret: Bool[Array, ""]) -> Int8[Array, ""]:
    """One word throws all dice, one after the other."""
    secret = may_be_secret & (bits_to_int(bits, 8) == 0)
    there, swung, locked = (bits_to_int(bits // d, n) == 0 for d, n in ((8, 3), (24, 5), (120, 6)))
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


def _dig_stretch(
    state: _JoinState, bits: UInt32[Array, "stretch 2"], blocked: Bool[Array, "1680"]
) -> _JoinState:
    digger, squares, dug = dig(state.digger, bits, state.extra, blocked)
    mark = jnp.where(state.extra, _BY_EXTRA, _BY_NORMAL)
    # Normal corridors come first, so the larger mark is the one that made the square.
    marks = jnp.where(dug, mark, _STONE).astype(jnp.int8)
    return state._replace(
        dug=state.dug.at[squares].max(marks, mode="promise_in_bounds"), digger=digger
    )


def _where(condition: Bool[Array, ""], new: _T, old: _T) -> _T:
    return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
