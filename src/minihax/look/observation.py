"""What the agent gets to see, from our game and from a real NLE process alike."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int8, Int32, Integer

from minihax import struct
from minihax.level.terrain import HEIGHT, WIDTH
from minihax.look.glyphs import Glyph, from_nle_glyphs
from minihax.look.messages import message_id

CROP = 9
"""The agent sees this many rows and columns of the map, the hero in the middle."""
NUM_BLSTATS = 27
NUM_ACTIONS = 11
"""Of the real corridor game. Mazes have the eight moves only."""
_Array = Array | np.ndarray
_REACH = CROP // 2
_FIRST_COLUMN = 1  # column 0 is no part of the map: NLE's arrays start at x = 1


@struct.dataclass
class Observation:
    """One observation; all fields are arrays, so a batch of them has one more axis in front."""

    glyphs: Int8[_Array, "9 9"]
    """`Glyph` ids of what the hero sees or remembers around him; he is at [4, 4]."""
    blstats: Int32[_Array, "27"]
    """The bottom line, in NLE's order: 0 x - 1, 1 y, 2 strength (3..25), 3 strength (raw),
    4 dexterity, 5 constitution, 6 intelligence, 7 wisdom, 8 charisma, 9 score, 10 hit points,
    11 their maximum, 12 depth, 13 gold, 14 energy, 15 its maximum, 16 armour class, 17 monster
    level, 18 experience level, 19 experience, 20 turn, 21 hunger, 22 load, 23 dungeon, 24 level,
    25 condition, 26 alignment."""
    message: Int32[_Array, ""]
    """`Message` id of what the game said in the last step."""
    previous_action: Int32[_Array, ""]
    """The last action; the number of actions when there was none yet."""


def observe(
    remembered: Int8[Array, "21 80"],
    position: Int32[Array, "2"],
    blstats: Int32[Array, "27"],
    message: Integer[Array, ""],
    previous_action: Integer[Array, ""],
) -> Observation:
    """The observation of a game whose hero at `position` (y, x) remembers this map."""
    return Observation(
        glyphs=crop(remembered, position),
        blstats=jnp.asarray(blstats, jnp.int32),
        message=jnp.asarray(message, jnp.int32),
        previous_action=jnp.asarray(previous_action, jnp.int32),
    )


def crop(remembered: Int8[Array, "21 80"], position: Int32[Array, "2"]) -> Int8[Array, "9 9"]:
    """The part of the hero's map around `position` (y, x), with the hero in the middle."""
    around = jnp.arange(-_REACH, _REACH + 1)
    rows, columns = position[0] + around, position[1] + around
    rows_inside = (rows >= 0) & (rows < HEIGHT)
    columns_inside = (columns >= _FIRST_COLUMN) & (columns < WIDTH)
    inside = rows_inside[:, None] & columns_inside
    part = remembered.at[rows[:, None], columns].get(mode="clip")
    part = jnp.where(part == Glyph.FLOOR_MAPPED, jnp.int8(Glyph.FLOOR), part)
    part = jnp.where(inside, part, jnp.int8(Glyph.OUTSIDE))
    here = (around[:, None] == 0) & (around == 0)
    return jnp.where(here, jnp.int8(Glyph.HERO), part)


def from_nle(
    observation: Mapping[str, Any],
    previous_action: int | None = None,
    *,
    num_actions: int = NUM_ACTIONS,
) -> Observation:
    """The same observation from a real NLE or MiniHack one (keys glyphs, blstats, message).

    `previous_action` is the number of the last action, None at the start of an episode.
    The fields are NumPy arrays with the dtypes of the game's observations.
    """
    blstats = np.asarray(observation["blstats"])[:NUM_BLSTATS].astype(np.int32)
    column, row = int(blstats[0]), int(blstats[1])
    padded = np.pad(
        from_nle_glyphs(np.asarray(observation["glyphs"])),
        _REACH,
        constant_values=int(Glyph.OUTSIDE),
    )
    glyphs = padded[row : row + CROP, column : column + CROP].copy()
    glyphs[_REACH, _REACH] = Glyph.HERO
    text = bytes(np.asarray(observation["message"], np.uint8)).split(b"\0")[0].decode("latin-1")
    action = num_actions if previous_action is None else previous_action
    return Observation(
        glyphs=glyphs,
        blstats=blstats,
        message=np.asarray(message_id(text), np.int32),
        previous_action=np.asarray(action, np.int32),
    )
