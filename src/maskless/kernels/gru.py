"""The GRU with a derivative of its own, and loops that leave the axis of runs where it is.

JAX's derivative of `scan` adds to the derivative of the recurrent weights in every step: a product
and a pass over the whole matrix each time. Here the backward loop only carries dL/dh; the weights'
derivative is one product over all steps after it.

Names: `wx` is W x + b of the three gates, `h` the state before a step (rounded, zero after a
reset), `uh` is U h; `d_...` is the cotangent of ... .
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Shaped

from maskless import kernels
from maskless.kernels.layers import linear

UNROLL = 8
"""Steps per iteration of the compiled loop: a GPU starts each iteration anew."""

Buffers = tuple[Array, ...]


@jax.custom_vjp
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
    return _forward(weights, bias, recurrent, candidate_bias, state, inputs, reset)[0]


def _forward(
    weights: Array,
    bias: Array,
    recurrent: Array,
    candidate_bias: Array,
    state: Array,
    inputs: Array,
    reset: Array,
) -> tuple[Any, Any]:
    wx = linear(inputs, weights, bias)
    last, states, h, uh = gru_forward(recurrent, candidate_bias, state, wx, reset)
    return (last, states), (weights, bias, inputs, recurrent, candidate_bias, wx, reset, h, uh)


def _backward(residuals: Any, cotangents: tuple[Array, Array]) -> tuple[Any, ...]:
    """The cotangents of all arguments but `reset`."""
    weights, bias, inputs, *of_loop = residuals
    recurrent, _, wx, _, h, _ = of_loop
    d_state, d_uh, d_wx, d_bias, d_candidate_bias = gru_backward(*of_loop, *cotangents)
    # jnp.einsum would sum over batch and time in this order, and first swap them in memory.
    d_recurrent = jnp.tensordot(h, d_uh, ((0, 1), (0, 1)), preferred_element_type=jnp.float32)
    # The loop has the sum for the bias already: `linear` is not asked for it.
    _, linear_vjp = jax.vjp(lambda x, w: linear(x, w, bias), inputs, weights)
    d_inputs, d_weights = linear_vjp(d_wx.astype(wx.dtype))
    d_recurrent = d_recurrent.astype(recurrent.dtype)
    return d_weights, d_bias, d_recurrent, d_candidate_bias, d_state, d_inputs, None


gru.defvjp(_forward, _backward)


def _runs_first(loop: Callable) -> Callable:
    """Makes `jax.vmap` of `loop` a call with one more axis before all others.

    JAX's own rule would move time before runs and back, a pass over the memory for every array that
    a step reads or writes.
    """
    wrapped = custom_vmap(loop)

    @wrapped.def_vmap
    def batch_rule(runs: int, batched: list[bool], *arrays: Array) -> tuple[Any, Any]:
        full = [
            x if is_batched else jnp.broadcast_to(x, (runs, *x.shape))
            for x, is_batched in zip(arrays, batched, strict=True)
        ]
        outputs = wrapped(*full)
        return outputs, jax.tree.map(lambda _: True, outputs)

    return functools.wraps(loop)(wrapped)


@_runs_first
@kernels.dispatch
def gru_forward(
    recurrent: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    state: Float[Array, "*runs batch width"],
    wx: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
) -> tuple[Array, ...]:
    """The last state; and the states after all steps, h and U h, each [*runs, time, batch, ...]."""

    def step(t: Array, carry: tuple[Array, Buffers]) -> tuple[Array, Buffers]:
        state, buffers = carry
        state = jnp.where(_read(reset[..., None], t), 0.0, state)
        h = state.astype(recurrent.dtype)
        uh = jnp.matmul(h, recurrent)  # added up in float32, whatever it is rounded to
        bias = candidate_bias[..., None, :]
        _, z, n, _ = gates(split_gates(_read(wx, t)), split_gates(uh), bias)
        state = (1.0 - z) * n + z * state
        return state, _write(buffers, t, (state.astype(recurrent.dtype), h, uh))

    shape = *reset.shape, state.shape[-1]
    buffers = tuple(jnp.empty(s, recurrent.dtype) for s in (shape, shape, wx.shape))
    last, buffers = jax.lax.fori_loop(0, reset.shape[-2], step, (state, buffers), unroll=UNROLL)
    return last, *buffers


@_runs_first
@kernels.dispatch
def gru_backward(
    recurrent: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    wx: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    h: Float[Array, "*runs time batch width"],
    uh: Float[Array, "*runs time batch gates"],
    d_last: Float[Array, "*runs batch width"],
    d_states: Float[Array, "*runs time batch width"],
) -> tuple[Array, ...]:
    """Cotangents of the first state, of U h and W x of all steps, and of both biases.

    The gates are computed once more: to write them and to read them again would take longer.
    """

    def step(i: Array, carry: tuple[Array, Buffers]) -> tuple[Array, Buffers]:
        d_later, buffers = carry
        t = time - 1 - i
        d_state = d_later + _read(d_states, t)
        bias = candidate_bias[..., None, :]
        r, z, n, inner = gates(split_gates(_read(wx, t)), split_gates(_read(uh, t)), bias)
        d_r, d_z, d_uh_n, d_wx_n = gate_cotangents(d_state, _read(h, t), r, z, n, inner)
        d_uh, d_wx = (
            jnp.concatenate([d_r, d_z, d_n], axis=-1).astype(recurrent.dtype)
            for d_n in (d_uh_n, d_wx_n)
        )
        transposed = jnp.swapaxes(recurrent, -1, -2)
        through_u = jnp.matmul(d_uh, transposed, preferred_element_type=jnp.float32)
        d_before = jnp.where(_read(reset[..., None], t), 0.0, d_state * z + through_u)
        return d_before, _write(buffers, t, (d_uh, d_wx))

    time = reset.shape[-2]
    buffers = tuple(jnp.empty(uh.shape, recurrent.dtype) for _ in range(2))
    d_first, buffers = jax.lax.fori_loop(0, time, step, (d_last, buffers), unroll=UNROLL)
    d_uh, d_wx = buffers
    d_bias, d_candidate_bias = (
        x.sum((-3, -2), dtype=jnp.float32) for x in (d_wx, split_gates(d_uh)[2])
    )
    return d_first, d_uh, d_wx, d_bias, d_candidate_bias


def _read(x: Shaped[Array, "*runs time batch numbers"], t: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(x, t, axis=-3, keepdims=False)


def _write(buffers: Buffers, t: Array, values: Buffers) -> Buffers:
    """Each of the buffers [*runs, time, batch, numbers] with its value at time t, in place."""
    return tuple(
        jax.lax.dynamic_update_index_in_dim(buffer, value, t, axis=-3)
        for buffer, value in zip(buffers, values, strict=True)
    )


def split_gates(x: Float[Array, "... gates"]) -> list[Array]:
    """The parts of r, z and n."""
    return jnp.split(x, 3, axis=-1)


def gates(
    wx: Sequence[Array],
    uh: Sequence[Array],
    candidate_bias: Array,
    sigmoid: Callable = jax.nn.sigmoid,
    tanh: Callable = jnp.tanh,
) -> Buffers:
    """r, z, n and U h + b of the candidate, in float32; `wx` and `uh` of r, z and n."""
    wx_r, wx_z, wx_n = (x.astype(jnp.float32) for x in wx)
    uh_r, uh_z, uh_n = (x.astype(jnp.float32) for x in uh)
    r = sigmoid(wx_r + uh_r)
    z = sigmoid(wx_z + uh_z)
    inner = uh_n + candidate_bias
    return r, z, tanh(wx_n + r * inner), inner


def gate_cotangents(
    d_state: Array, h: Array, r: Array, z: Array, n: Array, inner: Array
) -> Buffers:
    """From the cotangent of the state after a step: those of U h of r, z and n, and of W x of n.

    Those of W x of r and z are the same as of U h.
    """
    d_n = d_state * (1.0 - z) * (1.0 - n * n)
    d_z = d_state * (h.astype(jnp.float32) - n) * z * (1.0 - z)
    return d_n * inner * r * (1.0 - r), d_z, d_n * r, d_n
