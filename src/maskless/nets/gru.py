"""A network with a gated recurrent unit."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from maskless import kernels
from maskless.nets.base import Network, check_sequence
from maskless.nets.encoders import Encoded
from maskless.nets.heads import Heads, Outputs
from maskless.nets.layers import Trunk, Weights, linear, linear_relu
from maskless.nets.orthogonal import orthogonal


class GRU(Network):
    """Dense embedding, GRU, and two ReLU layers each for actor and critic.

    phi is the state of the GRU, which both read.
    """

    @nn.nowrap
    def initial_carry(self, batch: int) -> Float[Array, "batch width"]:
        """A state of zeros, the same that every episode starts with."""
        return jnp.zeros((batch, self.width), jnp.float32)

    @nn.compact
    def __call__(
        self,
        carry: Float[Array, "batch width"],
        obs: PyTree[Array],
        reset: Bool[Array, "time batch"],
    ) -> tuple[Float[Array, "batch width"], Heads]:
        """The heads of each state, given what came before it in its episode."""
        check_sequence(obs, reset)
        encoded = Encoded(self.encoder, self.num_actions, name="encoder", dtype=self.dtype)(obs)
        kernel, bias = Weights(encoded.shape[-1], self.width, name="embed")()
        embedded = linear_relu(encoded, kernel, bias)
        carry, features = GRULayer(self.width, name="gru", dtype=self.dtype)(carry, embedded, reset)
        trunk = partial(Trunk, self.width, layers=2, activation=nn.relu, dtype=self.dtype)
        actor, critic = trunk(name="actor")(features), trunk(name="critic")(features)
        heads = Outputs(self.num_actions, self.uncertain, name="heads")(features, actor, critic)
        return carry, self.add_clone(heads, obs)


class GRULayer(nn.Module):
    """A GRU over whole sequences, with episode resets."""

    width: int
    dtype: Any = None

    @nn.compact
    def __call__(
        self,
        state: Float[Array, "batch width"],
        inputs: Float[Array, "time batch inputs"],
        reset: Bool[Array, "time batch"],
    ) -> tuple[Float[Array, "batch width"], Float[Array, "time batch width"]]:
        """The last state, in float32, and all states, in `dtype`."""
        init = nn.initializers.lecun_normal()
        weights, bias = Weights(inputs.shape[-1], 3 * self.width, init, name="input")()
        recurrent = self.param("recurrent", _three_orthogonal, self.width)
        candidate_bias = self.param("candidate_bias", nn.initializers.zeros, (self.width,))
        recurrent = recurrent.astype(self.dtype or jnp.float32)
        if reset.shape[0] == 1:  # acting, exported or not: no loop
            wx = linear(inputs, weights, bias)
            state = gru_step(recurrent, candidate_bias, state, wx[0], reset[0])
            return state, state[None].astype(recurrent.dtype)
        return gru(weights, bias, recurrent, candidate_bias, state, inputs, reset)


@kernels.dispatch
def gru(
    weights: Float[Array, "inputs gates"],
    bias: Float[Array, " gates"],
    recurrent: Float[Array, "width gates"],
    candidate_bias: Float[Array, " width"],
    state: Float[Array, "batch width"],
    inputs: Float[Array, "time batch inputs"],
    reset: Bool[Array, "time batch"],
) -> tuple[Float[Array, "batch width"], Float[Array, "time batch width"]]:
    """The last state and the states of all steps, these in the dtype of `recurrent`."""

    def step(state: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        state = gru_step(recurrent, candidate_bias, state, *now)
        return state, state.astype(recurrent.dtype)

    # The inputs of all steps are known: one large product, outside of the loop.
    return jax.lax.scan(step, state, (linear(inputs, weights, bias), reset))


def gru_step(
    recurrent: Float[Array, "width gates"],
    candidate_bias: Float[Array, " width"],
    state: Float[Array, "batch width"],
    wx: Float[Array, "batch gates"],
    reset: Bool[Array, " batch"],
) -> Float[Array, "batch width"]:
    """h' = (1 - z) n + z h with candidate n = tanh(W x + r (U h + b)) and gates r and z.

    The weights of r, z and n are side by side. h' is float32; U h is computed in U's dtype.
    """
    h = jnp.where(reset[..., None], 0.0, state)
    uh = jnp.matmul(h.astype(recurrent.dtype), recurrent)
    wx_r, wx_z, wx_n = jnp.split(wx.astype(jnp.float32), 3, axis=-1)
    uh_r, uh_z, uh_n = jnp.split(uh.astype(jnp.float32), 3, axis=-1)
    r = nn.sigmoid(wx_r + uh_r)
    z = nn.sigmoid(wx_z + uh_z)
    n = nn.tanh(wx_n + r * (uh_n + candidate_bias))
    return (1.0 - z) * n + z * h


def _three_orthogonal(key: PRNGKeyArray, width: int) -> Float[Array, "width gates"]:
    """Recurrent weights of r, z and n side by side, each orthogonal by itself."""
    init = orthogonal()
    keys = jax.random.split(key, 3)
    return jnp.concatenate([init(k, (width, width)) for k in keys], axis=-1)
