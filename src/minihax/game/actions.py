"""What each action does to the square it is aimed at, before the turn ends.

Each function looks at a `Scene` and returns an `Outcome`; nothing here knows about maps, prompts,
hunger or rewards. Dice decide through `Dice`, so an outcome is a pure function of its arguments.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from minihax import struct
from minihax.game.dice import Dice, uniform_to_int
from minihax.game.hero import CONSTITUTION, DEXTERITY, STRENGTH, exercise_point, prowess
from minihax.game.rules import Rules
from minihax.level.terrain import Terrain
from minihax.look.messages import Message

OPEN, KICK, SEARCH = 8, 9, 10
NUM_DIRECTIONS = 8
DELTAS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1), (-1, 1), (1, 1), (1, -1), (-1, -1)], np.int32)
"""(y, x) of the eight directions in the order of the actions: N, E, S, W, NE, SE, SW, NW."""
NEIGHBOURS = (DELTAS[:, 0] + 1) * 3 + DELTAS[:, 1] + 1
"""Where the eight directions are in a 3x3 block that is read row by row."""


def _table(*kinds: Terrain) -> np.ndarray:
    return np.isin(np.arange(len(Terrain)), kinds)


SOLID = np.arange(len(Terrain)) < Terrain.FLOOR
SOLID = SOLID | _table(Terrain.SECRET_CORRIDOR, Terrain.SECRET_DOOR, Terrain.SECRET_LOCKED_DOOR)
"""Nothing passes: rock, walls, and whatever still looks like them."""
LOOKS_LIKE_STONE = _table(Terrain.STONE, Terrain.SECRET_CORRIDOR)
SHUT = _table(Terrain.CLOSED_DOOR, Terrain.LOCKED_DOOR)
WALKABLE = ~SOLID & ~SHUT
"""Floor, stairs, corridors, and every doorway without a shut door."""
HIDDEN = SOLID & (np.arange(len(Terrain)) > Terrain.FLOOR)
"""Secret doors and corridors."""

REVEALED = np.arange(len(Terrain), dtype=np.int32)
REVEALED[Terrain.SECRET_CORRIDOR] = Terrain.CORRIDOR
REVEALED[Terrain.SECRET_DOOR] = Terrain.CLOSED_DOOR
REVEALED[Terrain.SECRET_LOCKED_DOOR] = Terrain.LOCKED_DOOR
"""What a hidden square turns out to be."""

_NOTHING_TO_OPEN = np.full(len(Terrain), Message.NO_DOOR_THERE, np.int32)
_NOTHING_TO_OPEN[Terrain.LOCKED_DOOR] = Message.DOOR_LOCKED
_NOTHING_TO_OPEN[Terrain.OPEN_DOOR] = Message.DOOR_ALREADY_OPEN
_NOTHING_TO_OPEN[Terrain.DOORWAY] = Message.DOORWAY_EMPTY
_NOTHING_TO_OPEN[Terrain.BROKEN_DOOR] = Message.DOOR_BROKEN


@struct.dataclass
class Scene:
    """What matters for an action aimed at one square."""

    here: Int32[Array, ""]
    """The terrain under the hero."""
    target: Int32[Array, ""]
    """The terrain aimed at."""
    boulder: Bool[Array, ""]
    """There is a boulder on it."""
    has_room_beyond: Bool[Array, ""]
    """That boulder would find a free square on the far side."""
    diagonal: Bool[Array, ""]
    attributes: Int32[Array, "6"]
    """The hero's, as they count now."""


@struct.dataclass
class Outcome:
    """What an action does."""

    takes_turn: Bool[Array, ""]
    message: Int32[Array, ""]
    becomes: Int32[Array, ""]
    """The terrain of the target afterwards."""
    moves: Bool[Array, ""]
    """The hero steps onto the target, pushing a boulder that lies there."""
    damage: Int32[Array, ""]
    wound: Int32[Array, ""]
    """Turns for which the leg is wounded."""
    strength: Int32[Array, ""]
    """Exercise of Str: 1, 0 or -1."""
    dexterity: Int32[Array, ""]


