"""GlyphNet: how a network reads NetHack's corridors and mazes.

What is observed is named and numbered as in `minihax`, which this file does not need: a policy for
these games can be loaded without them.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from maskless import kernels
from maskless.artifact.glyphs import (
    BLSTATS_SCALES,
    CROP,
    FIELDS,
    GLYPH_IDS,
    GLYPHS_IN_USE,
    NUM_BLSTATS,
    NUM_MESSAGES,
)
from maskless.errors import MasklessError
from maskless.nets.encoders import Encoder
from maskless.nets.layers import Weights, linear, linear_relu
from maskless.nets.orthogonal import orthogonal


class GlyphObservation(NamedTuple):
    """The fields of `minihax.Observation`, wherever they come from."""

    glyphs: Any
    blstats: Any
    message: Any
    previous_action: Any


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
    """Four encodings, of the map, the blstats, the message and the last action, projected to one
    vector."""

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
        inputs = sum(x.shape[-1] for x in (glyphs, messages, blstats, actions))
        kernel, bias = Weights(inputs, self.width, orthogonal(1.0), name="project")()
        message = messages, jnp.asarray(obs.message)
        action = actions, jnp.asarray(obs.previous_action)
        return project_parts(kernel, bias, glyphs, blstats, message, action)


@kernels.dispatch
def project_parts(
    kernel: Float[Array, "inputs width"],
    bias: Float[Array, " width"],
    glyphs: Float[Array, "time batch map"],
    blstats: Float[Array, "time batch blstats"],
    message: tuple[Float[Array, "messages _"], Integer[Array, "time batch"]],
    action: tuple[Float[Array, "actions _"], Integer[Array, "time batch"]],
) -> Float[Array, "time batch width"]:
    """A linear layer on all four; `message` and `action`: the embedding's table and the ids."""
    of_message, of_action = (embed(*x, glyphs.dtype) for x in (message, action))
    features = jnp.concatenate([glyphs, of_message, blstats, of_action], axis=-1)
    return linear(features, kernel, bias)


def embed(
    table: Float[Array, "ids channels"], ids: Integer[Array, "..."], dtype: Any
) -> Float[Array, "... channels"]:
    """The table's rows with these ids; ids outside the table give zeros."""
    return jax.nn.one_hot(ids, len(table), dtype=dtype) @ table.astype(dtype)


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
        ids = glyphs.reshape(-1, CROP, CROP)
        table = Embedding(GLYPH_IDS, 32, name="Embedding_0").table[:GLYPHS_IN_USE]
        kernel, bias = Weights(9 * 32, 64, name="Dense_0")()
        x = embed_and_convolve(ids, table, kernel, bias, self.dtype or jnp.float32)
        x = convolve_padded(x, *Weights(9 * 64, 128, name="Dense_1")())
        x = linear_relu(x.reshape(-1, 2 * 2 * 128), *Weights(2 * 2 * 128, 128, name="Dense_2")())
        return x.reshape(*glyphs.shape[:2], -1)


class Embedding(nn.Module):
    """A vector per id."""

    ids: int
    width: int

    def setup(self) -> None:
        self.table = self.param("table", nn.initializers.normal(1.0), (self.ids, self.width))


@kernels.dispatch
def embed_and_convolve(
    glyphs: Integer[Array, "samples 9 9"],
    table: Float[Array, "ids channels"],
    kernel: Float[Array, "window features"],
    bias: Float[Array, " features"],
    dtype: Any,
) -> Float[Array, "samples 4 4 features"]:
    """Embedding, 3 x 3 convolution with stride 2, ReLU. Ids outside the table give zeros."""
    return nn.relu(convolve(embed(table, glyphs, dtype), kernel, padding=0) + bias.astype(dtype))


@kernels.dispatch
def convolve_padded(
    x: Float[Array, "samples 4 4 channels"],
    kernel: Float[Array, "window features"],
    bias: Float[Array, " features"],
) -> Float[Array, "samples 2 2 features"]:
    """3 x 3 convolution with stride 2 and one row and column of zeros around the map, ReLU."""
    return nn.relu(convolve(x, kernel, padding=1) + bias.astype(x.dtype))


def convolve(
    x: Float[Array, "samples rows columns channels"],
    kernel: Float[Array, "window features"],
    *,
    padding: int,
) -> Float[Array, "samples new_rows new_columns features"]:
    """3 x 3 with stride 2; `kernel`: rows, columns and channels of a window in one axis."""
    return jax.lax.conv_general_dilated(
        x,
        kernel.reshape(3, 3, x.shape[-1], -1).astype(x.dtype),
        window_strides=(2, 2),
        padding=[(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


class BlstatsEncoder(nn.Module):
    """155 numbers: a layer of 128, and the 27 scaled numbers themselves."""

    dtype: Any = None

    @nn.compact
    def __call__(self, blstats: Integer[Array, "... 27"]) -> Float[Array, "... 155"]:
        scaled = jnp.clip(blstats / BLSTATS_SCALES, -1.0, 1.0).astype(self.dtype or jnp.float32)
        kernel, bias = Weights(scaled.shape[-1], 128, name="Dense_0")()
        return jnp.concatenate([linear_relu(scaled, kernel, bias), scaled], axis=-1)


_VIEW_WIDTH = 2112
"""One-hots of 81 glyphs, the message, and the hero's column and row, then empty places: a multiple
of 64, as tensor cores like it."""


def novelty_view(obs: Any, dtype: Any = None) -> Float[Array, "time batch 2112"]:
    """What can make a state new: what the hero sees and hears, but of his numbers only where he is.

    The blstats hold the turn, and with it every state would be new for ever. Without the
    position, on the other hand, one corridor looks like any other, and none is worth going to.
    """
    check_glyphs(obs)
    one_hot = partial(jax.nn.one_hot, dtype=dtype or jnp.float32)
    glyphs = one_hot(obs.glyphs, GLYPHS_IN_USE).reshape(*obs.message.shape, -1)
    message, column = one_hot(obs.message, NUM_MESSAGES), one_hot(obs.blstats[..., 0], 80)
    rest = _VIEW_WIDTH - sum(x.shape[-1] for x in (glyphs, message, column))
    row = one_hot(obs.blstats[..., 1], rest)
    return jnp.concatenate([glyphs, message, column, row], axis=-1)
