"""GlyphNet's first layer as one GPU kernel, and its derivative as another.

XLA writes the one-hots of all windows to memory (3.5 kB per observation), reads them for the
product, and again for its derivative. Here memory holds the ids, the outputs and the tables only.

The ids of up to five places of a window are packed into one number, its key, five bits each.
Forward, each program adds up the rows with its windows' ids. Backward, the one-hots for all rows of
five tables are one comparison with the key, made in the registers where the product reads them.
"""

from collections.abc import Sequence
from functools import partial
from math import gcd
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int8, Int32, Integer

from maskless.kernels.glyphs import place_tables, window_places

BITS = 5
"""Of an id in a key."""
NO_ID = 2**BITS - 1
"""Stands for ids that no table has: tables have fewer rows."""
ROWS = 128
"""Of a product of one-hots: those of up to five tables, and one more."""


class Sizes(NamedTuple):
    """How the work is divided."""

    block: int = 64
    """Windows that are computed at once."""
    warps: int = 4
    stages: int = 2
    programs: int = 32
    """At most, that the derivative of a run is divided among: each adds up over its windows."""


FORWARD, BACKWARD = Sizes(), Sizes(warps=8, stages=3)


def fits(glyphs: Array, table: Array, kernel: Array, bias: Array, dtype: Any) -> bool:
    """Called with the arguments of `embed_and_convolve`: bfloat16, and whole blocks of windows."""
    windows = 4 * 4 * len(glyphs)
    blocks = all(windows % sizes.block == 0 for sizes in (FORWARD, BACKWARD))
    return dtype == jnp.bfloat16 and blocks


def embed_and_convolve(
    glyphs: Integer[Array, "samples 9 9"],
    table: Float[Array, "ids channels"],
    kernel: Float[Array, "window features"],
    bias: Float[Array, " features"],
    dtype: Any,
    interpret: bool = False,
) -> Float[Array, "samples 4 4 features"]:
    """As `maskless.nets.glyphs.embed_and_convolve`."""
    tables = place_tables(table, kernel).astype(dtype)
    places = [x.reshape(-1) for x in window_places(glyphs)]
    outputs = relu_of_rows(tables, keys_of(places, len(table)), bias, interpret)
    return outputs.reshape(len(glyphs), 4, 4, -1)


