"""From an observation's arrays [batch, ...] to a vector, as `maskless.nets.encoders` and
`maskless.nets.glyphs` do it."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from maskless.artifact.fields import Field
from maskless.artifact.glyphs import (
    BLSTATS_SCALES,
    CROP,
    FIELDS,
    GLYPH_IDS,
    GLYPHS_IN_USE,
    NUM_BLSTATS,
    NUM_MESSAGES,
)
from maskless.errors import MasklessError, require
from maskless.runtime.layers import Weights, relu

GLYPH_SHAPES = ((CROP, CROP), (NUM_BLSTATS,), (), ())


class Encoder(NamedTuple):
    """[batch, ...] arrays, in the order of the fields, to `outputs` numbers each."""

    encode: Callable[[Sequence[np.ndarray]], np.ndarray]
    outputs: int
    plain: bool
    """Whether it has no layers of its own."""


def make_encoder(
    name: str, weights: Weights, fields: Sequence[Field], num_actions: int, width: int = 256
) -> Encoder:
    """The encoder of this name, with its own `weights`."""
    if name == "flat":
        return Encoder(flatten, sum(math.prod(field.shape) for field in fields), True)
    if name == "glyphs":
        encode = GlyphNet(weights.inside("GlyphNet_0"), fields, num_actions, width)
        return Encoder(encode, width, False)
    raise MasklessError(
        f"the NumPy runtime has no encoder {name!r}: act with `maskless.load`, or export the policy"
        " to ONNX"
    )


def flatten(leaves: Sequence[np.ndarray]) -> np.ndarray:
    """All numbers of each observation side by side."""
    parts = [leaf.reshape(len(leaf), -1).astype(np.float32, copy=False) for leaf in leaves]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


class GlyphNet:
    """Four encodings, of the map, the blstats, the message and the last action, projected to one
    vector."""

    def __init__(self, weights: Weights, fields: Sequence[Field], num_actions: int, width: int):
        shapes = {field.name: field.shape for field in fields}
        readable = shapes == dict(zip(FIELDS, GLYPH_SHAPES, strict=True))
        require(readable, f"The glyphs encoder reads {', '.join(FIELDS)}.")
        self.order = [list(shapes).index(name) for name in FIELDS]
        of_map = weights.inside("map")
        # Ids that the games do not show give zeros.
        self.glyphs = of_map.take("Embedding_0/table", GLYPH_IDS, 32)[:GLYPHS_IN_USE]
        self.first = of_map.dense("Dense_0", 9 * 32, 64)
        self.second = of_map.dense("Dense_1", 9 * 64, 128)
        self.third = of_map.dense("Dense_2", 2 * 2 * 128, 128)
        self.blstats = weights.dense("blstats/Dense_0", NUM_BLSTATS, 128)
        self.messages = weights.take("message/table", NUM_MESSAGES, 128)
        self.actions = weights.take("action/table", num_actions + 1, 16)
        inputs = 128 + 128 + (128 + NUM_BLSTATS) + 16
        self.project = weights.dense("project", inputs, width)

    def __call__(self, leaves: Sequence[np.ndarray]) -> np.ndarray:
        glyphs, blstats, message, action = (leaves[n] for n in self.order)
        scaled = np.clip(blstats.astype(np.float32) / BLSTATS_SCALES, -1.0, 1.0)
        parts = [
            self.of_map(glyphs),
            embed(self.messages, message),
            relu(self.blstats(scaled)),
            scaled,
            embed(self.actions, action),
        ]
        return self.project(np.concatenate(parts, axis=-1))

    def of_map(self, glyphs: np.ndarray) -> np.ndarray:
        """Two convolutions with stride 2, 9 x 9 to 4 x 4 to 2 x 2; the second one is padded."""
        x = relu(self.first(windows(embed(self.glyphs, glyphs))))
        x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        x = relu(self.second(windows(x)))
        return relu(self.third(x.reshape(len(x), -1)))


def embed(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The table's rows with these ids; ids outside the table give zeros."""
    inside = (ids >= 0) & (ids < len(table))
    rows: np.ndarray = table[np.where(inside, ids, 0)] * inside[..., None]
    return rows


def windows(x: np.ndarray) -> np.ndarray:
    """What 3 x 3 windows with stride 2 see of [batch, rows, columns, channels]: rows, columns and
    channels of a window in one axis."""
    size = x.shape[1] - 2  # of the rows and columns where a window may begin
    places = [x[:, r : r + size : 2, c : c + size : 2] for r in range(3) for c in range(3)]
    return np.concatenate(places, axis=-1)
