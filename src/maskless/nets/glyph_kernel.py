"""GlyphNet's first layer as one GPU kernel, and its derivative as another.

XLA writes the one-hots of all windows to memory (3.5 kB per observation), reads them for the
product, and again for its derivative. Here each program makes those of its windows itself, and
memory sees the ids, the outcome and the tables only.

`maskless.nets.kernels` says when it is used.
"""

from functools import partial
from math import gcd
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int8

BLOCK = 128
"""Windows that are computed at once."""
PROGRAMS = 32
"""At most, that the derivative is divided among: each adds up over its windows."""
IDS = 32
"""Rows of a table here: a power of two, as the compiler wants it, and the last one has zeros."""


def fits(ids: Int8[Array, "places windows"]) -> bool:
    return ids.shape[1] % BLOCK == 0


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def rectified_rows(
    tables: Float[Array, "places ids width"],
    ids: Int8[Array, "places windows"],
    bias: Float[Array, " width"],
    interpret: bool = False,
) -> Float[Array, "windows width"]:
    """relu(bias + the rows with these ids, one of each table), in the tables' dtype."""
    missing = IDS - tables.shape[1]
    tables = jnp.pad(tables, ((0, 0), (0, missing), (0, 0)))
    windows, width = ids.shape[1], tables.shape[-1]
    call = pl.pallas_call(
        _forward,
        out_shape=jax.ShapeDtypeStruct((windows, width), tables.dtype),
        grid=(windows // BLOCK,),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
        name="glyph_rows",
    )
    outcome: Array = call(tables, ids, bias)
    return outcome


def _forward(tables: Any, ids: Any, bias: Any, outcome: Any) -> None:
    windows = pl.ds(pl.program_id(0) * BLOCK, BLOCK)
    total = jnp.zeros((BLOCK, tables.shape[-1]), jnp.float32) + bias[...][None]
    for place in range(tables.shape[0]):
        rows = ids[place, windows].astype(jnp.int32)
        rows = jnp.where((rows >= 0) & (rows < IDS), rows, IDS - 1)
        total += tables[place, rows, :].astype(jnp.float32)
    outcome[windows, :] = jnp.maximum(total, 0.0).astype(outcome.dtype)


def _rows_forward(
    tables: Array, ids: Array, bias: Array, interpret: bool
) -> tuple[Array, tuple[Array, ...]]:
    outcome = rectified_rows(tables, ids, bias, interpret)
    return outcome, (tables, ids, outcome)


def _rows_backward(interpret: bool, residuals: Any, wanted: Array) -> tuple[Any, ...]:
    tables, ids, outcome = residuals
    places, rows, width = tables.shape
    programs = gcd(PROGRAMS, ids.shape[1] // BLOCK)
    call = pl.pallas_call(
        _backward,
        out_shape=(
            jax.ShapeDtypeStruct((programs, places, IDS, width), jnp.float32),
            jax.ShapeDtypeStruct((programs, width), jnp.float32),
        ),
        grid=(programs,),
        compiler_params=triton.CompilerParams(num_warps=8, num_stages=2),
        interpret=interpret,
        name="glyph_rows_backward",
    )
    by_tables, by_bias = call(ids, outcome, wanted)
    return by_tables.sum(0)[:, :rows].astype(tables.dtype), None, by_bias.sum(0)


def _backward(ids: Any, outcome: Any, wanted: Any, by_tables: Any, by_bias: Any) -> None:
    program = pl.program_id(0)
    places, width = ids.shape[0], outcome.shape[-1]
    blocks = ids.shape[1] // BLOCK // by_bias.shape[0]

    rows = jax.lax.broadcasted_iota(jnp.int32, (IDS, BLOCK), 0)

    def add(i: Array, sums: list[Array]) -> list[Array]:
        some = pl.ds((program * blocks + i) * BLOCK, BLOCK)
        gradient = jnp.where(outcome[some, :] > 0.0, wanted[some, :], 0.0).astype(wanted.dtype)
        added = [sums[0] + gradient.astype(jnp.float32).sum(0)]
        for place in range(places):
            chosen = ids[place, some].astype(jnp.int32)[None] == rows
            new = jnp.dot(
                chosen.astype(gradient.dtype), gradient, preferred_element_type=jnp.float32
            )
            added.append(sums[1 + place] + new)
        return added

    nothing = [jnp.zeros(width, jnp.float32), *[jnp.zeros((IDS, width), jnp.float32)] * places]
    by_bias[program, :], *sums = jax.lax.fori_loop(0, blocks, add, nothing)
    for place, total in enumerate(sums):
        by_tables[program, place] = total


rectified_rows.defvjp(_rows_forward, _rows_backward)
