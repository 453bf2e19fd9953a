"""A network with a gated recurrent unit."""

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from maskless import kernels
from maskless.nets.base import Network, check_sequence
from maskless.nets.encoders import Encoded
from maskless.nets.heads import Heads, Outputs, Trunk, Weights, linear, product, rectified
from maskless.nets.orthogonal import orthogonal

UNROLL = 8
"""Steps per iteration of the compiled loop: a GPU starts each iteration anew."""

Buffers = tuple[Array, ...]


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
        embedded = rectified(encoded, kernel, bias)
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
        """The last state, in float32, and all states, in `dtype`: the heads read them in it."""
        init = nn.initializers.lecun_normal()
        weights, bias = Weights(inputs.shape[-1], 3 * self.width, init, name="input")()
        kernel = self.param("recurrent", _three_orthogonal, self.width)
        candidate_bias = self.param("candidate_bias", nn.initializers.zeros, (self.width,))
        kernel = kernel.astype(self.dtype or jnp.float32)
        if reset.shape[0] == 1:  # acting, exported or not: no loop
            given = linear(inputs, weights, bias)[0], reset[0]
            state, _ = _step(kernel, candidate_bias, state, given)
            return state, state[None].astype(kernel.dtype)
        return run(weights, bias, kernel, candidate_bias, state, inputs, reset)


@jax.custom_vjp
def run(
    weights: Float[Array, "inputs gates"],
    bias: Float[Array, " gates"],
    kernel: Float[Array, "width gates"],
    candidate_bias: Float[Array, " width"],
    state: Float[Array, "batch width"],
    inputs: Float[Array, "time batch inputs"],
    reset: Bool[Array, "time batch"],
) -> tuple[Float[Array, "batch width"], Float[Array, "time batch width"]]:
    """The last state and all states. `kernel` decides what the products are computed in."""
    return _run_forward(weights, bias, kernel, candidate_bias, state, inputs, reset)[0]


def _run_forward(
    weights: Array,
    bias: Array,
    kernel: Array,
    candidate_bias: Array,
    state: Array,
    inputs: Array,
    reset: Array,
) -> tuple[Any, Any]:
    # The inputs of all steps are known beforehand: one large product serves them, and only
    # the product that needs the state before it waits inside the loop.
    projected = linear(inputs, weights, bias)
    last, states, *kept = _forward_loop(kernel, candidate_bias, state, projected, reset)
    of_loop = kernel, candidate_bias, projected, reset, *kept
    return (last, states), (weights, bias, inputs, of_loop)


def _run_backward(residuals: Any, wanted: tuple[Array, Array]) -> tuple[Any, ...]:
    """The derivative by every argument but `reset`.

    By itself, JAX would add to the derivative of the kernel in every step, a product and a pass
    over the whole matrix each time. Here the loop only brings back what the steps before need;
    the sums over all steps are computed at once after it.
    """
    weights, bias, inputs, of_loop = residuals
    kernel, _, projected, _, remembered, _ = of_loop
    first, by_recalled, by_projected, by_bias, by_candidate_bias = _backward_loop(*of_loop, *wanted)
    # jnp.einsum would sum over batch and time in this order, and first swap them in memory.
    by_kernel = jnp.tensordot(
        remembered, by_recalled, ((0, 1), (0, 1)), preferred_element_type=jnp.float32
    )
    # The loops have the sum for the bias at hand: `linear` is not asked for it.
    _, back = jax.vjp(lambda x, w: linear(x, w, bias), inputs, weights)
    by_inputs, by_weights = back(by_projected.astype(projected.dtype))
    by_kernel = by_kernel.astype(kernel.dtype)
    return by_weights, by_bias, by_kernel, by_candidate_bias, first, by_inputs, None


