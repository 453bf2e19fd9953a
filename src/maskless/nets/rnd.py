"""Random network distillation: what a predictor has not learned yet is new."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from maskless.nets.encoders import Encoder
from maskless.nets.layers import Trunk, dense


class RandomNetworkDistillation(nn.Module):
    """A predictor learns a fixed random network where the agent has been.

    `rnd.apply(params, obs)` is both the bonus of each state and, averaged, the predictor's loss:
    no gradient reaches the target, so that any optimiser without weight decay leaves it alone.
    """

    encoder: Encoder = Encoder()
    hidden: int = 256
    output: int = 512
    dtype: Any = None
    """What the hidden layers compute in. The outputs and their difference are float32 always."""

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float[Array, "time batch"]:
        view = self.encoder.novelty_view(obs, self.dtype)
        target = jax.lax.stop_gradient(self._network("target", view))
        return jnp.mean((self._network("predictor", view) - target) ** 2, axis=-1)

    def _network(self, name: str, x: Array) -> Array:
        hidden = Trunk(self.hidden, 2, nn.relu, self.dtype, name=f"{name}_hidden")
        return dense(self.output, gain=1.0, name=name)(hidden(x).astype(jnp.float32))