def _per_key(rows: int) -> int:
    """Tables of this many rows that one product of one-hots serves."""
    return min(32 // BITS - 1, (ROWS - 1) // rows)


def keys_of(ids: Sequence[Int8[Array, " windows"]], rows: int) -> Int32[Array, "keys windows"]:
    """The keys of windows with these ids in their places, for tables of this many rows."""
    in_table = [jnp.where((x >= 0) & (x < rows), x, NO_ID).astype(jnp.int32) for x in ids]
    step = _per_key(rows)
    groups = [in_table[start : start + step] for start in range(0, len(ids), step)]
    return jnp.stack([sum(x << BITS * i for i, x in enumerate(group)) for group in groups])


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def relu_of_rows(
    tables: Float[Array, "places ids width"],
    keys: Int32[Array, "keys windows"],
    bias: Float[Array, " width"],
    interpret: bool = False,
) -> Float[Array, "windows width"]:
    """relu(bias + the rows with these ids, one of each table), in the tables' dtype."""
    return sums_of_rows(tables, keys, bias, interpret=interpret)


def _rows_forward(
    tables: Array, keys: Array, bias: Array, interpret: bool
) -> tuple[Array, tuple[Array, ...]]:
    outputs = sums_of_rows(tables, keys, bias, interpret=interpret)
    return outputs, (tables, keys, outputs)


def _rows_backward(interpret: bool, residuals: Any, d_outputs: Array) -> tuple[Any, ...]:
    tables, keys, outputs = residuals
    places, rows, _ = tables.shape
    d_tables, d_bias = cotangents(keys, outputs, d_outputs, places, rows, interpret=interpret)
    return d_tables.astype(tables.dtype), None, d_bias


relu_of_rows.defvjp(_rows_forward, _rows_backward)


def sums_of_rows(
    tables: Float[Array, "places ids width"],
    keys: Int32[Array, "keys windows"],
    bias: Float[Array, " width"],
    sizes: Sizes = FORWARD,
    interpret: bool = False,
) -> Float[Array, "windows width"]:
    (_, rows, width), windows = tables.shape, keys.shape[1]
    tables = jnp.pad(tables, ((0, 0), (0, NO_ID + 1 - rows), (0, 0)))
    call = pl.pallas_call(
        partial(_forward, per_key=_per_key(rows), block=sizes.block),
        out_shape=jax.ShapeDtypeStruct((windows, width), tables.dtype),
        grid=(windows // sizes.block,),
        compiler_params=triton.CompilerParams(num_warps=sizes.warps, num_stages=sizes.stages),
        interpret=interpret,
        name="glyph_rows",
    )
    outputs: Array = call(tables, keys, bias)
    return outputs


def _forward(tables: Any, keys: Any, bias: Any, outputs: Any, per_key: int, block: int) -> None:
    windows = pl.ds(pl.program_id(0) * block, block)
    total = jnp.zeros((block, tables.shape[-1]), jnp.float32) + bias[...][None]
    for number in range(keys.shape[0]):
        key = keys[number, windows]
        for i, place in enumerate(range(tables.shape[0])[number * per_key :][:per_key]):
            total += tables[place, (key >> BITS * i) & NO_ID, :].astype(jnp.float32)
    outputs[windows, :] = jnp.maximum(total, 0.0).astype(outputs.dtype)


def cotangents(
    keys: Int32[Array, "keys windows"],
    outputs: Float[Array, "windows width"],
    d_outputs: Float[Array, "windows width"],
    places: int,
    rows: int,
    sizes: Sizes = BACKWARD,
    interpret: bool = False,
) -> tuple[Float[Array, "places rows width"], Float[Array, " width"]]:
    """Cotangents of the tables and of the bias."""
    (numbers, windows), width = keys.shape, outputs.shape[-1]
    programs = gcd(sizes.programs, windows // sizes.block)
    call = pl.pallas_call(
        partial(_backward, block=sizes.block),
        out_shape=jax.ShapeDtypeStruct((programs, numbers, ROWS, width), jnp.float32),
        grid=(programs,),
        compiler_params=triton.CompilerParams(num_warps=sizes.warps, num_stages=sizes.stages),
        interpret=interpret,
        name="glyph_rows_backward",
    )
    sums = call(keys, _ids_of_rows(rows), outputs, d_outputs).sum(0)
    used = _per_key(rows) * rows
    # After the last table of a key comes id 0 of a place that it does not have. Five bits of zeros:
    # every window has this id.
    return sums[:, :used].reshape(-1, rows, width)[:places], sums[0, used]


def _ids_of_rows(rows: int) -> Int32[Array, "2 ROWS"]:
    """The id that each row of a product stands for, where keys have it; and the bits to look at.

    Read from memory rather than computed in the kernel: only numbers that were read does the
    compiler bring into the registers of a product before it makes one-hots of them.
    """
    place, row = np.divmod(np.arange(ROWS), rows)
    both = np.stack([row, np.full(ROWS, NO_ID)]).astype(np.uint32) << BITS * place.astype(np.uint32)
    return jnp.asarray(both.astype(np.int32))


def _backward(
    keys: Any, ids_of_rows: Any, outputs: Any, d_outputs: Any, sums: Any, block: int
) -> None:
    program, (programs, numbers, _, width) = pl.program_id(0), sums.shape
    blocks = keys.shape[1] // block // programs
    ids, bits = ids_of_rows[0, :][:, None], ids_of_rows[1, :][:, None]

    def add(i: Array, totals: list[Array]) -> list[Array]:
        windows = pl.ds((program * blocks + i) * block, block)
        gradient = jnp.where(outputs[windows, :] > 0.0, d_outputs[windows, :], 0.0).astype(
            d_outputs.dtype
        )

        def rows_of(number: int) -> Array:
            chosen = ((keys[number, windows][None] ^ ids) & bits) == 0
            one_hots = chosen.astype(gradient.dtype)
            return jnp.dot(one_hots, gradient, preferred_element_type=jnp.float32)

        return [total + rows_of(number) for number, total in enumerate(totals)]

    nothing = [jnp.zeros((ROWS, width), jnp.float32)] * numbers
    for number, total in enumerate(jax.lax.fori_loop(0, blocks, add, nothing)):
        sums[program, number] = total
