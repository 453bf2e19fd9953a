"""Moving finished environments to new levels, in a GPU kernel that writes nothing else.

XLA can only write all states anew (`vector.choose_for_all`). Here the states stay where they are,
and the few whose episode has ended get another level written over them.

`maskless.kernels` says when this is used.
"""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Int

TOGETHER = 16
"""Environments that a program looks after. Few are finished, so most have nothing to do."""
LARGE = 256
"""Bytes from which on a part of a state is worth it."""


def fits(state: Array) -> bool:
    """`state`: one array of all environments."""
    if jax.dtypes.issubdtype(state.dtype, jax.dtypes.extended):  # random keys
        return False
    size = prod(state.shape[1:]) * state.dtype.itemsize
    return state.shape[0] % TOGETHER == 0 and size >= LARGE


def overwrite(
    states: list[Array],
    done: Bool[Array, " envs"],
    levels: list[Array],
    slots: Int[Array, " envs"],
    interpret: bool = False,
) -> list[Array]:
    """states[e] = levels[slots[e]] for all e that are `done`, in all arrays of the lists."""
    envs, count = len(done), len(states)
    call = pl.pallas_call(
        _overwrite,
        out_shape=[jax.ShapeDtypeStruct((x.size,), x.dtype) for x in states],
        grid=(envs // TOGETHER,),
        input_output_aliases={1 + count + k: k for k in range(count)},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="overwrite",
    )
    wanted = jnp.where(done, slots, -1).astype(jnp.int32)
    outcome = call(wanted, *(x.reshape(-1) for x in (*levels, *states)))
    return [flat.reshape(x.shape) for flat, x in zip(outcome, states, strict=True)]


def _overwrite(wanted: Any, *refs: Any) -> None:
    count = len(refs) // 3
    levels, states = refs[:count], refs[2 * count :]  # those between are the same memory
    envs = wanted.shape[0]

    first = pl.program_id(0) * TOGETHER

    def move(number: Array, nothing: None) -> None:
        slot = wanted[first + number]
        pl.when(slot >= 0)(lambda: copy(slot, first + number))

    def copy(slot: Array, env: Array) -> None:
        for level, state in zip(levels, states, strict=True):
            size = state.shape[0] // envs
            square = jnp.arange(pl.next_power_of_2(size), dtype=jnp.int32)
            there = square < size
            new = triton.load(level.at[slot * size + square], mask=there)
            triton.store(state.at[env * size + square], new, mask=there)

    jax.lax.fori_loop(0, TOGETHER, move, None)