def _with_runs_in_front(loop: Callable) -> Callable:
    """Makes `jax.vmap` of `loop` a call with one more axis before the others.

    JAX's own rule would move time before runs and back, a pass over all of the memory for every
    array that a step reads or writes. A slice at one time can as well be taken behind the runs.
    """
    wrapped = custom_vmap(loop)

    @wrapped.def_vmap
    def put_in_front(runs: int, batched: list[bool], *arrays: Array) -> tuple[Any, Any]:
        full = [
            x if is_batched else jnp.broadcast_to(x, (runs, *x.shape))
            for x, is_batched in zip(arrays, batched, strict=True)
        ]
        outputs = wrapped(*full)
        return outputs, jax.tree.map(lambda _: True, outputs)

    return functools.wraps(loop)(wrapped)


@_with_runs_in_front
def _forward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    state: Float[Array, "*runs batch width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
) -> tuple[Array, ...]:
    """The last state and those of all steps; and h before each and U h, for the derivative."""
    if kernel_fits(kernel, state):
        from maskless.kernels.gru_steps import forward_loop

        return forward_loop(kernel, candidate_bias, state, projected, reset)

    def step(t: Array, now: tuple[Array, Buffers]) -> tuple[Array, Buffers]:
        state, kept = now
        given = _read(projected, t), _read(reset[..., None], t)[..., 0]
        state, for_derivative = _step(kernel, candidate_bias, state, given)
        return state, _write(kept, t, (state.astype(kernel.dtype), *for_derivative))

    shape = *reset.shape, state.shape[-1]
    kept = tuple(jnp.empty(s, kernel.dtype) for s in (shape, shape, projected.shape))
    last, kept = jax.lax.fori_loop(0, reset.shape[-2], step, (state, kept), unroll=UNROLL)
    return last, *kept


@_with_runs_in_front
def _backward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    remembered: Float[Array, "*runs time batch width"],
    recalled: Float[Array, "*runs time batch gates"],
    wanted_last: Float[Array, "*runs batch width"],
    wanted: Float[Array, "*runs time batch width"],
) -> tuple[Array, ...]:
    """The derivatives by the state before all steps, by U h and W x of each, and by both biases.

    Wanted are those of the loss by the last state in float32 and by the rounded ones.
    """
    if kernel_fits(kernel, wanted):
        from maskless.kernels.gru_steps import backward_loop

        given = kernel, candidate_bias, projected, reset, remembered, recalled
        return backward_loop(*given, wanted_last, wanted)

    def step(i: Array, now: tuple[Array, Buffers]) -> tuple[Array, Buffers]:
        later, kept = now
        t = time - 1 - i
        total = later + _read(wanted, t)
        given = _read(projected, t), _read(reset[..., None], t)[..., 0]
        for_derivative = _read(remembered, t), _read(recalled, t)
        earlier, by_sums = _step_back(kernel, candidate_bias, total, given, for_derivative)
        return earlier, _write(kept, t, by_sums)

    time = reset.shape[-2]
    kept = tuple(jnp.empty(recalled.shape, kernel.dtype) for _ in range(2))
    first, by_sums = jax.lax.fori_loop(0, time, step, (wanted_last, kept), unroll=UNROLL)
    return first, *by_sums, *_bias_sums(*by_sums)


def _bias_sums(
    by_recalled: Float[Array, "*runs time batch gates"],
    by_projected: Float[Array, "*runs time batch gates"],
) -> tuple[Float[Array, "*runs gates"], Float[Array, "*runs width"]]:
    """The derivatives by the bias of the inputs and by that of the candidate."""
    of_candidate = _parts(by_recalled)[2]
    by_bias, by_candidate = (
        x.sum((-3, -2), dtype=jnp.float32) for x in (by_projected, of_candidate)
    )
    return by_bias, by_candidate


def kernel_fits(kernel: Array, states: Float[Array, "*axes batch width"]) -> bool:
    """Whether to compute the loops with `gru_kernel`."""
    if kernel.dtype != jnp.bfloat16 or not kernels.wanted():
        return False
    from maskless.kernels.gru_steps import fits  # deprecated parts of JAX: only where it is wanted

    batch, width = states.shape[-2:]
    return fits(batch, width)


