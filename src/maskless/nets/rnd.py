"""Random network distillation: what a predictor has not learned yet is new."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from maskless.envs.corridor.messages import NUM_MESSAGES
from maskless.envs.corridor.observation import Observation
from maskless.nets.encoders import GLYPH_IDS, check_glyphs, flatten
from maskless.nets.heads import Trunk, dense


class RandomNetworkDistillation(nn.Module):
    """A predictor learns a fixed random network where the agent has been.

    `rnd.apply(params, obs)` is both the bonus of each state and, averaged, the predictor's loss:
    no gradient reaches the target, so that any optimiser without weight decay leaves it alone.
    """

    hidden: int = 256
    output: int = 512

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float[Array, "time batch"]:
        view = novelty_view(obs)
        target = jax.lax.stop_gradient(self._network("target", view))
        return jnp.mean((self._network("predictor", view) - target) ** 2, axis=-1)

    def _network(self, name: str, x: Array) -> Array:
        x = Trunk(self.hidden, layers=2, activation=nn.relu, name=f"{name}_hidden")(x)
        return dense(self.output, gain=1.0, name=name)(x)


def novelty_view(obs: PyTree[Array]) -> Float[Array, "time batch features"]:
    """What can make a state new: the whole observation, but of the corridors' numbers only where
    the hero is.

    Their blstats hold the turn, and with it every state would be new for ever. Without the
    position, on the other hand, one corridor looks like any other, and none is worth going to.
    """
    if not isinstance(obs, Observation):
        return flatten(obs)
    check_glyphs(obs)
    glyphs = jax.nn.one_hot(obs.glyphs, GLYPH_IDS, dtype=jnp.float32)
    message = jax.nn.one_hot(obs.message, NUM_MESSAGES, dtype=jnp.float32)
    columns, rows = (jax.nn.one_hot(obs.blstats[..., n], size) for n, size in enumerate((80, 21)))
    return flatten((glyphs, message, columns, rows))
