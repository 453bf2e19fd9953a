"""A network with a gated recurrent unit."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from maskless.nets.base import Network, check_sequence
from maskless.nets.encoders import Encoder
from maskless.nets.heads import Heads, Outputs, Trunk, dense, product
from maskless.nets.orthogonal import orthogonal

UNROLL = 8
"""Steps per iteration of the compiled loop: a GPU starts each iteration anew."""


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
        encoded = Encoder(self.encoder, self.num_actions, name="encoder", dtype=self.dtype)(obs)
        embedded = nn.relu(dense(self.width, name="embed", dtype=self.dtype)(encoded))
        carry, features = GRULayer(self.width, name="gru", dtype=self.dtype)(carry, embedded, reset)
        trunk = partial(Trunk, self.width, layers=2, activation=nn.relu, dtype=self.dtype)
        actor, critic = trunk(name="actor")(features), trunk(name="critic")(features)
        return carry, Outputs(self.num_actions, name="heads")(features, actor, critic)


class GRULayer(nn.Module):
    """h_t = (1 - z) n + z h_{t-1}, gates r and z, candidate n = tanh(W x + r (U h + b))."""

    width: int
    dtype: Any = None

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
            3 * self.width,
            kernel_init=nn.initializers.lecun_normal(),
            name="input",
            dtype=self.dtype,
        )(inputs)
        kernel = self.param("recurrent", _three_orthogonal, self.width)
        candidate_bias = self.param("candidate_bias", nn.initializers.zeros, (self.width,))
        kernel = kernel.astype(self.dtype or jnp.float32)
        if reset.shape[0] == 1:  # acting, exported or not: no loop and no derivative
            state, _ = _step(kernel, candidate_bias, state, (projected[0], reset[0]))
            return state, state[None]
        states = run(kernel, candidate_bias, state, projected, reset)
        return states[-1], states


@jax.custom_vjp
def run(
    kernel: Float[Array, "width gates"],
    candidate_bias: Float[Array, " width"],
    state: Float[Array, "batch width"],
    projected: Float[Array, "time batch gates"],
    reset: Bool[Array, "time batch"],
) -> Float[Array, "time batch width"]:
    """The states of all steps. `kernel` decides what the products are computed in."""
    return _run_forward(kernel, candidate_bias, state, projected, reset)[0]


def _gates(projected: Array, recalled: Array, candidate_bias: Array) -> tuple[Array, ...]:
    """r, z, n and U h + b of the candidate, from W x and U h of all three. Any leading axes."""
    input_r, input_z, input_n = jnp.split(projected, 3, axis=-1)
    state_r, state_z, state_n = jnp.split(recalled, 3, axis=-1)
    r = nn.sigmoid(input_r + state_r)
    z = nn.sigmoid(input_z + state_z)
    inner = state_n + candidate_bias
    return r, z, nn.tanh(input_n + r * inner), inner


def _step(
    kernel: Array, candidate_bias: Array, state: Array, now: tuple[Array, Array]
) -> tuple[Array, Array]:
    """One step: the state after it, and U h, which the derivative needs."""
    projected, reset = now
    state = jnp.where(reset[:, None], 0.0, state)
    recalled = product(state, kernel, kernel.dtype)
    _, z, n, _ = _gates(projected, recalled, candidate_bias)
    return (1.0 - z) * n + z * state, recalled


def _run_forward(
    kernel: Array, candidate_bias: Array, state: Array, projected: Array, reset: Array
) -> tuple[Array, Any]:
    def step(before: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        after, recalled = _step(kernel, candidate_bias, before, now)
        return after, (after, recalled.astype(kernel.dtype))

    _, (states, recalled) = jax.lax.scan(step, state, (projected, reset), unroll=UNROLL)
    return states, (kernel, candidate_bias, state, projected, reset, states, recalled)


def _run_backward(residuals: Any, wanted: Float[Array, "time batch width"]) -> tuple[Any, ...]:
    """The derivative by every argument but `reset`.

    By itself, JAX would add to the derivative of the kernel in every step, a product and a pass
    over the whole matrix each time. Here the loop only brings back what the steps before need;
    everything else is computed for all steps at once, before it and after it.
    """
    kernel, candidate_bias, state, projected, reset, states, recalled = residuals
    before = jnp.concatenate([state[None], states[:-1]])
    before = jnp.where(reset[..., None], 0.0, before)
    r, z, n, inner = _gates(projected, recalled, candidate_bias)
    # What a unit of dL/dh_t makes of the three sums inside the gates.
    slope_n = (1.0 - z) * (1.0 - n * n)
    slope_z = (before - n) * z * (1.0 - z)
    slope_r = slope_n * inner * r * (1.0 - r)
    by_input_n = slope_n.astype(kernel.dtype)  # only the candidate's differs from `by_recalled`
    by_recalled = jnp.concatenate([slope_r, slope_z, slope_n * r], axis=-1).astype(kernel.dtype)
    kept = z.astype(kernel.dtype)

    def step(later: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        by_recalled, z, reset, wanted = now
        total = later + wanted
        through = jnp.tile(total, 3) * by_recalled
        earlier = total * z + product(through, kernel.T, kernel.dtype)
        return jnp.where(reset[:, None], 0.0, earlier), total

    first, totals = jax.lax.scan(
        step,
        jnp.zeros_like(wanted[0]),
        (by_recalled, kept, reset, wanted),
        reverse=True,
        unroll=UNROLL,
    )
    by_product = (jnp.tile(totals, 3) * by_recalled).astype(kernel.dtype)
    by_gates, by_recalled_n = jnp.split(by_product, [2 * totals.shape[-1]], axis=-1)
    by_projected = jnp.concatenate(
        [by_gates, (totals * by_input_n).astype(kernel.dtype)], axis=-1
    ).astype(projected.dtype)
    by_kernel = jnp.einsum(
        "tbi,tbj->ij",
        before.astype(kernel.dtype),
        by_product,
        preferred_element_type=jnp.float32,
    )
    by_bias = by_recalled_n.sum((0, 1), dtype=jnp.float32)
    return by_kernel.astype(kernel.dtype), by_bias, first, by_projected, None


run.defvjp(_run_forward, _run_backward)


def _three_orthogonal(key: PRNGKeyArray, width: int) -> Float[Array, "width gates"]:
    """Recurrent weights of r, z and n side by side, each orthogonal by itself."""
    init = orthogonal()
    keys = jax.random.split(key, 3)
    return jnp.concatenate([init(k, (width, width)) for k in keys], axis=-1)
