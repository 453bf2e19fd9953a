"""Random integers from random bits: one word often throws several dice, one after the other."""

import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt32


def bits_to_int(
    bits: UInt32[Array, "..."], sides: Int32[Array, "..."] | int
) -> Int32[Array, "..."]:
    """A uniform integer 0 .. sides-1 from 32 random bits. The bias, sides / 2**32, is nothing."""
    return (bits % jnp.asarray(sides).astype(jnp.uint32)).astype(jnp.int32)