def outcome(scene: Scene, **effects: Array | int | bool) -> Outcome:
    """No effect, except for those given."""
    numbers = ("message", "damage", "wound", "strength", "dexterity")
    return Outcome(
        takes_turn=jnp.asarray(effects.get("takes_turn", False)),
        becomes=jnp.asarray(effects.get("becomes", scene.target), jnp.int32),
        moves=jnp.asarray(effects.get("moves", False)),
        **{name: jnp.asarray(effects.get(name, 0), jnp.int32) for name in numbers},
    )


def choose(condition: Bool[Array, ""], yes: Outcome, no: Outcome) -> Outcome:
    """One of two outcomes."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def look_up(table: np.ndarray, terrain: Int32[Array, "..."]) -> Array:
    """The entries of a table that has one for each code."""
    return jnp.asarray(table)[terrain]


def forbids_diagonals(rules: Rules, terrain: Int32[Array, "..."]) -> Bool[Array, "..."]:
    """Doors that cannot be passed diagonally."""
    if rules.diagonal_doorways:
        return terrain == Terrain.OPEN_DOOR
    return (terrain >= Terrain.DOORWAY) & (terrain <= Terrain.OPEN_DOOR)


def move(rules: Rules, scene: Scene, dice: Dice) -> Outcome:
    """Walks, opens the door in the way, pushes the boulder in the way, or is stopped."""
    in_way = jnp.where(look_up(LOOKS_LIKE_STONE, scene.target), Message.SOLID_STONE, Message.WALL)
    into = scene.diagonal & forbids_diagonals(rules, scene.target)
    out_of = scene.diagonal & forbids_diagonals(rules, scene.here)
    stuck = scene.boulder & ~scene.has_room_beyond
    message = jnp.where(scene.boulder, Message.BOULDER_MOVED, Message.NONE)
    for stopped, reason in (
        (stuck, Message.BOULDER_STUCK),
        (out_of, Message.NO_DIAGONAL_OUT_OF_DOORWAY),
        (into, Message.NO_DIAGONAL_INTO_DOORWAY),
        (scene.target == Terrain.LOCKED_DOOR, Message.DOOR_LOCKED),
        (look_up(SOLID, scene.target), in_way),
    ):
        message = jnp.where(stopped, reason, message)
    free = look_up(WALKABLE, scene.target) & ~into & ~out_of & ~stuck
    exertion = exercise_point(scene.attributes, STRENGTH, dice.effort[0])
    walk = outcome(
        scene,
        takes_turn=free,
        moves=free,
        message=message,
        strength=jnp.where(free & scene.boulder, exertion, 0),
    )
    if not rules.autoopen:
        return walk
    return choose(scene.target == Terrain.CLOSED_DOOR, open_door(rules, scene, dice), walk)


def open_door(rules: Rules, scene: Scene, dice: Dice) -> Outcome:
    """Tries to open the door aimed at."""
    closed = scene.target == Terrain.CLOSED_DOOR
    if not rules.body:
        becomes = jnp.where(closed, Terrain.OPEN_DOOR, scene.target)
        return outcome(scene, takes_turn=closed, becomes=becomes)
    opens = closed & (uniform_to_int(dice.success, 20) < prowess(scene.attributes))
    tried = jnp.where(opens, Message.DOOR_OPENS, Message.DOOR_RESISTS)
    exertion = exercise_point(scene.attributes, STRENGTH, dice.effort[0])
    return outcome(
        scene,
        takes_turn=closed,
        becomes=jnp.where(opens, Terrain.OPEN_DOOR, scene.target),
        message=jnp.where(closed, tried, look_up(_NOTHING_TO_OPEN, scene.target)),
        strength=jnp.where(closed & ~opens, exertion, 0),
    )


def kick(rules: Rules, scene: Scene, dice: Dice) -> Outcome:
    """Kicks at the square aimed at: in the real game always a turn, and dangerous where hard."""
    if not rules.body:
        locked = scene.target == Terrain.LOCKED_DOOR
        opens = locked & (dice.success < rules.kick_chance)
        becomes = jnp.where(opens, Terrain.OPEN_DOOR, scene.target)
        return outcome(scene, takes_turn=locked, becomes=becomes)
    hidden = look_up(HIDDEN, scene.target)
    uncovered = hidden & (uniform_to_int(dice.success, 30) < prowess(scene.attributes))
    is_hard = look_up(SOLID, scene.target) | (scene.target == Terrain.UP_STAIRS)
    result = choose(is_hard, _kick_hard(scene, dice), _kick_air(scene, dice))
    result = choose(uncovered, _kick_open_hidden(scene, dice), result)
    result = choose(look_up(SHUT, scene.target), _kick_door(scene, dice), result)
    return choose(scene.boulder, _kick_hard(scene, dice), result)


def _wounded(dice: Dice) -> Int32[Array, ""]:
    return 6 + uniform_to_int(dice.healing, 5)


def _abuse(draw: Array) -> Int32[Array, ""]:
    return -uniform_to_int(draw, 2)


def _kick_hard(scene: Scene, dice: Dice) -> Outcome:
    sturdy = scene.attributes[CONSTITUTION] > 15
    return outcome(
        scene,
        takes_turn=True,
        message=Message.KICK_HURTS,
        damage=1 + uniform_to_int(dice.damage, jnp.where(sturdy, 3, 5)),
        wound=jnp.where(uniform_to_int(dice.wound, 3) == 0, _wounded(dice), 0),
        strength=_abuse(dice.effort[0]),
        dexterity=_abuse(dice.effort[1]),
    )


def _kick_air(scene: Scene, dice: Dice) -> Outcome:
    strains = (scene.attributes[DEXTERITY] < 16) & (uniform_to_int(dice.wound, 3) == 0)
    return outcome(
        scene,
        takes_turn=True,
        message=jnp.where(strains, Message.KICK_STRAIN, Message.KICK_EMPTY_SPACE),
        wound=jnp.where(strains, _wounded(dice), 0),
        strength=jnp.where(strains, _abuse(dice.effort[0]), 0),
        dexterity=_abuse(dice.effort[1]),
    )


def _kick_door(scene: Scene, dice: Dice) -> Outcome:
    breaks = uniform_to_int(dice.success, 35) < prowess(scene.attributes)
    shatters = (scene.attributes[STRENGTH] > 18) & (uniform_to_int(dice.shatter, 5) == 0)
    broken = jnp.where(shatters, Terrain.DOORWAY, Terrain.BROKEN_DOOR)
    cry = jnp.where(shatters, Message.KICK_DOOR_SHATTERS, Message.KICK_DOOR_CRASHES_OPEN)
    return outcome(
        scene,
        takes_turn=True,
        becomes=jnp.where(breaks, broken, scene.target),
        message=jnp.where(breaks, cry, Message.KICK_WHAMM),
        strength=exercise_point(scene.attributes, STRENGTH, dice.effort[0]),
        dexterity=exercise_point(scene.attributes, DEXTERITY, dice.effort[1]),
    )


def _kick_open_hidden(scene: Scene, dice: Dice) -> Outcome:
    becomes = look_up(REVEALED, scene.target)
    becomes = jnp.where(becomes == Terrain.CLOSED_DOOR, Terrain.OPEN_DOOR, becomes)
    message = jnp.where(
        scene.target == Terrain.SECRET_CORRIDOR,
        Message.KICK_SECRET_PASSAGE,
        jnp.where(
            scene.target == Terrain.SECRET_DOOR,
            Message.KICK_SECRET_DOOR_OPENED,
            Message.KICK_SECRET_DOOR_UNCOVERED,
        ),
    )
    return outcome(
        scene,
        takes_turn=True,
        becomes=becomes,
        message=message,
        dexterity=exercise_point(scene.attributes, DEXTERITY, dice.effort[1]),
    )
