"""One gated Transformer-XL layer: attention over the last tokens of the running episode."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float

from maskless.errors import MasklessError

_HIDDEN = -1e30  # the score of a token that must not be seen: its weight is exactly zero


@struct.dataclass
class Memory:
    """The layer's last inputs, oldest first."""

    inputs: Float[Array, "batch memory width"]
    alive: Bool[Array, "batch memory"]
    """True where the input belongs to the episode that was running last."""


def empty_memory(batch: int, length: int, width: int) -> Memory:
    return Memory(
        jnp.zeros((batch, length, width), jnp.float32), jnp.zeros((batch, length), jnp.bool_)
    )


class GatedTransformerXL(nn.Module):
    """Attention and feed-forward layer, each after a layer norm and before a gate.

    A token sees itself and, as long as they belong to its episode, as many tokens before it as
    the memory has. Gradients reach back to the beginning of its window, no further.
    """

    width: int
    heads: int = 8
    window: int = 64
    dtype: Any = None

    @nn.compact
    def __call__(
        self,
        memory: Memory,
        inputs: Float[Array, "time batch width"],
        reset: Bool[Array, "time batch"],
    ) -> tuple[Memory, Float[Array, "time batch width"]]:
        check_length(inputs.shape[0], self.window)
        x = jnp.swapaxes(inputs, 0, 1)
        # Tokens belong together when they have the same number here: 0 for the episode that was
        # running, one more with every reset, and -1 for what is over already.
        episode = jnp.concatenate(
            [jnp.where(memory.alive, 0, -1), jnp.cumsum(reset.T, axis=1, dtype=jnp.int32)], axis=1
        )
        past = jax.lax.stop_gradient(jnp.concatenate([memory.inputs, x], axis=1))
        attended = self._attend(past, x, episode, length=memory.inputs.shape[1])
        x = Gate(dtype=self.dtype, name="attention_gate")(x, attended)
        hidden = nn.LayerNorm(name="feed_forward_norm")(x)
        hidden = nn.relu(nn.Dense(self.width, name="feed_forward", dtype=self.dtype)(hidden))
        hidden = nn.Dense(self.width, name="feed_back", dtype=self.dtype)(hidden)
        x = Gate(dtype=self.dtype, name="feed_forward_gate")(x, hidden)
        newest = slice(-memory.inputs.shape[1], None)
        memory = Memory(past[:, newest], episode[:, newest] == episode[:, -1:])
        return memory, jnp.swapaxes(x, 0, 1)

    def _attend(self, past: Array, x: Array, episode: Array, *, length: int) -> Array:
        """Attention in windows, all at once: a window needs only *inputs* of those before it.

        `past`: memory and inputs, [batch, length + time, width], without gradient.
        """
        batch, time, width = x.shape
        size = min(time, self.window)
        starts = range(0, time, size)
        # A window: the `length` tokens before it, which carry no gradient, and its own.
        tokens = [
            jnp.concatenate([past[:, s : s + length], x[:, s : s + size]], axis=1) for s in starts
        ]
        visible = [_visible(episode[:, s : s + length + size], length) for s in starts]
        normed = nn.LayerNorm(name="attention_norm")(jnp.concatenate(tokens))
        attended = RelativeAttention(self.heads, self.dtype, name="attention")(
            normed, jnp.concatenate(visible)
        )
        attended = attended.reshape(len(starts), batch, size, width)
        return jnp.swapaxes(attended, 0, 1).reshape(batch, time, width)


def check_length(time: int, window: int) -> None:
    """Refuses a sequence that does not split into windows."""
    if time > window and time % window:
        raise MasklessError(
            f"The hybrid network reads sequences of 1 to {window} steps or a multiple of {window},"
            f" its gradient window; got {time} steps: change the length of the rollout."
        )


def _visible(episode: Array, length: int) -> Bool[Array, "batch queries tokens"]:
    """Which tokens each query sees: those of its episode, itself and `length` before it."""
    size = episode.shape[1] - length
    offset = np.arange(length + size) - np.arange(size)[:, None]  # 0: the farthest, length: itself
    near = (offset >= 0) & (offset <= length)
    return (episode[:, length:, None] == episode[:, None, :]) & near


