"""Shortest paths from start to goal, and which tools a level asks for.

A path is a sequence of 8-way moves. Intact doors (open, closed, or secret ones that open normally)
are entered and left orthogonally only. A locked door is taken to be kicked to pieces, so it can be
crossed diagonally. Boulders, and the turns spent on doors and on searching, are ignored.

One column of the map (21 squares) is one machine word, so a whole level is 80 words and a step of
the flood in all eight directions is a handful of shifts.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, UInt32

from minihax.level.terrain import HEIGHT, Terrain

TOOL_SETS = ("walk", "open", "kick", "search", "all")
"""walk: no door is touched. open: closed doors too. kick: closed and locked doors. search: closed
doors, secret corridors, and secret doors that are not locked. all: everything."""

_WALK = frozenset(
    {
        Terrain.FLOOR,
        Terrain.UP_STAIRS,
        Terrain.DOWN_STAIRS,
        Terrain.CORRIDOR,
        Terrain.DOORWAY,
        Terrain.BROKEN_DOOR,
        Terrain.OPEN_DOOR,
    }
)
_OPEN = _WALK | {Terrain.CLOSED_DOOR}
_KICK = _OPEN | {Terrain.LOCKED_DOOR}
_SEARCH = _OPEN | {Terrain.SECRET_DOOR, Terrain.SECRET_CORRIDOR}
_ALL = _KICK | _SEARCH | {Terrain.SECRET_LOCKED_DOOR}
_INTACT = frozenset({Terrain.OPEN_DOOR, Terrain.CLOSED_DOOR, Terrain.SECRET_DOOR})

# [tool set, terrain code]
PASSABLE = np.array(
    [[t in tools for t in Terrain] for tools in (_WALK, _OPEN, _KICK, _SEARCH, _ALL)]
)
_NO_DIAGONAL = np.array([t in _INTACT for t in Terrain])

Columns = UInt32[Array, "80"]
"""A set of squares: bit y of word x."""


def path_lengths(terrain: Int8[Array, "21 80"], start: Int32[Array, "2"]) -> Int32[Array, "5"]:
    """The least number of moves from `start` (y, x) to the goal for each of `TOOL_SETS`; -1 where
    the goal cannot be reached."""
    goal = _pack(terrain == Terrain.DOWN_STAIRS)
    origin = jnp.zeros(terrain.shape, bool).at[start[0], start[1]].set(True)
    intact = _pack(jnp.asarray(_NO_DIAGONAL)[terrain])
    flood = functools.partial(_flood, _pack(origin), goal, intact)
    return jax.vmap(lambda passable: flood(_pack(passable[terrain])))(jnp.asarray(PASSABLE))


def least_tools(lengths: Int32[Array, "... 5"]) -> Int32[Array, "..."]:
    """The first of `TOOL_SETS` that reaches the goal, as an index; 5 where none does."""
    return jnp.where((lengths >= 0).any(-1), jnp.argmax(lengths >= 0, axis=-1), len(TOOL_SETS))


class _Flood(NamedTuple):
    reached: Columns
    moves: Int32[Array, ""]
    growing: Bool[Array, ""]
    arrived: Bool[Array, ""]


def _flood(origin: Columns, goal: Columns, intact: Columns, passable: Columns) -> Int32[Array, ""]:
    def spread(flood: _Flood) -> _Flood:
        straight = _left_and_right(flood.reached) | _up_and_down(flood.reached)
        diagonal = _left_and_right(_up_and_down(flood.reached & ~intact)) & ~intact
        reached = flood.reached | ((straight | diagonal) & passable)
        return _Flood(
            reached,
            flood.moves + 1,
            (reached != flood.reached).any(),
            ((reached & goal) != 0).any(),
        )

    first = _Flood(origin, jnp.int32(0), jnp.bool_(True), ((origin & goal) != 0).any())
    last = jax.lax.while_loop(lambda f: f.growing & ~f.arrived, spread, first)
    return jnp.where(last.arrived, last.moves, -1)


def _pack(squares: Bool[Array, "21 80"]) -> Columns:
    bits = jnp.left_shift(jnp.uint32(1), jnp.arange(HEIGHT, dtype=jnp.uint32))
    return jnp.where(squares, bits[:, None], jnp.uint32(0)).sum(0, dtype=jnp.uint32)


def _up_and_down(squares: Columns) -> Columns:
    # Bits that leave the map (y = 21) are dropped later: nothing there is passable.
    return (squares << 1) | (squares >> 1)


def _left_and_right(squares: Columns) -> Columns:
    padded = jnp.pad(squares, 1)
    return padded[:-2] | padded[2:]
