"""The GRU's loops with one GPU kernel per step: the product, the gates and the writes.

XLA computes the product of a step in one kernel and what follows from it in others, which wait for
each other and pass everything through memory. Here each program computes a block of rows and
columns of the next state (or, backwards, of its cotangent) from whole rows of the state, so the
kernel of the next step can only start after it: a step cannot be shorter than one launch.

Names are those of `maskless.kernels.gru`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float

from maskless.kernels import gru


class Sizes(NamedTuple):
    """How a step is divided."""

    rows: int = 128
    columns: int = 64
    """Of the state; a program computes those of all three gates."""
    chunk: int = 64
    """Numbers of a row that a product adds up at once."""
    warps: int = 8
    stages: int = 3
    """Chunks that are on their way at a time."""


FORWARD, BACKWARD = Sizes(), Sizes(stages=4)
LOG2_E = 1.4426950408889634
COPIES = 16
"""Of each sum of rows: the smallest product has as many rows, and one is needed."""


def fits(recurrent: Array, candidate_bias: Array, *arrays: Array) -> bool:
    """Called with the arguments of either loop: [..., batch, ...] comes third in both."""
    batch, width = arrays[0].shape[-2], recurrent.shape[-2]
    return recurrent.dtype == jnp.bfloat16 and all(
        batch % sizes.rows == 0 and width % max(sizes.columns, sizes.chunk) == 0
        for sizes in (FORWARD, BACKWARD)
    )


def gru_forward(
    recurrent: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    state: Float[Array, "*runs batch width"],
    wx: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    sizes: Sizes = FORWARD,
    interpret: bool = False,
) -> tuple[Array, ...]:
    """As `maskless.kernels.gru.gru_forward`."""
    *runs, time, _ = reset.shape
    recurrent, candidate_bias, state, wx, reset = _merge_runs(
        len(runs), recurrent, candidate_bias, state, wx, reset.astype(jnp.int32)
    )
    states = jnp.empty((*reset.shape, state.shape[-1]), recurrent.dtype)
    state = jnp.where(reset[:, 0, :, None], 0.0, state)
    h = jax.lax.dynamic_update_index_in_dim(
        jnp.empty_like(states), state.astype(recurrent.dtype), 0, axis=1
    )
    uh = jnp.empty(wx.shape, recurrent.dtype)
    operands = recurrent, candidate_bias, wx, reset
    buffers = state, states, h, uh
    outputs = _all_steps(_forward_step, time, operands, buffers, sizes, interpret)
    return tuple(x.reshape(*runs, *x.shape[1:]) for x in outputs)


def gru_backward(
    recurrent: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    wx: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    h: Float[Array, "*runs time batch width"],
    uh: Float[Array, "*runs time batch gates"],
    d_last: Float[Array, "*runs batch width"],
    d_states: Float[Array, "*runs time batch width"],
    sizes: Sizes = BACKWARD,
    interpret: bool = False,
) -> tuple[Array, ...]:
    """As `maskless.kernels.gru.gru_backward`."""
    *runs, time, batch = reset.shape
    d_carry, *operands = _merge_runs(
        len(runs),
        *(d_last, recurrent, candidate_bias, wx, reset.astype(jnp.int32)),
        *(h, uh, d_states),
    )
    recurrent, reset, uh = operands[0], operands[3], operands[5]
    d_uh, d_wx = jnp.empty_like(uh), jnp.empty_like(uh)
    width = d_states.shape[-1]
    blocks = batch // sizes.rows
    sums = jnp.empty((recurrent.shape[0], blocks, time + COPIES - 1, 4 * width), jnp.float32)
    buffers = d_carry, d_uh, d_wx, sums
    d_carry, d_uh, d_wx, sums = _all_steps(
        _backward_step, time, operands, buffers, sizes, interpret
    )
    through_u = jnp.einsum(
        "rbj,rij->rbi", d_uh[:, 0], recurrent, preferred_element_type=jnp.float32
    )
    d_first = jnp.where(reset[:, 0, :, None], 0.0, d_carry + through_u)
    d_biases = jnp.split(sums[:, :, :time].sum((1, 2)), [3 * width], axis=-1)
    outputs = d_first, d_uh, d_wx, *d_biases
    return tuple(x.reshape(*runs, *x.shape[1:]) for x in outputs)


def _merge_runs(axes: int, *arrays: Array) -> tuple[Array, ...]:
    """All axes of runs as one."""
    return tuple(x.reshape(-1, *x.shape[axes:]) for x in arrays)


def _all_steps(
    body: Callable,
    time: int,
    operands: Sequence[Array],
    buffers: tuple[Array, ...],
    sizes: Sizes,
    interpret: bool,
) -> tuple[Array, ...]:
    """The buffers after `time` steps, which change them in place.

    A step computes its own number from the iteration of the loop and a constant: computed here, it
    would be one more kernel per step.
    """
    runs, batch, width = buffers[0].shape
    steps, first = gcd(time, gru.UNROLL), 2 + len(operands)
    call = pl.pallas_call(
        partial(body, sizes=sizes, steps=steps),
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in buffers],
        grid=(runs, width // sizes.columns, batch // sizes.rows),
        input_output_aliases={first + i: i for i in range(len(buffers))},
        compiler_params=triton.CompilerParams(num_warps=sizes.warps, num_stages=sizes.stages),
        interpret=interpret,
        name=body.__name__.strip("_"),
    )

    def iteration(i: Array, buffers: tuple[Array, ...]) -> tuple[Array, ...]:
        for step in range(steps):
            numbers = jnp.reshape(i, 1), np.array([step], np.int32)
            buffers = tuple(call(*numbers, *operands, *buffers))
        return buffers

    return jax.lax.fori_loop(0, time // steps, iteration, buffers)


def _block(sizes: Sizes, width: int) -> tuple[Any, Any, Any, list[Any]]:
    """This program's run, its block of rows, these rows, and its columns of up to four gates."""
    run, column, row = (pl.program_id(axis) for axis in range(3))
    columns = [pl.ds(part * width + column * sizes.columns, sizes.columns) for part in range(4)]
    return run, row, pl.ds(row * sizes.rows, sizes.rows), columns


