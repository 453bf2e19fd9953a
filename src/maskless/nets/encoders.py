"""From an observation to a vector: nothing but flattening, or GlyphNet for the corridors."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PyTree, Shaped

from maskless import kernels
from maskless.envs.corridor.glyphs import Glyph
from maskless.envs.corridor.messages import NUM_MESSAGES
from maskless.envs.corridor.observation import CROP, NUM_BLSTATS, Observation
from maskless.errors import MasklessError, UnknownNameError
from maskless.nets.heads import Weights, linear, rectified
from maskless.nets.orthogonal import orthogonal

ENCODERS = ("flat", "glyphs")
GLYPH_IDS = 50
"""Rows of the embedding: room for glyphs that are still to come."""
GLYPHS_IN_USE = -(-(max(Glyph) + 1) // 8) * 8
"""One-hots have room for these only. Our own games show no others, and others would give zeros."""

# About the largest number each entry of blstats takes in our games (order: see `Observation`).
# Fixed scales keep neighbouring squares and single hit points apart, which a logarithm blurs; what
# grows beyond them, as the turn does in a long game, stays at 1 (or -1).
# fmt: off
_BLSTATS_SCALES = np.array([
    80, 21, 25, 125, 25, 25, 25, 25, 25, 1000, 20, 20, 10, 1000,
    20, 20, 10, 30, 30, 1000, 1000, 6, 5, 10, 10, 8192, 1,
], np.float32)
# fmt: on


def encoder_for(observation: PyTree) -> str:
    """The name of the encoder for such an observation (one of them, or its `jax.eval_shape`)."""
    return "glyphs" if isinstance(observation, Observation) else "flat"


class Encoder(nn.Module):
    """The encoder of this name, for [time, batch, ...] observations."""

    kind: str
    num_actions: int
    width: int = 256
    """Of GlyphNet. The flat encoder is as wide as the observation."""
    dtype: Any = None

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float[Array, "time batch features"]:
        if self.kind == "flat":
            return flatten(obs, self.dtype)
        if self.kind == "glyphs":
            return GlyphNet(self.num_actions, self.width, self.dtype)(obs)
        raise UnknownNameError("encoder", self.kind, ENCODERS)


def flatten(obs: PyTree[Array], dtype: Any = None) -> Float[Array, "time batch features"]:
    """All numbers of each observation side by side, as they are (or rounded to `dtype`)."""
    dtype = dtype or jnp.float32
    leaves = [x.reshape(*x.shape[:2], -1).astype(dtype) for x in jax.tree.leaves(obs)]
    if not leaves:
        raise MasklessError("The observation has no arrays, so there is nothing to encode.")
    return jnp.concatenate(leaves, axis=-1)


class GlyphNet(nn.Module):
    """What the hero sees, hears, is and last did: four encodings, projected to one vector."""

    num_actions: int
    width: int = 256
    dtype: Any = None

    @nn.compact
    def __call__(self, obs: Observation) -> Float[Array, "time batch width"]:
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


def check_glyphs(obs: PyTree) -> None:
    """Refuses what is not a corridor observation [time, batch, ...]."""
    if not isinstance(obs, Observation):
        raise MasklessError(
            f"The glyphs encoder reads corridor observations, not {type(obs).__name__}:"
            " take the encoder that encoder_for(observation) names."
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
            from maskless.nets.glyph_kernel import fits, keys_of, rectified_rows

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
