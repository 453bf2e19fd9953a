"""How squares look: a compact id for every appearance, and NetHack's glyph, character and colour.

The hero's map holds these ids. They follow the terrain codes as far as one look has one terrain,
so that most of `appearance` is the identity. Ids are part of the observation: append, never
renumber (at most 50, so that one small embedding serves all corridor and maze games).
"""

import enum
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Shaped

from minihax.level.terrain import Terrain


class Glyph(enum.IntEnum):
    """What a square looks like (or was last seen to look like)."""

    UNSEEN = 0  # never seen, or solid stone, or a secret corridor: all are blank
    VERTICAL_WALL = 1
    HORIZONTAL_WALL = 2
    CORNER_TOP_LEFT = 3
    CORNER_TOP_RIGHT = 4
    CORNER_BOTTOM_LEFT = 5
    CORNER_BOTTOM_RIGHT = 6
    FLOOR = 7  # in sight now
    UP_STAIRS = 8
    DOWN_STAIRS = 9
    CORRIDOR = 10
    FLOOR_REMEMBERED = 11  # out of sight
    DOORWAY = 12  # without a door, or with a broken one
    OPEN_DOOR_VERTICAL = 13  # in a vertical wall
    OPEN_DOOR_HORIZONTAL = 14
    CLOSED_DOOR_VERTICAL = 15  # closed or locked: they look the same
    CLOSED_DOOR_HORIZONTAL = 16
    BOULDER = 17
    HERO = 18
    OUTSIDE = 19  # crop squares beyond the edge of the map
    FLOOR_MAPPED = 20  # known but never seen: looks like FLOOR, and the agent gets it as FLOOR


NUM_GLYPHS = len(Glyph)


class Look(NamedTuple):
    """NetHack's side of one id."""

    nle: int
    """NLE's glyph number."""
    character: str
    colour: int
    """A colour of the terminal, 0..15."""


LOOKS: dict[Glyph, Look] = {
    Glyph.UNSEEN: Look(2359, " ", 0),
    Glyph.VERTICAL_WALL: Look(2360, "|", 7),
    Glyph.HORIZONTAL_WALL: Look(2361, "-", 7),
    Glyph.CORNER_TOP_LEFT: Look(2362, "-", 7),
    Glyph.CORNER_TOP_RIGHT: Look(2363, "-", 7),
    Glyph.CORNER_BOTTOM_LEFT: Look(2364, "-", 7),
    Glyph.CORNER_BOTTOM_RIGHT: Look(2365, "-", 7),
    Glyph.FLOOR: Look(2378, ".", 7),
    Glyph.UP_STAIRS: Look(2382, "<", 7),
    Glyph.DOWN_STAIRS: Look(2383, ">", 7),
    Glyph.CORRIDOR: Look(2380, "#", 7),
    Glyph.FLOOR_REMEMBERED: Look(2379, ".", 8),
    Glyph.DOORWAY: Look(2371, ".", 7),
    Glyph.OPEN_DOOR_VERTICAL: Look(2372, "-", 3),
    Glyph.OPEN_DOOR_HORIZONTAL: Look(2373, "|", 3),
    Glyph.CLOSED_DOOR_VERTICAL: Look(2374, "+", 3),
    Glyph.CLOSED_DOOR_HORIZONTAL: Look(2375, "+", 3),
    Glyph.BOULDER: Look(2353, "`", 7),
    Glyph.HERO: Look(337, "@", 15),
    Glyph.OUTSIDE: Look(0, "\0", 0),  # what NLE's own crops hold there
    Glyph.FLOOR_MAPPED: Look(2378, ".", 7),
}

NLE_GLYPHS = np.array([LOOKS[g].nle for g in Glyph], np.int16)
"""NLE's glyph number of each id."""
CHARACTERS = np.array([ord(LOOKS[g].character) for g in Glyph], np.uint8)
"""The character code of each id."""
COLOURS = np.array([LOOKS[g].colour for g in Glyph], np.uint8)
"""The colour of each id."""

_NUM_NLE_GLYPHS = 5976
_FROM_NLE = np.full(_NUM_NLE_GLYPHS, Glyph.UNSEEN, np.int8)
# Backwards, so that of two ids with the same look the first one counts.
_FROM_NLE[NLE_GLYPHS[::-1]] = np.arange(NUM_GLYPHS)[::-1]


def from_nle_glyphs(glyphs: Shaped[np.ndarray, "..."]) -> Int8[np.ndarray, "..."]:
    """Compact ids of NLE glyph numbers. What these games never show becomes UNSEEN.

    NLE's number 0 (its crops' padding) becomes OUTSIDE.
    """
    return _FROM_NLE[np.clip(glyphs, 0, _NUM_NLE_GLYPHS - 1)]


def appearance(
    terrain: Int8[Array, "*map"], horizontal: Bool[Array, "*map"], boulders: Bool[Array, "*map"]
) -> Int8[Array, "*map"]:
    """The id that a square in sight shows. Arithmetic, because a table lookup per square of a
    batch of maps would cost more than the whole line-of-sight computation."""
    across = horizontal.astype(jnp.int8)
    look = jnp.where(terrain == Terrain.SECRET_CORRIDOR, jnp.int8(Glyph.UNSEEN), terrain)
    look = jnp.where(terrain == Terrain.BROKEN_DOOR, jnp.int8(Glyph.DOORWAY), look)
    look = jnp.where(terrain == Terrain.OPEN_DOOR, Glyph.OPEN_DOOR_VERTICAL + across, look)
    shut = (terrain == Terrain.CLOSED_DOOR) | (terrain == Terrain.LOCKED_DOOR)
    look = jnp.where(shut, Glyph.CLOSED_DOOR_VERTICAL + across, look)
    look = jnp.where(terrain >= Terrain.SECRET_DOOR, Glyph.VERTICAL_WALL + across, look)
    return jnp.where(boulders, jnp.int8(Glyph.BOULDER), look)
