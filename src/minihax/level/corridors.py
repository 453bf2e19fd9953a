"""Levels of rooms and corridors, generated as NetHack 3.6.6 generates MiniHack's Corridor levels.

`rooms.py` places the rooms, `passages.py` joins them; here the two become a map with a start and
a goal. Everything is a pure function of the key and can be vmapped.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int32, PRNGKeyArray, UInt32

from minihax.level.passages import BOTTOM, TOP, Passages, door_places, join_rooms, membership
from minihax.level.random_bits import bits_to_int
from minihax.level.rooms import Rooms, place_rooms
from minihax.level.terrain import HEIGHT, WIDTH, Level, Terrain

GOAL_ROOM = 1
"""The goal is in the room that was made second."""


@dataclasses.dataclass(frozen=True)
class Generation:
    """What a game's levels contain besides rooms, corridors and visible doors."""

    secrets: bool = True
    """Secret doors and secret corridor squares. Without them the doors are regular ones, in the
    game's own shares, and the corridors plain."""
    boulders: bool = True
    """Boulders in the superfluous corridors."""


REAL_GAME = Generation()
"""NetHack 3.6.6 as MiniHack plays it."""
PAPER_GAME = Generation(secrets=False, boulders=False)
"""The paper's simplified game. Start and goal are placed as in the real one: ours, not the
paper's, so that the two games differ in their rules and not in how far one has to walk."""


def corridor_level(key: PRNGKeyArray, rooms: int, generation: Generation = REAL_GAME) -> Level:
    """A level with `rooms` rooms (rarely fewer, when one fits nowhere)."""
    return corridor_level_and_rooms(key, rooms, generation)[0]


def corridor_level_and_rooms(
    key: PRNGKeyArray, rooms: int, generation: Generation = REAL_GAME
) -> tuple[Level, Rooms]:
    """The same level, with the rectangles of its rooms."""
    if not 2 <= rooms <= 8:
        raise ValueError(f"A level has 2 to 8 rooms, not {rooms}.")
    rooms_key, passages_key, squares_key, stairs_key = jax.random.split(key, 4)
    placed = place_rooms(rooms_key, rooms)
    passages = join_rooms(passages_key, placed, secrets=generation.secrets)
    start, goal = _stairs(jax.random.bits(stairs_key, (3,)), placed)

    terrain, lit = _paint_rooms(placed)
    terrain, horizontal = _paint_doors(terrain, placed, passages)
    terrain, boulders = _paint_corridors(squares_key, terrain, passages, generation)
    terrain = terrain.at[start[0], start[1]].set(Terrain.UP_STAIRS)
    terrain = terrain.at[goal[0], goal[1]].set(Terrain.DOWN_STAIRS)
    return Level(terrain, lit, horizontal, boulders, start), placed


def _stairs(bits: UInt32[Array, "3"], rooms: Rooms) -> tuple[Int32[Array, "2"], Int32[Array, "2"]]:
    """Start and goal (y, x).

    With three rooms or more the start is in any room but the goal's; with two it is in either.
    """
    goal_room = jnp.minimum(GOAL_ROOM, rooms.count - 1)
    elsewhere = bits_to_int(bits[0], jnp.maximum(rooms.count - 1, 1))
    elsewhere = elsewhere + (elsewhere >= goal_room)
    start_room = jnp.where(rooms.count > 2, elsewhere, bits_to_int(bits[0], rooms.count))
    same_room = start_room == goal_room

    goal = bits_to_int(bits[1], _area(rooms, goal_room))
    start = bits_to_int(bits[2], _area(rooms, start_room) - same_room)
    start = start + (same_room & (start >= goal))  # every square but the goal's
    return _square(rooms, start_room, start), _square(rooms, goal_room, goal)


def _area(rooms: Rooms, room: Int32[Array, ""]) -> Int32[Array, ""]:
    left, top, right, bottom = rooms.floor[room]
    return (right - left + 1) * (bottom - top + 1)


def _square(rooms: Rooms, room: Int32[Array, ""], number: Int32[Array, ""]) -> Int32[Array, "2"]:
    """Floor square (y, x) of a room by its number, row by row."""
    left, top, right, _ = rooms.floor[room]
    width = right - left + 1
    return jnp.stack([top + number // width, left + number % width])


def _paint_rooms(rooms: Rooms) -> tuple[Int8[Array, "21 80"], Bool[Array, "21 80"]]:
    """Floors with their walls, and what of the map is lit: just these."""
    left, top, right, bottom = rooms.floor.T
    above = membership(top - 1, top - 1, HEIGHT)[:, None]
    rows = membership(top, bottom, HEIGHT)[:, None]
    below = membership(bottom + 1, bottom + 1, HEIGHT)[:, None]
    before = membership(left - 1, left - 1, WIDTH)
    columns = membership(left, right, WIDTH)
    after = membership(right + 1, right + 1, WIDTH)
    parts = (
        (rows & columns, Terrain.FLOOR),
        ((above | below) & columns, Terrain.HORIZONTAL_WALL),
        (rows & (before | after), Terrain.VERTICAL_WALL),
        (above & before, Terrain.CORNER_TOP_LEFT),
        (above & after, Terrain.CORNER_TOP_RIGHT),
        (below & before, Terrain.CORNER_BOTTOM_LEFT),
        (below & after, Terrain.CORNER_BOTTOM_RIGHT),
    )
    terrain = jnp.full((HEIGHT, WIDTH), Terrain.STONE, jnp.int8)
    for squares, kind in parts:
        terrain = jnp.where(squares != 0, jnp.int8(kind), terrain)
    return terrain, terrain != Terrain.STONE


def _paint_doors(
    terrain: Int8[Array, "21 80"], rooms: Rooms, passages: Passages
) -> tuple[Int8[Array, "21 80"], Bool[Array, "21 80"]]:
    """Puts the doors into the walls; also which squares are doors in horizontal walls."""
    y, x = door_places(rooms)
    is_door = passages.doors != 0
    # Door codes are larger than wall codes, and a 0 at a place that is no door changes nothing.
    y, x = jnp.where(is_door, y, 0), jnp.where(is_door, x, 0)
    terrain = terrain.at[y, x].max(passages.doors, mode="promise_in_bounds")
    across = jnp.zeros_like(is_door).at[:, (TOP, BOTTOM)].set(is_door[:, (TOP, BOTTOM)])
    horizontal = jnp.zeros(terrain.shape, bool).at[y, x].max(across, mode="promise_in_bounds")
    return terrain, horizontal


def _paint_corridors(
    key: PRNGKeyArray,
    terrain: Int8[Array, "21 80"],
    passages: Passages,
    generation: Generation,
) -> tuple[Int8[Array, "21 80"], Bool[Array, "21 80"]]:
    """Corridors, one square in a hundred of them secret; also the boulders, on one in fifty of
    the squares that are not secret and that only superfluous corridors run through."""
    bits = jax.random.bits(key, terrain.shape)
    secret = passages.corridors & (bits % 100 == 0) & generation.secrets
    boulders = passages.extra & ~secret & (bits // 100 % 50 == 0) & generation.boulders
    corridor = jnp.where(secret, Terrain.SECRET_CORRIDOR, Terrain.CORRIDOR).astype(jnp.int8)
    return jnp.where(passages.corridors, corridor, terrain), boulders
