"""The GRU's loops with one GPU kernel per step: the product, the gates and all that is kept.

XLA computes the product of a step in one kernel and what follows from it in others, which wait for
each other and pass everything through memory. Here each program computes a block of rows and
columns of the next state (or, backwards, of the derivative by it) from whole rows of the state, so
the kernel of the next step can only start after it: a step cannot be shorter than one launch.

`maskless.nets.kernels` says when it is used.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
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


SIZES = Sizes()


def fits(batch: int, width: int, sizes: Sizes = SIZES) -> bool:
    return batch % sizes.rows == 0 and width % max(sizes.columns, sizes.chunk) == 0


def forward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    state: Float[Array, "*runs batch width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    sizes: Sizes = SIZES,
    interpret: bool = False,
) -> tuple[Array, ...]:
    """The states of all steps; and h before each and U h, for the derivative."""
    *runs, time, _ = reset.shape
    kernel, candidate_bias, state, projected, reset = _merge_runs(
        len(runs), kernel, candidate_bias, state, projected, reset.astype(jnp.int32)
    )
    states = jnp.empty((*reset.shape, state.shape[-1]), state.dtype)
    state = jnp.where(reset[:, 0, :, None], 0.0, state)
    remembered = jax.lax.dynamic_update_index_in_dim(
        jnp.empty(states.shape, kernel.dtype), state.astype(kernel.dtype), 0, axis=1
    )
    recalled = jnp.empty(projected.shape, kernel.dtype)
    given = kernel, candidate_bias, projected, reset
    buffers = state, states, remembered, recalled
    step = _step_call(_forward_step, given, buffers, sizes, interpret)
    _, *kept = jax.lax.fori_loop(0, time, step, buffers, unroll=UNROLL)
    return tuple(x.reshape(*runs, *x.shape[1:]) for x in kept)


def backward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    remembered: Float[Array, "*runs time batch width"],
    recalled: Float[Array, "*runs time batch gates"],
    wanted: Float[Array, "*runs time batch width"],
    sizes: Sizes = SIZES,
    interpret: bool = False,
) -> tuple[Array, ...]:
    """The derivative by the state before all steps; those of each step by U h and W x of n."""
    *runs, time, _ = reset.shape
    given = _merge_runs(
        len(runs),
        *(kernel, candidate_bias, projected, reset.astype(jnp.int32)),
        *(remembered, recalled, wanted),
    )
    kernel, reset, remembered, recalled, wanted = given[0], *given[3:]
    kept = jnp.zeros_like(wanted[:, 0])
    by_recalled = jnp.empty(recalled.shape, kernel.dtype)
    by_input_n = jnp.empty(remembered.shape, kernel.dtype)
    buffers = kept, by_recalled, by_input_n
    step = _step_call(_backward_step, given, buffers, sizes, interpret)
    kept, by_recalled, by_input_n = jax.lax.fori_loop(
        0, time, lambda i, buffers: step(time - 1 - i, buffers), buffers, unroll=UNROLL
    )
    through = jnp.einsum(
        "rbj,rij->rbi", by_recalled[:, 0], kernel, preferred_element_type=jnp.float32
    )
    first = jnp.where(reset[:, 0, :, None], 0.0, kept + through)
    return tuple(x.reshape(*runs, *x.shape[1:]) for x in (first, by_recalled, by_input_n))


def _merge_runs(axes: int, *arrays: Array) -> tuple[Array, ...]:
    """All axes of runs as one."""
    return tuple(x.reshape(-1, *x.shape[axes:]) for x in arrays)


def _step_call(
    body: Callable, given: Sequence[Array], buffers: Sequence[Array], sizes: Sizes, interpret: bool
) -> Callable:
    """A function of time and `buffers`, which it changes in place."""
    runs, batch, width = buffers[0].shape
    first = 1 + len(given)
    call = pl.pallas_call(
        partial(body, sizes=sizes),
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in buffers],
        grid=(runs, width // sizes.columns, batch // sizes.rows),
        input_output_aliases={first + i: i for i in range(len(buffers))},
        compiler_params=triton.CompilerParams(num_warps=sizes.warps, num_stages=sizes.stages),
        interpret=interpret,
        name=body.__name__.strip("_"),
    )
    return lambda t, buffers: call(jnp.reshape(t, (1,)), *given, *buffers)


def _block(sizes: Sizes, width: int) -> tuple[Any, Any, list[Any]]:
    """This program's run, its rows, and its columns of r, z and n."""
    run, column, row = (pl.program_id(axis) for axis in range(3))
    columns = [pl.ds(gate * width + column * sizes.columns, sizes.columns) for gate in range(3)]
    return run, pl.ds(row * sizes.rows, sizes.rows), columns


