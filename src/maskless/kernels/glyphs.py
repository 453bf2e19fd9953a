"""GlyphNet's layers as products that write neither embeddings nor windows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Shaped

from maskless.kernels.layers import linear, linear_relu


def embed_and_convolve(
    glyphs: Array, table: Array, kernel: Array, bias: Array, dtype: Any
) -> Array:
    """One product of the windows' one-hots with a table of what each id adds in each place."""
    tables = place_tables(table, kernel).astype(dtype)
    windows = jnp.concatenate(window_places(glyphs[..., None]), axis=-1)
    return linear_relu(*one_hots_and_rows(tables, windows, dtype), bias)


def place_tables(
    table: Float[Array, "ids channels"], kernel: Float[Array, "window features"]
) -> Float[Array, "places ids features"]:
    """What a convolution of embeddings adds for each id in each place of a window.

    Both are linear, so that the embedding can be multiplied with the kernel first. No gradient has
    to pass back through windows.
    """
    places = kernel.reshape(-1, table.shape[-1], kernel.shape[-1])
    return jnp.einsum("ic,pcf->pif", table, places, precision=jax.lax.Precision.HIGHEST)


def window_places(x: Shaped[Array, "samples rows columns ..."]) -> list[Array]:
    """What each of the nine places of a 3 x 3 window with stride 2 reads.

    Windows and products instead of a convolution: under vmap over runs, convolutions with different
    kernels become grouped ones, which are slow, and products only batched.
    """
    size = x.shape[1] - 2  # of the rows and columns where a window may begin
    return [
        x[:, row : row + size : 2, column : column + size : 2]
        for row in range(3)
        for column in range(3)
    ]


def one_hots_and_rows(
    tables: Float[Array, "places ids width"], ids: Integer[Array, "... places"], dtype: Any
) -> tuple[Float[Array, "... rows"], Float[Array, "rows width"]]:
    """Two matrices whose product is the sum of the rows with these ids, one of each table.

    Ids outside a table give zeros. A product instead of a lookup: the gradient of a lookup adds
    millions of rows into very few, one after the other, and on a GPU in an order that changes from
    run to run.
    """
    rows, width = tables.shape[1:]
    missing = -rows % 8  # tensor cores read eight bfloat16 at once
    tables = jnp.pad(tables.astype(dtype), ((0, 0), (0, missing), (0, 0)))
    one_hots = jax.nn.one_hot(ids, rows + missing, dtype=dtype)
    return one_hots.reshape(*ids.shape[:-1], -1), tables.reshape(-1, width)


def convolve_padded(x: Array, kernel: Array, bias: Array) -> Array:
    """One product of whole maps.

    It multiplies 1.8 times as often as one of windows, but windows are 2.25 times as large as the
    map: they would have to be written, read, and added up again into the map's gradient.
    """
    matrix = convolution_matrix(kernel.astype(x.dtype))
    # Not `linear_relu`: XLA fuses a bias with the product only if it is a parameter itself.
    y = x.reshape(x.shape[0], -1) @ matrix + jnp.tile(bias, 4).astype(x.dtype)
    return jax.nn.relu(y).reshape(x.shape[0], 2, 2, -1)


def convolution_matrix(
    kernel: Float[Array, "window features"],
) -> Float[Array, "inputs outputs"]:
    """The 3 x 3 convolution from 4 x 4 to 2 x 2 (stride 2, padding 1) as one matrix, with zeros."""
    features = kernel.shape[-1]
    padded = jnp.pad(kernel.reshape(3, 3, -1, features), ((1, 2), (1, 2), (0, 0), (0, 0)))
    # What each of the four outputs reads of the map: the upper ones miss the kernel's first row,
    # and the left ones its first column.
    parts = [
        padded[row : row + 4, column : column + 4].reshape(-1, features)
        for row in (2, 0)
        for column in (2, 0)
    ]
    # Written once: XLA would put it together anew in every tile of the product.
    return jax.lax.optimization_barrier(jnp.concatenate(parts, axis=-1))


def project_parts(
    kernel: Array,
    bias: Array,
    glyphs: Array,
    blstats: Array,
    message: tuple[Array, Array],
    action: tuple[Array, Array],
) -> Array:
    """The tables are multiplied with the kernel, not every state's embeddings."""
    (messages, message_ids), (actions, action_ids) = message, action
    widths = [x.shape[-1] for x in (glyphs, messages, blstats, actions)]
    of_glyphs, of_messages, of_blstats, of_actions = jnp.split(kernel, np.cumsum(widths[:-1]))
    rows = of_glyphs, of_blstats, _times(messages, of_messages), _times(actions, of_actions)
    parts = (
        glyphs,
        blstats,
        jax.nn.one_hot(message_ids, len(messages), dtype=glyphs.dtype),
        jax.nn.one_hot(action_ids, len(actions), dtype=glyphs.dtype),
    )
    return linear(jnp.concatenate(parts, axis=-1), jnp.concatenate(rows), bias)


def _times(table: Array, kernel: Array) -> Array:
    return jnp.matmul(table, kernel, precision=jax.lax.Precision.HIGHEST)