def _read(x: Float[Array, "*runs time batch numbers"], t: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(x, t, axis=-3, keepdims=False)


def _write(buffers: Buffers, t: Array, values: Buffers) -> Buffers:
    """Each of the buffers [*runs, time, batch, numbers] with its value at time t, in place."""
    return tuple(
        jax.lax.dynamic_update_index_in_dim(buffer, value, t, axis=-3)
        for buffer, value in zip(buffers, values, strict=True)
    )


def _step(
    kernel: Array, candidate_bias: Array, state: Array, given: tuple[Array, Array]
) -> tuple[Array, Buffers]:
    """One step: the state after it; and h and U h as the product has them, for the derivative."""
    projected, reset = given
    state = jnp.where(reset[..., None], 0.0, state)
    remembered = state.astype(kernel.dtype)
    recalled = jnp.matmul(remembered, kernel)  # added up in float32, whatever it is rounded to
    _, z, n, _ = gates(_parts(projected), _parts(recalled), candidate_bias[..., None, :])
    return (1.0 - z) * n + z * state, (remembered, recalled)


def _step_back(
    kernel: Array, candidate_bias: Array, total: Array, given: Buffers, for_derivative: Buffers
) -> tuple[Array, Buffers]:
    """From dL/dh after a step, `total`: dL/dh before it; and those by U h and by W x.

    The gates are computed once more: to write them and to read them again would take longer.
    """
    (projected, reset), (remembered, recalled) = given, for_derivative
    r, z, n, inner = gates(_parts(projected), _parts(recalled), candidate_bias[..., None, :])
    by_r, by_z, by_recalled_n, by_n = slopes(total, remembered, r, z, n, inner)
    by_recalled, by_projected = (
        jnp.concatenate([by_r, by_z, x], axis=-1).astype(kernel.dtype)
        for x in (by_recalled_n, by_n)
    )
    earlier = total * z + product(by_recalled, jnp.swapaxes(kernel, -1, -2), kernel.dtype)
    earlier = jnp.where(reset[..., None], 0.0, earlier)
    return earlier, (by_recalled, by_projected)


def _parts(of_all_gates: Array) -> list[Array]:
    return jnp.split(of_all_gates, 3, axis=-1)


def gates(
    inputs: Sequence[Array],
    recalled: Sequence[Array],
    bias: Array,
    sigmoid: Callable = nn.sigmoid,
    tanh: Callable = nn.tanh,
) -> Buffers:
    """r, z, n and U h + b of the candidate, from W x and U h of all three, in float32."""
    input_r, input_z, input_n = (x.astype(jnp.float32) for x in inputs)
    state_r, state_z, state_n = (x.astype(jnp.float32) for x in recalled)
    r = sigmoid(input_r + state_r)
    z = sigmoid(input_z + state_z)
    inner = state_n + bias
    return r, z, tanh(input_n + r * inner), inner


def slopes(total: Array, before: Array, r: Array, z: Array, n: Array, inner: Array) -> Buffers:
    """From dL/dh after a step: the derivatives by U h of r, z and n, and by W x of n.

    Those by W x of r and z are the same as by U h.
    """
    by_n = total * (1.0 - z) * (1.0 - n * n)
    by_z = total * (before.astype(jnp.float32) - n) * z * (1.0 - z)
    return by_n * inner * r * (1.0 - r), by_z, by_n * r, by_n


run.defvjp(_run_forward, _run_backward)


def _three_orthogonal(key: PRNGKeyArray, width: int) -> Float[Array, "width gates"]:
    """Recurrent weights of r, z and n side by side, each orthogonal by itself."""
    init = orthogonal()
    keys = jax.random.split(key, 3)
    return jnp.concatenate([init(k, (width, width)) for k in keys], axis=-1)
