"""What a square can be, and what a level is.

Maps are indexed [y, x] in NetHack's own coordinates: y 0..20, x 0..79, column 0 unused.
"""

import enum

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32

from minihax import struct

HEIGHT, WIDTH = 21, 80


class Terrain(enum.IntEnum):
    """The true kind of a square (what the hero may not know yet)."""

    STONE = 0
    VERTICAL_WALL = 1
    HORIZONTAL_WALL = 2
    CORNER_TOP_LEFT = 3
    CORNER_TOP_RIGHT = 4
    CORNER_BOTTOM_LEFT = 5
    CORNER_BOTTOM_RIGHT = 6
    FLOOR = 7
    UP_STAIRS = 8
    DOWN_STAIRS = 9
    CORRIDOR = 10
    SECRET_CORRIDOR = 11
    DOORWAY = 12  # no door in it
    BROKEN_DOOR = 13
    OPEN_DOOR = 14
    CLOSED_DOOR = 15
    LOCKED_DOOR = 16
    SECRET_DOOR = 17  # closed once found
    SECRET_LOCKED_DOOR = 18  # locked once found


# The characters of the recordings (data README), for tests and for printing true maps.
RECORDED_CHARACTERS = {
    " ": Terrain.STONE,
    "|": Terrain.VERTICAL_WALL,
    "-": Terrain.HORIZONTAL_WALL,  # corners are recorded as '-' too; `read_map` tells them apart
    ".": Terrain.FLOOR,
    "<": Terrain.UP_STAIRS,
    ">": Terrain.DOWN_STAIRS,
    "#": Terrain.CORRIDOR,
    "%": Terrain.SECRET_CORRIDOR,
    ",": Terrain.DOORWAY,
    "b": Terrain.BROKEN_DOOR,
    "o": Terrain.OPEN_DOOR,
    "c": Terrain.CLOSED_DOOR,
    "L": Terrain.LOCKED_DOOR,
    "S": Terrain.SECRET_DOOR,
    "T": Terrain.SECRET_LOCKED_DOOR,
}

DOORS = np.array([t >= Terrain.DOORWAY for t in Terrain])
"""True for every kind of doorway, secret ones included; index with a terrain code."""


@struct.dataclass
class Level:
    """One generated level, as it is before the first step."""

    terrain: Int8[Array, "21 80"]
    """`Terrain` codes."""
    lit: Bool[Array, "21 80"]
    """Rooms with their walls and doors are lit, corridors are dark."""
    horizontal: Bool[Array, "21 80"]
    """For doors: True when the door sits in a horizontal wall. It decides how it is drawn."""
    boulders: Bool[Array, "21 80"]
    start: Int32[Array, "2"]
    """(y, x) where the hero appears: the up stairs."""


def check_level(level: Level) -> None:
    """Refuses a level of the wrong shape, with a start on the border or in rock, or without a goal.

    Under jit, where values cannot be looked at, only the shape is checked.
    """
    if level.terrain.shape != (HEIGHT, WIDTH):
        raise ValueError(f"A level has {HEIGHT} x {WIDTH} squares, not {level.terrain.shape}.")
    if isinstance(level.terrain, jax.core.Tracer) or isinstance(level.start, jax.core.Tracer):
        return
    y, x = (int(i) for i in level.start)
    if not (1 <= y < HEIGHT - 1 and 2 <= x < WIDTH - 1):
        raise ValueError(f"The start (y, x) = {(y, x)} is on the border of the map.")
    if not Terrain.FLOOR <= level.terrain[y, x] <= Terrain.CORRIDOR:
        raise ValueError(f"The start (y, x) = {(y, x)} is not on free ground.")
    if not (level.terrain == Terrain.DOWN_STAIRS).any():
        raise ValueError("The level has no goal (stairs down).")
    edges = jnp.concatenate([level.terrain[0], level.terrain[-1], level.terrain[:, 0]])
    if ((edges >= Terrain.FLOOR) | (jnp.max(level.terrain[:, -1]) >= Terrain.FLOOR)).any():
        raise ValueError("The border of the map must be solid.")
