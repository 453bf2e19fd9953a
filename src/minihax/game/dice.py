"""The dice of one step, thrown before it is played: given them, a step is deterministic.

That makes the engine checkable: for every recorded step a test can ask for dice under which the
engine does exactly what the real game did.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from minihax import struct
from minihax.game.rules import Rules


@struct.dataclass
class Dice:
    """Uniform numbers in [0, 1), one for each thing that chance can decide in a step."""

    success: Float[Array, ""]
    """Does the door open, does the kick break it or uncover something? Low = yes."""
    shatter: Float[Array, ""]
    """Does a door kicked in by a very strong hero fall to pieces? Low = yes."""
    wound: Float[Array, ""]
    """Does the kick wound the leg? Low = yes."""
    healing: Float[Array, ""]
    """How long that takes to heal."""
    damage: Float[Array, ""]
    found: Float[Array, "9"]
    """For the 3x3 squares around the hero, row by row: is what hides there found? Low = yes."""
    effort: Float[Array, "2"]
    """Does the action count as exercise (or abuse) of Str and of Dex?"""
    living: Float[Array, ""]
    """The same for what mere living does."""
    limping: Float[Array, ""]
    """The same for walking on a wounded leg."""
    growth: Float[Array, "4"]
    """Does exercise change Str, Wis, Dex, Con when the time has come? Low = yes."""
    pause: Float[Array, ""]
    """How long until that time comes again."""
    faint: Float[Array, ""]
    """Does the starving hero faint? High = yes."""
    fasting: Float[Array, ""]
    """How much nutrition the time in a faint costs."""
    hearing: Float[Array, ""]
    """Is the return of the hearing noticed after a faint? Low = yes."""


_SHAPES = {"found": (9,), "effort": (2,), "growth": (4,)}


def draw_dice(rules: Rules, key: PRNGKeyArray) -> Dice:
    """The dice of one step. Games without a body need only one of them."""
    if not rules.body:
        return fixed(success=jax.random.uniform(key))
    names = list(Dice.__dataclass_fields__)
    shapes = [_SHAPES.get(name, ()) for name in names]
    sizes = [shape[0] if shape else 1 for shape in shapes]
    numbers = jax.random.uniform(key, (sum(sizes),))
    values, start = {}, 0
    for name, shape, size in zip(names, shapes, sizes, strict=True):
        values[name] = numbers[start : start + size].reshape(shape)
        start += size
    return Dice(**values)


def fixed(**chosen: Float[Array, "..."] | float) -> Dice:
    """Dice that all show 0.5, except for the chosen ones."""
    values = {
        name: jnp.broadcast_to(
            jnp.asarray(chosen.get(name, 0.5), jnp.float32), _SHAPES.get(name, ())
        )
        for name in Dice.__dataclass_fields__
    }
    return Dice(**values)


def uniform_to_int(
    draw: Float[Array, "..."], sides: Int32[Array, "..."] | int
) -> Int32[Array, "..."]:
    """A uniform integer 0..sides-1 from a uniform number in [0, 1)."""
    return jnp.minimum((draw * sides).astype(jnp.int32), sides - 1)
