"""Random network distillation: what a predictor has not learned yet is new."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PyTree, UInt8

from maskless.envs.corridor.messages import NUM_MESSAGES
from maskless.envs.corridor.observation import CROP, Observation
from maskless.nets.encoders import GLYPHS_IN_USE, check_glyphs, flatten
from maskless.nets.heads import Trunk, dense


class RandomNetworkDistillation(nn.Module):
    """A predictor learns a fixed random network where the agent has been.

    `rnd.apply(params, obs)` is both the bonus of each state and, averaged, the predictor's loss:
    no gradient reaches the target, so that any optimiser without weight decay leaves it alone.
    """

    hidden: int = 256
    output: int = 512
    dtype: Any = None
    """What the hidden layers compute in. The outputs and their difference are float32 always."""

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float[Array, "time batch"]:
        view = novelty_view(obs, self.dtype)
        target = jax.lax.stop_gradient(self._network("target", view))
        return jnp.mean((self._network("predictor", view) - target) ** 2, axis=-1)

    def _network(self, name: str, x: Array) -> Array:
        hidden = Trunk(self.hidden, 2, nn.relu, self.dtype, name=f"{name}_hidden")
        return dense(self.output, gain=1.0, name=name)(hidden(x).astype(jnp.float32))


def novelty_view(obs: PyTree[Array], dtype: Any = None) -> Float[Array, "time batch features"]:
    """What can make a state new: the whole observation, but of the corridors' numbers only where
    the hero is.

    Their blstats hold the turn, and with it every state would be new for ever. Without the
    position, on the other hand, one corridor looks like any other, and none is worth going to.
    """
    if not isinstance(obs, Observation):
        return flatten(obs, dtype)
    check_glyphs(obs)
    of_glyphs, *sizes = _view_sizes()
    glyphs = _bits(jnp.asarray(obs.glyphs).reshape(*obs.message.shape, -1), of_glyphs)
    rest, start = jnp.zeros((), jnp.uint8), 0
    for ids, size in zip(
        (obs.message, obs.blstats[..., 0], obs.blstats[..., 1]), sizes, strict=True
    ):
        columns = jnp.where((ids >= 0) & (ids < size), jnp.int32(start) + ids, -1)
        rest |= _bits(columns, sum(sizes))
        start += size
    bits = jnp.concatenate([glyphs.reshape(*rest.shape[:-1], -1), rest], axis=-1)
    # On a GPU, XLA writes one-hots of several sizes side by side byte by byte. There are fewer
    # bytes of bits, and what is made of them is written faster.
    bits = jax.lax.optimization_barrier(bits)
    one_hots = (bits[..., None] >> jnp.arange(8, dtype=jnp.uint8)) & 1 > 0
    # The view is most of what the two networks read: it is written in `dtype` from the start (or as
    # bytes, which they convert), and as wide as tensor cores like it.
    return one_hots.reshape(*bits.shape[:-1], -1).astype(dtype or jnp.float32)


def _bits(ids: Integer[Array, "..."], size: int) -> UInt8[Array, "... bytes"]:
    """One-hots of this size as bits, eight to a byte. Ids outside give zeros."""
    ids = ids[..., None].astype(jnp.int32)
    return jnp.where(ids >> 3 == jnp.arange(size // 8), 1 << (ids & 7), 0).astype(jnp.uint8)


def _view_sizes() -> tuple[int, int, int, int]:
    """Of the one-hots: of each glyph, the message, the column and the row. There are 21 rows; the
    places after them stay empty and make the whole view a multiple of 64 wide."""
    width = CROP * CROP * GLYPHS_IN_USE + NUM_MESSAGES + 80 + 21
    return GLYPHS_IN_USE, NUM_MESSAGES, 80, 21 + -width % 64
