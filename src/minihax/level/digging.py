"""Digging a corridor from one square to another.

A digger heads for its goal, turns towards it now and then, and goes around rooms. It crosses
other corridors freely, so where it can go depends on the rooms alone.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from minihax import transforms
from minihax.level.random_bits import bits_to_int
from minihax.level.terrain import HEIGHT, WIDTH

_MOST_STEPS = 501  # a longer corridor is given up


class Digger(NamedTuple):
    """A corridor under way: where it is, where it heads, where it has to go."""

    y: Int32[Array, ""]
    x: Int32[Array, ""]
    dy: Int32[Array, ""]
    dx: Int32[Array, ""]
    to_y: Int32[Array, ""]
    to_x: Int32[Array, ""]
    steps: Int32[Array, ""]
    active: Bool[Array, ""]
    arrived: Bool[Array, ""]
    """It has reached its goal. `active` and `arrived` both False: it failed, or never began."""


def start_digging(
    origin: tuple[Int32[Array, ""], Int32[Array, ""]],
    goal: tuple[Int32[Array, ""], Int32[Array, ""]],
) -> Digger:
    """Ready to dig from `origin` to `goal` (both dug too), each (y, x)."""
    (y, x), (to_y, to_x) = origin, goal
    dx = jnp.where(to_x > x, 1, jnp.where((to_y <= y) & (to_x < x), -1, 0))
    dy = jnp.where(dx != 0, 0, jnp.where(to_y > y, 1, -1))
    # One step before the origin: the first step leads onto it.
    return Digger(
        y - dy, x - dx, dy, dx, to_y, to_x, jnp.int32(0), jnp.bool_(True), jnp.bool_(False)
    )


def dig(
    digger: Digger,
    bits: UInt32[Array, "steps 2"],
    extra: Bool[Array, ""],
    blocked: Bool[Array, "1680"],
) -> tuple[Digger, Int32[Array, "steps"], Bool[Array, "steps"]]:
    """Digs on for as many steps as there are pairs of `bits`, or until the corridor ends.

    An `extra` corridor is given up with 1 in 35 per step. Returns the squares (flat) of the steps
    and whether they were dug.
    """

    def step(
        digger: Digger, bits: UInt32[Array, "2"]
    ) -> tuple[Digger, tuple[Int32[Array, ""], Bool[Array, ""]]]:
        digger, dug = _dig_step(digger, bits, extra, blocked)
        return digger, (flat(digger.y, digger.x), dug)

    digger, (squares, dug) = transforms.scan(step, digger, bits)
    return digger, squares, dug


def _dig_step(
    digger: Digger,
    bits: UInt32[Array, "2"],
    extra: Bool[Array, ""],
    blocked: Bool[Array, "1680"],
) -> tuple[Digger, Bool[Array, ""]]:
    """One square further, and the heading for the next; also whether the square is dug."""
    tired = (digger.steps >= _MOST_STEPS) | (extra & (bits_to_int(bits[0], 35) == 0))
    moves = digger.active & ~tired
    y = jnp.where(moves, digger.y + digger.dy, digger.y)
    x = jnp.where(moves, digger.x + digger.dx, digger.x)
    within = (x > 0) & (x < WIDTH - 1) & (y > 0) & (y < HEIGHT - 1)
    dug = moves & within & ~blocked[flat(y, x)]
    arrived = dug & (y == digger.to_y) & (x == digger.to_x)

    dy, dx = _heading(digger, y, x, bits[1], blocked)
    return (
        digger._replace(
            y=y,
            x=x,
            dy=dy,
            dx=dx,
            steps=digger.steps + 1,
            active=dug & ~arrived,
            arrived=digger.arrived | arrived,
        ),
        dug,
    )


def _heading(
    digger: Digger,
    y: Int32[Array, ""],
    x: Int32[Array, ""],
    bits: UInt32[Array, ""],
    blocked: Bool[Array, "1680"],
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """The direction (dy, dx) to go on from (y, x)."""
    level = digger.dx != 0
    ahead_y, ahead_x = jnp.abs(digger.to_y - y), jnp.abs(digger.to_x - x)
    # Now and then the longer way is not seen as the longer one, which makes corridors wind.
    gap = jnp.abs(ahead_x - ahead_y)
    chance = (bits >> 8).astype(jnp.float32) * (gap + 1).astype(jnp.float32)
    blind = (ahead_x > 0) & (ahead_y > 0) & (gap > 0) & (chance < 2**24)
    wants_turn = jnp.where(level, ahead_y > ahead_x, ahead_x > ahead_y) ^ blind

    turn_y = jnp.where(level, jnp.where(digger.to_y < y, -1, 1), 0)
    turn_x = jnp.where(level, 0, jnp.where(digger.to_x < x, -1, 1))
    free_ahead = ~blocked[flat(y + digger.dy, x + digger.dx)]
    free_aside = ~blocked[flat(y + turn_y, x + turn_x)]
    straight = free_ahead & ~(wants_turn & free_aside)
    way = jnp.where(free_aside, 1, -1)
    return (
        jnp.where(straight, digger.dy, way * turn_y),
        jnp.where(straight, digger.dx, way * turn_x),
    )


def flat(y: Int32[Array, ""], x: Int32[Array, ""]) -> Int32[Array, ""]:
    """The number of a square in a flattened map."""
    return y * WIDTH + x
