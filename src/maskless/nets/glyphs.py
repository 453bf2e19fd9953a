"""GlyphNet: how a network reads NetHack's corridors and mazes.

What is observed is named and numbered as in `minihax`, which this file does not need: a policy for
these games can be loaded without them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Shaped, UInt8

from maskless import kernels
from maskless.errors import MasklessError
from maskless.nets.encoders import Encoder
from maskless.nets.heads import Weights, linear, rectified
from maskless.nets.orthogonal import orthogonal

CROP, NUM_BLSTATS, NUM_MESSAGES = 9, 27, 42
GLYPH_IDS = 50
"""Rows of the embedding: room for glyphs that are still to come."""
GLYPHS_IN_USE = 24
"""One-hots have room for these only. The games show no others, and others would give zeros."""

# About the largest number each entry of blstats takes in our games (order: see
# `minihax.Observation`). Fixed scales keep neighbouring squares and single hit points apart, which
# a logarithm blurs; what grows beyond them, as the turn does in a long game, stays at 1 (or -1).
# fmt: off
_BLSTATS_SCALES = np.array([
    80, 21, 25, 125, 25, 25, 25, 25, 25, 1000, 20, 20, 10, 1000,
    20, 20, 10, 30, 30, 1000, 1000, 6, 5, 10, 10, 8192, 1,
], np.float32)
# fmt: on


class GlyphObservation(NamedTuple):
    """The fields of `minihax.Observation`, wherever they come from."""

    glyphs: Any
    blstats: Any
    message: Any
    previous_action: Any


FIELDS = GlyphObservation._fields


@dataclasses.dataclass(frozen=True)
class GlyphEncoder(Encoder):
    """The encoder of the corridors and mazes."""

    name: ClassVar[str] = "glyphs"
    projects: ClassVar[bool] = True

    def __call__(
        self, obs: Any, *, num_actions: int, width: int, dtype: Any
    ) -> Float[Array, "time batch width"]:
        return GlyphNet(num_actions, width, dtype)(obs)

    def novelty_view(self, obs: Any, dtype: Any = None) -> Float[Array, "time batch numbers"]:
        return novelty_view(obs, dtype)

    def rebuild(self, fields: Mapping[str, Any]) -> Any:
        if sorted(fields) != sorted(FIELDS):
            raise MasklessError(f"The glyphs encoder reads {', '.join(FIELDS)}.")
        return GlyphObservation(**fields)


class GlyphNet(nn.Module):
    """What the hero sees, hears, is and last did: four encodings, projected to one vector."""

    num_actions: int
    width: int = 256
    dtype: Any = None

    @nn.compact
    def __call__(self, obs: Any) -> Float[Array, "time batch width"]:
        check_glyphs(obs)
        dtype = self.dtype or jnp.float32
        glyphs = GlyphMap(dtype, name="map")(jnp.asarray(obs.glyphs))
        blstats = BlstatsEncoder(dtype, name="blstats")(jnp.asarray(obs.blstats))
        messages = Embedding(NUM_MESSAGES, 128, name="message").table
        # One id more than there are actions: none yet.
        actions = Embedding(self.num_actions + 1, 16, name="action").table
        widths = [x.shape[-1] for x in (glyphs, messages, blstats, actions)]
        kernel, bias = Weights(sum(widths), self.width, orthogonal(1.0), name="project")()
        of_glyphs, of_messages, of_blstats, of_actions = jnp.split(kernel, np.cumsum(widths[:-1]))
        # What the layer makes of each message and action is computed once for all who have it.
        rows = (
            of_glyphs,
            of_blstats,
            projected(messages, of_messages),
            projected(actions, of_actions),
        )
        parts = (
            glyphs,
            blstats,
            jax.nn.one_hot(jnp.asarray(obs.message), len(messages), dtype=dtype),
            jax.nn.one_hot(jnp.asarray(obs.previous_action), len(actions), dtype=dtype),
        )
        return linear(jnp.concatenate(parts, axis=-1), jnp.concatenate(rows), bias)


def projected(
    table: Float[Array, "ids channels"], kernel: Float[Array, "channels features"]
) -> Float[Array, "ids features"]:
    """The table of a linear layer on embeddings."""
    return jnp.matmul(table, kernel, precision=jax.lax.Precision.HIGHEST)


def check_glyphs(obs: Any) -> None:
    """Refuses what is not a corridor observation [time, batch, ...]."""
    if not all(hasattr(obs, name) for name in FIELDS):
        raise MasklessError(
            f"The glyphs encoder reads {', '.join(FIELDS)}, not {type(obs).__name__}: take the"
            " environment's own encoder."
        )
    shapes = obs.glyphs.shape[2:], obs.blstats.shape[2:]
    if shapes != ((CROP, CROP), (NUM_BLSTATS,)):
        raise MasklessError(
            f"The glyphs encoder reads [time, batch] crops of {CROP} x {CROP} glyphs and"
            f" {NUM_BLSTATS} blstats; got the shapes {obs.glyphs.shape} and {obs.blstats.shape}."
        )


class GlyphMap(nn.Module):
    """The 9 x 9 crop: embedding, two convolutions with stride 2 (4 x 4, then 2 x 2), 128 numbers.

    The first one needs no padding to see every square of the crop, the second one does. (The
    paper's 128 numbers straight from the second one mean no padding there either: then two rows
    and two columns of the crop are never looked at.)
    """

    dtype: Any = None

    @nn.compact
    def __call__(self, glyphs: Integer[Array, "time batch 9 9"]) -> Float[Array, "time batch 128"]:
        # One axis for all samples: time * batch of them make one large product per layer.
        x = self._embed_and_convolve(glyphs.reshape(-1, CROP, CROP))
        x = self._convolve(x.reshape(-1, 4 * 4 * 64))
        kernel, bias = Weights(x.shape[-1], 128, name="Dense_2")()
        return rectified(x, kernel, bias).reshape(*glyphs.shape[:2], -1)

    def _embed_and_convolve(
        self, ids: Integer[Array, "samples 9 9"]
    ) -> Float[Array, "samples 4 4 64"]:
        dtype = self.dtype or jnp.float32
        table = Embedding(GLYPH_IDS, 32, name="Embedding_0").table[:GLYPHS_IN_USE]
        kernel, bias = Weights(9 * 32, 64, name="Dense_0")()
        tables = tables_of_places(table, kernel).astype(dtype)
        if dtype == jnp.bfloat16 and kernels.wanted():
            from maskless.kernels.glyph_rows import fits, keys_of, rectified_rows

            if fits(4 * 4 * len(ids)):
                places = [x.reshape(-1) for x in _taps(ids)]
                return rectified_rows(tables, keys_of(places, GLYPHS_IN_USE), bias)
        return rectified(*one_hots_and_rows(tables, _windows(ids[..., None]), dtype), bias)

    def _convolve(self, x: Float[Array, "samples 1024"]) -> Float[Array, "samples 512"]:
        kernel, bias = Weights(9 * 64, 128, name="Dense_1")()
        # Not `rectified`: only a bias that is a parameter itself becomes part of a product.
        matrix = kernel_of_the_map(kernel.astype(x.dtype))
        return nn.relu(x @ matrix + jnp.tile(bias, 4).astype(x.dtype))


def tables_of_places(
    table: Float[Array, "ids channels"], kernel: Float[Array, "window features"]
) -> Float[Array, "places ids features"]:
    """What a dense layer on windows of embeddings makes of each id in each place of a window.

    Both are linear. With these tables, neither embeddings nor windows of them are ever written,
    and no gradient has to find its way back through windows.
    """
    places = kernel.reshape(-1, table.shape[-1], kernel.shape[-1])
    return jnp.einsum("ic,pcf->pif", table, places, precision=jax.lax.Precision.HIGHEST)


def kernel_of_the_map(
    kernel: Float[Array, "window features"],
) -> Float[Array, "inputs outputs"]:
    """The 3 x 3 convolution from 4 x 4 to 2 x 2 (stride 2, padding 1) as one matrix, with zeros.

    A product of whole maps with it multiplies 1.8 times as often as one of windows, but windows
    are 2.25 times as large as the map: they would have to be written, read, and added up again
    into the map's gradient.
    """
    features = kernel.shape[-1]
    around = jnp.pad(kernel.reshape(3, 3, -1, features), ((1, 2), (1, 2), (0, 0), (0, 0)))
    # What each of the four outputs reads of the map: the upper ones miss the kernel's first row,
    # and the left ones its first column.
    parts = [
        around[row : row + 4, column : column + 4].reshape(-1, features)
        for row in (2, 0)
        for column in (2, 0)
    ]
    # Written once: XLA would put it together anew in every tile of the product.
    return jax.lax.optimization_barrier(jnp.concatenate(parts, axis=-1))


def _windows(
    x: Shaped[Array, "samples rows columns channels"],
) -> Shaped[Array, "samples new_rows new_columns window"]:
    """The 3 x 3 windows of a convolution with stride 2, flattened.

    A dense layer on them is the convolution. Written as a product because runs are trained side
    by side with vmap, where convolutions with kernels of their own become grouped ones, and
    products only batched.
    """
    return jnp.concatenate(_taps(x), axis=-1)


def _taps(x: Shaped[Array, "samples rows columns ..."]) -> list[Array]:
    """What each of the nine places of such a window sees."""
    size = x.shape[1] - 2  # of the rows and columns where a window may begin
    return [
        x[:, row : row + size : 2, column : column + size : 2]
        for row in range(3)
        for column in range(3)
    ]


class Embedding(nn.Module):
    """A vector per id."""

    ids: int
    width: int

    def setup(self) -> None:
        self.table = self.param("table", nn.initializers.normal(1.0), (self.ids, self.width))


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
    chosen = jax.nn.one_hot(ids, rows + missing, dtype=dtype)
    return chosen.reshape(*ids.shape[:-1], -1), tables.reshape(-1, width)


class BlstatsEncoder(nn.Module):
    """155 numbers: a layer of 128, and the 27 scaled numbers themselves."""

    dtype: Any = None

    @nn.compact
    def __call__(self, blstats: Integer[Array, "... 27"]) -> Float[Array, "... 155"]:
        scaled = jnp.clip(blstats / _BLSTATS_SCALES, -1.0, 1.0).astype(self.dtype or jnp.float32)
        # Written once: XLA would fetch and scale them anew for everything that reads them.
        scaled = jax.lax.optimization_barrier(scaled)
        kernel, bias = Weights(scaled.shape[-1], 128, name="Dense_0")()
        return jnp.concatenate([rectified(scaled, kernel, bias), scaled], axis=-1)


def novelty_view(obs: Any, dtype: Any = None) -> Float[Array, "time batch features"]:
    """What can make a state new: what the hero sees and hears, but of his numbers only where he is.

    The blstats hold the turn, and with it every state would be new for ever. Without the
    position, on the other hand, one corridor looks like any other, and none is worth going to.
    """
    check_glyphs(obs)
    of_glyphs, *sizes = _view_sizes()
    glyphs = _bits(jnp.asarray(obs.glyphs).reshape(*obs.message.shape, -1), of_glyphs)
    rest, start = jnp.zeros((), jnp.uint8), 0
    for ids, size in zip(
        (obs.message, obs.blstats[..., 0], obs.blstats[..., 1]), sizes, strict=True
    ):
        columns = jnp.where((ids >= 0) & (ids < size), jnp.int32(start) + ids, -1)
        rest |= _bits(columns, sum(sizes))
        start += size
    bits = jnp.concatenate([glyphs.reshape(*rest.shape[:-1], -1), rest], axis=-1)
    # On a GPU, XLA writes one-hots of several sizes side by side byte by byte. There are fewer
    # bytes of bits, and what is made of them is written faster.
    bits = jax.lax.optimization_barrier(bits)
    one_hots = (bits[..., None] >> jnp.arange(8, dtype=jnp.uint8)) & 1 > 0
    # The view is most of what the two networks read: it is written in `dtype` from the start (or as
    # bytes, which they convert), and as wide as tensor cores like it.
    return one_hots.reshape(*bits.shape[:-1], -1).astype(dtype or jnp.float32)


def _bits(ids: Integer[Array, "..."], size: int) -> UInt8[Array, "... bytes"]:
    """One-hots of this size as bits, eight to a byte. Ids outside give zeros."""
    ids = ids[..., None].astype(jnp.int32)
    return jnp.where(ids >> 3 == jnp.arange(size // 8), 1 << (ids & 7), 0).astype(jnp.uint8)


def _view_sizes() -> tuple[int, int, int, int]:
    """Of the one-hots: of each glyph, the message, the column and the row. There are 21 rows; the
    places after them stay empty and make the whole view a multiple of 64 wide."""
    width = CROP * CROP * GLYPHS_IN_USE + NUM_MESSAGES + 80 + 21
    return GLYPHS_IN_USE, NUM_MESSAGES, 80, 21 + -width % 64