class RelativeAttention(nn.Module):
    """Attention of the last tokens over all, by content and by distance.

    score(i, j) = (q_i + u) . k_j + (q_i + v) . r_{i - j}, with learned u and v for each head and
    r made from sinusoids.
    """

    heads: int
    dtype: Any = None

    @nn.compact
    def __call__(
        self,
        tokens: Float[Array, "batch tokens width"],
        visible: Bool[Array, "batch queries tokens"],
    ) -> Float[Array, "batch queries width"]:
        width = tokens.shape[-1]
        size = visible.shape[1]
        length = tokens.shape[1] - size
        query, key, value, position = (
            self.param(name, _per_head, (width, self.heads, width // self.heads))
            for name in ("query", "key", "value", "position")
        )
        bias_shape = (2, self.heads, width // self.heads)
        content_bias, position_bias = self.param("biases", nn.initializers.zeros, bias_shape)
        einsum = partial(_einsum, self.dtype or jnp.float32)
        queries = einsum("ntd,dhe->nthe", tokens[:, length:], query)
        # q . (K x) = (K' q) . x, and the mean of V x is V times the mean of x. So only queries
        # are projected, never the tokens: an acting agent has one query and a memory of tokens,
        # which it would otherwise project anew in every step.
        projected = einsum("nthe,dhe->nthd", queries + content_bias, key)
        by_content = einsum("nthd,nsd->nhts", projected, tokens)
        distances = einsum("kd,dhe->khe", _sinusoids(length, width), position)
        by_distance = einsum("nthe,khe->nhtk", queries + position_bias, distances)
        scores = (by_content + _skew(by_distance)) / np.sqrt(width // self.heads)
        weights = jax.nn.softmax(jnp.where(visible[:, None], scores, _HIDDEN), axis=-1)
        mixed = einsum("nhts,nsd->nthd", weights, tokens)
        attended = einsum("nthd,dhe->nthe", mixed, value)
        out = nn.Dense(width, use_bias=False, name="out", dtype=self.dtype)
        return out(attended.reshape(-1, size, width))


def _einsum(dtype: Any, subscripts: str, *operands: Array | np.ndarray) -> Array:
    """Computed in `dtype`, given in float32."""
    return jnp.einsum(subscripts, *(jnp.asarray(x, dtype) for x in operands)).astype(jnp.float32)


_per_head = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform", in_axis=0, out_axis=(1, 2))


def _sinusoids(length: int, width: int) -> Float[np.ndarray, "distances width"]:
    """Encodings of the distances `length`, ..., 1, 0."""
    distance = np.arange(length, -1, -1)[:, None]
    angles = distance / 10_000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)[:, :width].astype(np.float32)


def _skew(by_offset: Float[Array, "n h queries offsets"]) -> Float[Array, "n h queries tokens"]:
    """Moves query i's row i places to the right: from offsets to the tokens they mean.

    Padding each row and cutting the flat array into rows that are one shorter does it, without
    indexing, whose gradient would be slow.
    """
    n, h, size, offsets = by_offset.shape
    padded = jnp.pad(by_offset, ((0, 0), (0, 0), (0, 0), (0, size)))
    flat = padded.reshape(n, h, size * (offsets + size))[..., :-size]
    return flat.reshape(n, h, size, offsets + size - 1)


class Gate(nn.Module):
    """A GRU in place of x + y: the stream x is the state, the sublayer's y the input.

    The bias 2 lets little through at first, so that the layer begins close to the identity.
    """

    bias: float = 2.0
    dtype: Any = None

    @nn.compact
    def __call__(
        self, x: Float[Array, "... width"], y: Float[Array, "... width"]
    ) -> Float[Array, "... width"]:
        width = x.shape[-1]
        bias = self.param("bias", nn.initializers.constant(self.bias), (width,))
        dense = partial(nn.Dense, use_bias=False, dtype=self.dtype)
        y_r, y_z, y_n = jnp.split(dense(3 * width, name="y")(y), 3, axis=-1)
        x_r, x_z = jnp.split(dense(2 * width, name="x")(x), 2, axis=-1)
        z = nn.sigmoid(y_z + x_z - bias)
        reset_x = nn.sigmoid(y_r + x_r) * x
        candidate = nn.tanh(y_n + dense(width, name="reset_x")(reset_x))
        return (1.0 - z) * x + z * candidate
