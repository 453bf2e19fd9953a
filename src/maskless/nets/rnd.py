"""Random network distillation: what a predictor has not learned yet is new."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

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
    ids = obs.glyphs, obs.message, obs.blstats[..., 0], obs.blstats[..., 1]
    # The view is most of what the two networks read: it is written in `dtype` from the start, and
    # as wide as tensor cores like it.
    dtype = dtype or jnp.float32
    one_hots = [jax.nn.one_hot(x, n, dtype=dtype) for x, n in zip(ids, _view_sizes(), strict=True)]
    return flatten(one_hots, dtype)


def _view_sizes() -> tuple[int, int, int, int]:
    """Of the one-hots: of each glyph, the message, the column and the row. There are 21 rows; the
    places after them stay empty and make the whole view a multiple of 64 wide."""
    width = CROP * CROP * GLYPHS_IN_USE + NUM_MESSAGES + 80 + 21
    return GLYPHS_IN_USE, NUM_MESSAGES, 80, 21 + -width % 64