def _product(x: Array, weights: Array, weights_axis: int = 0) -> Array:
    """Sums over the last axis of `x` and that of the weights, in float32."""
    axes = (((1,), (weights_axis,)), ((), ()))
    return jax.lax.dot_general(x, weights, axes, preferred_element_type=jnp.float32)


def _sigmoid(x: Array) -> Array:
    """Within 2e-7, in a few instructions: the GPU has powers of two, and the rest is precision."""
    return 1.0 / (1.0 + jnp.exp2(-LOG2_E * x))


def _tanh(x: Array) -> Array:
    return 2.0 * _sigmoid(2.0 * x) - 1.0


def _read_once(ref: Any, *index: Any) -> Array:
    """Reads what no later step needs: the cache should keep the weights instead."""
    return triton.load(ref.at[index], eviction_policy="evict_first")


def _write_once(ref: Any, *index: Any, value: Array) -> None:
    triton.store(ref.at[index], value.astype(ref.dtype), eviction_policy="evict_first")


def _forward_step(iteration: Any, step: Any, *refs: Any, sizes: Sizes, steps: int) -> None:
    recurrent, bias, wx, reset = refs[:4]
    state, states, h, uh = refs[8:]  # refs[4:8] are the same memory
    last, width = states.shape[1] - 1, states.shape[-1]
    t = iteration[0] * steps + step[0]
    run, _, rows, columns = _block(sizes, width)
    own, *_ = columns = columns[:3]
    # Read before the product, so that the memory works while the product is computed.
    resets_next = (reset[run, jnp.minimum(t + 1, last), rows] != 0) & (t < last)
    inputs = [_read_once(wx, run, t, rows, c) for c in columns]
    own_bias, before = bias[run, own][None], state[run, rows, own]

    def add(k: Array, sums: list[Array]) -> list[Array]:
        chunk = pl.ds(k * sizes.chunk, sizes.chunk)
        h_chunk = h[run, t, rows, chunk]
        return [
            s + _product(h_chunk, recurrent[run, chunk, c])
            for s, c in zip(sums, columns, strict=True)
        ]

    zeros = jnp.zeros((sizes.rows, sizes.columns), jnp.float32)
    sums = jax.lax.fori_loop(0, width // sizes.chunk, add, [zeros] * 3)
    rounded = [x.astype(uh.dtype) for x in sums]
    _, z, n, _ = gru.gates(inputs, rounded, own_bias, _sigmoid, _tanh)
    after = (1.0 - z) * n + z * before
    for c, x in zip(columns, rounded, strict=True):
        _write_once(uh, run, t, rows, c, value=x)
    _write_once(states, run, t, rows, own, value=after)
    after = jnp.where(resets_next[:, None], 0.0, after)
    state[run, rows, own] = after

    @pl.when(t < last)
    def store_h() -> None:
        h[run, t + 1, rows, own] = after.astype(h.dtype)


def _backward_step(iteration: Any, step: Any, *refs: Any, sizes: Sizes, steps: int) -> None:
    """First the product of the step after this one, then the gates of this one."""
    recurrent, bias, wx, reset, h, uh, d_states = refs[:7]
    d_carry, d_uh, d_wx, sums = refs[11:]  # refs[7:11] are the same memory
    last, width = d_states.shape[1] - 1, d_states.shape[-1]
    t = last - (iteration[0] * steps + step[0])
    run, row, rows, columns = _block(sizes, width)
    own = columns[0]
    next_t = jnp.minimum(t + 1, last)
    # As in a forward step: read before the product.
    inputs, states = ([_read_once(x, run, t, rows, c) for c in columns[:3]] for x in (wx, uh))
    h_block, d_output = (_read_once(x, run, t, rows, own) for x in (h, d_states))
    own_bias, d_later = bias[run, own][None], d_carry[run, rows, own]

    def add(k: Array, total: Array) -> Array:
        chunk = pl.ds(k * sizes.chunk, sizes.chunk)
        d_uh_chunk = d_uh[run, next_t, rows, chunk]
        return total + _product(d_uh_chunk, recurrent[run, own, chunk], weights_axis=1)

    zeros = jnp.zeros((sizes.rows, sizes.columns), jnp.float32)
    through_u = jax.lax.fori_loop(0, 3 * width // sizes.chunk, add, zeros)
    # Nothing follows the last step: what the product has read there is not yet written.
    is_last = t == last
    d_later += jnp.where(is_last, 0.0, through_u)
    same_episode = is_last | (reset[run, next_t, rows][:, None] == 0)
    d_state = d_output + jnp.where(same_episode, d_later, 0.0)
    r, z, n, inner = gru.gates(inputs, states, own_bias, _sigmoid, _tanh)
    d_r, d_z, d_uh_n, d_wx_n = gru.gate_cotangents(d_state, h_block, r, z, n, inner)
    for c, x in zip(columns[:3], (d_r, d_z, d_uh_n), strict=True):
        d_uh[run, t, rows, c] = x.astype(d_uh.dtype)
    for c, x in zip(columns[:3], (d_r, d_z, d_wx_n), strict=True):
        _write_once(d_wx, run, t, rows, c, value=x)
    d_carry[run, rows, own] = d_state * z
    _write_sums(sums, (run, row, pl.ds(t, COPIES)), columns, (d_r, d_z, d_wx_n, d_uh_n))


def _write_sums(sums: Any, index: Any, columns: list[Any], parts: Sequence[Array]) -> None:
    """The sum of all rows of each, as a product: a reduction waits ten times for all threads."""
    for c, x in zip(columns, parts, strict=True):
        ones = jnp.ones((COPIES, x.shape[0]), jnp.bfloat16)
        copies = _product(ones, x.astype(jnp.bfloat16))
        only_one = jax.lax.broadcasted_iota(jnp.int32, copies.shape, 0) == 0
        triton.store(sums.at[*index, c], copies, mask=only_one)
