"""A network with a gated recurrent unit."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from maskless.nets.base import Network, check_sequence
from maskless.nets.encoders import Encoder
from maskless.nets.heads import Heads, Outputs, Trunk, dense
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
        encoded = Encoder(self.encoder, self.num_actions, name="encoder")(obs)
        embedded = nn.relu(dense(self.width, name="embed")(encoded))
        carry, features = GRULayer(self.width, name="gru")(carry, embedded, reset)
        actor = Trunk(self.width, layers=2, activation=nn.relu, name="actor")(features)
        critic = Trunk(self.width, layers=2, activation=nn.relu, name="critic")(features)
        return carry, Outputs(self.num_actions, name="heads")(features, actor, critic)


class GRULayer(nn.Module):
    """h_t = (1 - z) n + z h_{t-1}, gates r and z, candidate n = tanh(W x + r (U h + b))."""

    width: int

    @nn.compact
    def __call__(
        self,
        state: Float[Array, "batch width"],
        inputs: Float[Array, "time batch inputs"],
        reset: Bool[Array, "time batch"],
    ) -> tuple[Float[Array, "batch width"], Float[Array, "time batch width"]]:
        """The last state and all states."""
        # The inputs of all steps are known beforehand: one large product serves them, and only
        # the product that needs the state before it waits inside the scan.
        projected = nn.Dense(
            3 * self.width, kernel_init=nn.initializers.lecun_normal(), name="input"
        )(inputs)
        kernel = self.param("recurrent", _three_orthogonal, self.width)
        candidate_bias = self.param("candidate_bias", nn.initializers.zeros, (self.width,))

        def step(
            state: Float[Array, "batch width"], now: tuple[Array, Array]
        ) -> tuple[Array, Array]:
            projected, reset = now
            state = jnp.where(reset[:, None], 0.0, state)
            input_r, input_z, input_n = jnp.split(projected, 3, axis=-1)
            state_r, state_z, state_n = jnp.split(state @ kernel, 3, axis=-1)
            r = nn.sigmoid(input_r + state_r)
            z = nn.sigmoid(input_z + state_z)
            n = nn.tanh(input_n + r * (state_n + candidate_bias))
            state = (1.0 - z) * n + z * state
            return state, state

        return jax.lax.scan(step, state, (projected, reset))


def _three_orthogonal(key: PRNGKeyArray, width: int) -> Float[Array, "width gates"]:
    """Recurrent weights of r, z and n side by side, each orthogonal by itself."""
    init = orthogonal()
    keys = jax.random.split(key, 3)
    return jnp.concatenate([init(k, (width, width)) for k in keys], axis=-1)