def _product(x: Array, weights: Array, weights_axis: int = 0) -> Array:
    """Sums over the last axis of `x` and that of the weights, in float32."""
    axes = (((1,), (weights_axis,)), ((), ()))
    return jax.lax.dot_general(x, weights, axes, preferred_element_type=jnp.float32)


def _forward_step(time: Any, *refs: Any, sizes: Sizes) -> None:
    kernel, bias, projected, reset = refs[:4]
    state, states, remembered, recalled = refs[8:]  # refs[4:8] are the same memory
    last, width = states.shape[1] - 1, states.shape[-1]
    t = time[0]
    run, rows, columns = _block(sizes, width)

    def add(k: Array, sums: list[Array]) -> list[Array]:
        chunk = pl.ds(k * sizes.chunk, sizes.chunk)
        h = remembered[run, t, rows, chunk]
        return [s + _product(h, kernel[run, chunk, c]) for s, c in zip(sums, columns, strict=True)]

    zeros = jnp.zeros((sizes.rows, sizes.columns), jnp.float32)
    sums = jax.lax.fori_loop(0, width // sizes.chunk, add, [zeros] * 3)
    rounded = [x.astype(recalled.dtype) for x in sums]
    for c, x in zip(columns, rounded, strict=True):
        recalled[run, t, rows, c] = x
    inputs = [projected[run, t, rows, c] for c in columns]
    own = columns[0]
    _, z, n, _ = gates(inputs, rounded, bias[run, own][None])
    after = (1.0 - z) * n + z * state[run, rows, own]
    states[run, t, rows, own] = after
    starts_anew = reset[run, jnp.minimum(t + 1, last), rows][:, None] != 0
    after = jnp.where(starts_anew, 0.0, after)
    state[run, rows, own] = after

    @pl.when(t < last)
    def keep_for_the_next_step() -> None:
        remembered[run, t + 1, rows, own] = after.astype(remembered.dtype)


def _backward_step(time: Any, *refs: Any, sizes: Sizes) -> None:
    """First the product of the step after this one, then the gates of this one."""
    kernel, bias, projected, reset, remembered, recalled, wanted = refs[:7]
    kept, by_recalled, by_input_n = refs[10:]  # refs[7:10] are the same memory
    last, width = wanted.shape[1] - 1, wanted.shape[-1]
    t = time[0]
    run, rows, columns = _block(sizes, width)
    own = columns[0]
    following = jnp.minimum(t + 1, last)

    def add(k: Array, total: Array) -> Array:
        chunk = pl.ds(k * sizes.chunk, sizes.chunk)
        through = by_recalled[run, following, rows, chunk]
        return total + _product(through, kernel[run, own, chunk], weights_axis=1)

    zeros = jnp.zeros((sizes.rows, sizes.columns), jnp.float32)
    through = jax.lax.fori_loop(0, 3 * width // sizes.chunk, add, zeros)
    # Nothing follows the last step: what was read there is not yet written, and not used.
    goes_on = (reset[run, following, rows][:, None] == 0) & (t < last)
    total = wanted[run, t, rows, own] + jnp.where(goes_on, kept[run, rows, own] + through, 0.0)
    inputs, states = ([x[run, t, rows, c] for c in columns] for x in (projected, recalled))
    r, z, n, inner = gates(inputs, states, bias[run, own][None])
    *by_sums, by_n = slopes(total, remembered[run, t, rows, own], r, z, n, inner)
    for c, x in zip(columns, by_sums, strict=True):
        by_recalled[run, t, rows, c] = x.astype(by_recalled.dtype)
    by_input_n[run, t, rows, own] = by_n.astype(by_input_n.dtype)
    kept[run, rows, own] = total * z
