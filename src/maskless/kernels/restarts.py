"""Finished environments get their new levels from a GPU kernel that writes nothing else.

XLA can only write all states anew. Here the states stay where they are, and the few whose episode
has ended get another level written over them.
"""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Int, PyTree

ENVS_PER_PROGRAM = 16
"""Few environments are finished, so most programs have nothing to do."""
LARGE = 256
"""Bytes per environment from which on an array is worth it."""


def restart(
    states: PyTree[Array],
    done: Bool[Array, " envs"],
    levels: PyTree[Array],
    slots: Int[Array, " envs"],
    interpret: bool = False,
) -> PyTree[Array]:
    """As `maskless.envs.vector.restart`, but large arrays are changed in place."""
    old, structure = jax.tree.flatten(states)
    new = jax.tree.leaves(levels)
    large = [k for k, x in enumerate(old) if is_large(x)]
    arrays = [old[k] for k in large], done, [new[k] for k in large], slots
    restarted = dict(zip(large, overwrite(*arrays, interpret), strict=True)) if large else {}
    read = jnp.where(done, slots, 0)
    for k, (state, level) in enumerate(zip(old, new, strict=True)):
        if k not in restarted:
            finished = done.reshape(-1, *[1] * (state.ndim - 1))
            restarted[k] = jnp.where(finished, level[read], state)
    return jax.tree.unflatten(structure, [restarted[k] for k in range(len(old))])


def is_large(state: Array) -> bool:
    """`state`: one array of all environments."""
    if jax.dtypes.issubdtype(state.dtype, jax.dtypes.extended):  # random keys
        return False
    size = prod(state.shape[1:]) * state.dtype.itemsize
    return state.shape[0] % ENVS_PER_PROGRAM == 0 and size >= LARGE


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
        grid=(envs // ENVS_PER_PROGRAM,),
        input_output_aliases={1 + count + k: k for k in range(count)},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="overwrite",
    )
    sources = jnp.where(done, slots, -1).astype(jnp.int32)
    outputs = call(sources, *(x.reshape(-1) for x in (*levels, *states)))
    return [flat.reshape(x.shape) for flat, x in zip(outputs, states, strict=True)]


def _overwrite(sources: Any, *refs: Any) -> None:
    count = len(refs) // 3
    levels, states = refs[:count], refs[2 * count :]  # those between are the same memory
    envs = sources.shape[0]
    first = pl.program_id(0) * ENVS_PER_PROGRAM

    def move(number: Array, nothing: None) -> None:
        slot = sources[first + number]
        pl.when(slot >= 0)(lambda: copy(slot, first + number))

    def copy(slot: Array, env: Array) -> None:
        for level, state in zip(levels, states, strict=True):
            size = state.shape[0] // envs
            number = jnp.arange(pl.next_power_of_2(size), dtype=jnp.int32)
            exists = number < size
            new = triton.load(level.at[slot * size + number], mask=exists)
            triton.store(state.at[env * size + number], new, mask=exists)

    jax.lax.fori_loop(0, ENVS_PER_PROGRAM, move, None)
