"""The GRU's loops with one GPU kernel per step: the product, the gates and all that is kept.

XLA computes the product of a step in one kernel and what follows from it in others, which wait for
each other and pass everything through memory. Here each program computes a block of rows and
columns of the next state (or, backwards, of the derivative by it) from whole rows of the state, so
the kernel of the next step can only start after it: a step cannot be shorter than one launch.

`maskless.kernels` says when it is used.
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

from maskless.nets.gru import UNROLL, gates, slopes


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
"""Of each sum of rows: the smallest product has as many rows, and one is wanted."""


def fits(batch: int, width: int) -> bool:
    return all(
        batch % sizes.rows == 0 and width % max(sizes.columns, sizes.chunk) == 0
        for sizes in (FORWARD, BACKWARD)
    )


def forward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    state: Float[Array, "*runs batch width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    sizes: Sizes = FORWARD,
    interpret: bool = False,
) -> tuple[Array, ...]:
    """The last state and those of all steps; and h before each and U h, for the derivative."""
    *runs, time, _ = reset.shape
    kernel, candidate_bias, state, projected, reset = _merge_runs(
        len(runs), kernel, candidate_bias, state, projected, reset.astype(jnp.int32)
    )
    states = jnp.empty((*reset.shape, state.shape[-1]), kernel.dtype)
    state = jnp.where(reset[:, 0, :, None], 0.0, state)
    remembered = jax.lax.dynamic_update_index_in_dim(
        jnp.empty_like(states), state.astype(kernel.dtype), 0, axis=1
    )
    recalled = jnp.empty(projected.shape, kernel.dtype)
    given = kernel, candidate_bias, projected, reset
    buffers = state, states, remembered, recalled
    outputs = _all_steps(_forward_step, time, given, buffers, sizes, interpret)
    return tuple(x.reshape(*runs, *x.shape[1:]) for x in outputs)


def backward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    remembered: Float[Array, "*runs time batch width"],
    recalled: Float[Array, "*runs time batch gates"],
    wanted_last: Float[Array, "*runs batch width"],
    wanted: Float[Array, "*runs time batch width"],
    sizes: Sizes = BACKWARD,
    interpret: bool = False,
) -> tuple[Array, ...]:
    """The derivatives by the state before all steps, by U h and W x of each, and by both biases."""
    *runs, time, batch = reset.shape
    kept, *given = _merge_runs(
        len(runs),
        *(wanted_last, kernel, candidate_bias, projected, reset.astype(jnp.int32)),
        *(remembered, recalled, wanted),
    )
    kernel, reset, recalled = given[0], given[3], given[5]
    by_recalled, by_projected = jnp.empty_like(recalled), jnp.empty_like(recalled)
    width = wanted.shape[-1]
    blocks = batch // sizes.rows
    sums = jnp.empty((kernel.shape[0], blocks, time + COPIES - 1, 4 * width), jnp.float32)
    buffers = kept, by_recalled, by_projected, sums
    kept, by_recalled, by_projected, sums = _all_steps(
        _backward_step, time, given, buffers, sizes, interpret
    )
    through = jnp.einsum(
        "rbj,rij->rbi", by_recalled[:, 0], kernel, preferred_element_type=jnp.float32
    )
    first = jnp.where(reset[:, 0, :, None], 0.0, kept + through)
    by_biases = jnp.split(sums[:, :, :time].sum((1, 2)), [3 * width], axis=-1)
    outputs = first, by_recalled, by_projected, *by_biases
    return tuple(x.reshape(*runs, *x.shape[1:]) for x in outputs)


def _merge_runs(axes: int, *arrays: Array) -> tuple[Array, ...]:
    """All axes of runs as one."""
    return tuple(x.reshape(-1, *x.shape[axes:]) for x in arrays)


def _all_steps(
    body: Callable,
    time: int,
    given: Sequence[Array],
    buffers: tuple[Array, ...],
    sizes: Sizes,
    interpret: bool,
) -> tuple[Array, ...]:
    """The buffers after `time` steps, which change them in place.

    A step computes by itself which one it is, from the iteration of the loop and a constant: done
    here, it would be one more kernel for each.
    """
    runs, batch, width = buffers[0].shape
    steps, first = gcd(time, UNROLL), 2 + len(given)
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
            buffers = tuple(call(*numbers, *given, *buffers))
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
    """What no step after this one needs: the cache should keep the weights instead."""
    return triton.load(ref.at[index], eviction_policy="evict_first")


def _write_once(ref: Any, *index: Any, value: Array) -> None:
    triton.store(ref.at[index], value.astype(ref.dtype), eviction_policy="evict_first")


def _forward_step(iteration: Any, step: Any, *refs: Any, sizes: Sizes, steps: int) -> None:
    kernel, bias, projected, reset = refs[:4]
    state, states, remembered, recalled = refs[8:]  # refs[4:8] are the same memory
    last, width = states.shape[1] - 1, states.shape[-1]
    t = iteration[0] * steps + step[0]
    run, _, rows, columns = _block(sizes, width)
    own, *_ = columns = columns[:3]
    # Asked for before the product, which it then travels beside.
    starts_anew = (reset[run, jnp.minimum(t + 1, last), rows] != 0) & (t < last)
    inputs = [_read_once(projected, run, t, rows, c) for c in columns]
    own_bias, before = bias[run, own][None], state[run, rows, own]

    def add(k: Array, sums: list[Array]) -> list[Array]:
        chunk = pl.ds(k * sizes.chunk, sizes.chunk)
        h = remembered[run, t, rows, chunk]
        return [s + _product(h, kernel[run, chunk, c]) for s, c in zip(sums, columns, strict=True)]

    zeros = jnp.zeros((sizes.rows, sizes.columns), jnp.float32)
    sums = jax.lax.fori_loop(0, width // sizes.chunk, add, [zeros] * 3)
    rounded = [x.astype(recalled.dtype) for x in sums]
    _, z, n, _ = gates(inputs, rounded, own_bias, _sigmoid, _tanh)
    after = (1.0 - z) * n + z * before
    for c, x in zip(columns, rounded, strict=True):
        _write_once(recalled, run, t, rows, c, value=x)
    _write_once(states, run, t, rows, own, value=after)
    after = jnp.where(starts_anew[:, None], 0.0, after)
    state[run, rows, own] = after

    @pl.when(t < last)
    def keep_for_the_next_step() -> None:
        remembered[run, t + 1, rows, own] = after.astype(remembered.dtype)


def _backward_step(iteration: Any, step: Any, *refs: Any, sizes: Sizes, steps: int) -> None:
    """First the product of the step after this one, then the gates of this one."""
    kernel, bias, projected, reset, remembered, recalled, wanted = refs[:7]
    kept, by_recalled, by_projected, sums = refs[11:]  # refs[7:11] are the same memory
    last, width = wanted.shape[1] - 1, wanted.shape[-1]
    t = last - (iteration[0] * steps + step[0])
    run, row, rows, columns = _block(sizes, width)
    own = columns[0]
    following = jnp.minimum(t + 1, last)
    # As in a step forward: asked for before the product.
    inputs, states = (
        [_read_once(x, run, t, rows, c) for c in columns[:3]] for x in (projected, recalled)
    )
    before, wanted_now = (_read_once(x, run, t, rows, own) for x in (remembered, wanted))
    own_bias, later = bias[run, own][None], kept[run, rows, own]

    def add(k: Array, total: Array) -> Array:
        chunk = pl.ds(k * sizes.chunk, sizes.chunk)
        through = by_recalled[run, following, rows, chunk]
        return total + _product(through, kernel[run, own, chunk], weights_axis=1)

    zeros = jnp.zeros((sizes.rows, sizes.columns), jnp.float32)
    through = jax.lax.fori_loop(0, 3 * width // sizes.chunk, add, zeros)
    # Nothing follows the last step: what the product has read there is not yet written.
    is_last = t == last
    later += jnp.where(is_last, 0.0, through)
    goes_on = is_last | (reset[run, following, rows][:, None] == 0)
    total = wanted_now + jnp.where(goes_on, later, 0.0)
    r, z, n, inner = gates(inputs, states, own_bias, _sigmoid, _tanh)
    by_r, by_z, by_recalled_n, by_n = slopes(total, before, r, z, n, inner)
    for c, x in zip(columns[:3], (by_r, by_z, by_recalled_n), strict=True):
        by_recalled[run, t, rows, c] = x.astype(by_recalled.dtype)
    for c, x in zip(columns[:3], (by_r, by_z, by_n), strict=True):
        _write_once(by_projected, run, t, rows, c, value=x)
    kept[run, rows, own] = total * z
    _write_sums(sums, (run, row, pl.ds(t, COPIES)), columns, (by_r, by_z, by_n, by_recalled_n))


def _write_sums(sums: Any, index: Any, columns: list[Any], parts: Sequence[Array]) -> None:
    """The sum of all rows of each, as a product: a reduction waits ten times for all threads."""
    for c, x in zip(columns, parts, strict=True):
        ones = jnp.ones((COPIES, x.shape[0]), jnp.bfloat16)
        copies = _product(ones, x.astype(jnp.bfloat16))
        only_one = jax.lax.broadcasted_iota(jnp.int32, copies.shape, 0) == 0
        triton.store(sums.at[*index, c], copies, mask=only_one)
