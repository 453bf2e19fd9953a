"""What the networks make of observations."""

import dataclasses
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless import kernels
from maskless.errors import MasklessError
from maskless.nets import glyphs, make_net
from maskless.nets.encoders import Encoder, flatten
from maskless.nets.glyphs import (
    GLYPH_IDS,
    GLYPHS_IN_USE,
    BlstatsEncoder,
    GlyphEncoder,
    GlyphMap,
    GlyphNet,
)
from minihax.look.glyphs import NUM_GLYPHS, Glyph
from minihax.look.messages import NUM_MESSAGES
from minihax.look.observation import CROP, NUM_BLSTATS, Observation

from nets.parameters import random_parameters

TIME, BATCH = 2, 3
both_implementations = pytest.mark.parametrize("implementation", ["plain", "twin"])


def seen(seed=0):
    random = np.random.default_rng(seed)
    return Observation(
        glyphs=jnp.asarray(random.integers(0, NUM_GLYPHS, (TIME, BATCH, 9, 9)), jnp.int8),
        blstats=jnp.asarray(random.integers(-1, 5000, (TIME, BATCH, 27)), jnp.int32),
        message=jnp.asarray(random.integers(0, NUM_MESSAGES, (TIME, BATCH)), jnp.int32),
        previous_action=jnp.asarray(random.integers(0, 12, (TIME, BATCH)), jnp.int32),
    )


def test_flat_is_every_number_in_order():
    obs = {"a": jnp.arange(12, dtype=jnp.int8).reshape(1, 2, 3, 2), "b": jnp.ones((1, 2), bool)}
    flat = flatten(obs)
    assert flat.dtype == jnp.float32
    np.testing.assert_array_equal(flat[0], [[0, 1, 2, 3, 4, 5, 1], [6, 7, 8, 9, 10, 11, 1]])
    rounded = flatten(jnp.float32([[[1 / 3, 7.0]]]), jnp.bfloat16)
    np.testing.assert_array_equal(rounded, jnp.bfloat16([[[1 / 3, 7.0]]]))


def test_environments_bring_their_encoder():
    assert maskless.make("corridor-r2").encoder == GlyphEncoder()
    assert maskless.make("staircase").encoder == Encoder()


def test_the_encoder_knows_the_numbers_of_the_game():
    """nets/glyphs.py repeats them, so that a policy loads without the game."""
    ours = glyphs.CROP, glyphs.NUM_BLSTATS, glyphs.NUM_MESSAGES, glyphs.FIELDS
    fields = tuple(field.name for field in dataclasses.fields(Observation))
    assert ours == (CROP, NUM_BLSTATS, NUM_MESSAGES, fields)
    assert max(Glyph) < NUM_GLYPHS <= GLYPHS_IN_USE <= GLYPH_IDS


def test_glyph_net_has_the_papers_sizes():
    net = GlyphNet(num_actions=11)
    params = random_parameters(net, seen())
    layer = lambda *shape: {"kernel": shape, "bias": shape[1:]}  # noqa: E731
    assert jax.tree.map(jnp.shape, params["params"]) == {  # as in every artifact ever written
        "map": {
            "Embedding_0": {"table": (50, 32)},
            "Dense_0": layer(3 * 3 * 32, 64),
            "Dense_1": layer(3 * 3 * 64, 128),
            "Dense_2": layer(2 * 2 * 128, 128),
        },
        "message": {"table": (42, 128)},
        "action": {"table": (12, 16)},
        "blstats": {"Dense_0": layer(27, 128)},
        "project": layer(128 + 128 + 155 + 16, 256),
    }
    assert jax.jit(net.apply)(params, seen()).shape == (TIME, BATCH, 256)


WINDOWS = [(slice(row, row + 7, 2), slice(column, column + 7, 2))
           for row in range(3) for column in range(3)]  # fmt: skip


def embed_and_convolve(table, kernel, glyphs, wanted):
    """One after the other, in float64: the outcome, and the gradients of sum(wanted * outcome)."""
    inside = (glyphs >= 0) & (glyphs < len(table))
    embedded = np.where(inside[..., None], table[np.where(inside, glyphs, 0)], 0.0)
    windows = np.concatenate([embedded[:, *window] for window in WINDOWS], axis=-1)
    by_embedded = np.zeros_like(embedded)
    by_windows = np.split(wanted @ kernel.T, 9, axis=-1)
    for window, gradient in zip(WINDOWS, by_windows, strict=True):
        by_embedded[:, *window] += gradient
    by_table = np.zeros_like(table)
    np.add.at(by_table, glyphs[inside], by_embedded[inside])
    return windows @ kernel, by_table, np.einsum("srci,srco->io", windows, wanted)


def convolve_with_zeros_around(x, kernel, wanted):
    """3 x 3 with stride 2, window by window in float64: the outcome, and the gradients."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    by_padded, by_kernel = np.zeros_like(padded), np.zeros_like(kernel)
    said = np.zeros_like(wanted)
    for row, column in np.ndindex(2, 2):
        window = np.s_[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        flat, gradient = padded[window].reshape(len(x), -1), wanted[:, row, column]
        said[:, row, column] = flat @ kernel
        by_kernel += flat.T @ gradient
        by_padded[window] += (gradient @ kernel.T).reshape(padded[window].shape)
    return said, by_padded[:, 1:-1, 1:-1], by_kernel


@both_implementations
def test_the_map_is_an_embedding_two_convolutions_and_a_layer(implementation):
    """Ids that no game of ours shows give zeros, and nothing is learned about them."""
    layer = GlyphMap()
    glyphs = seen().glyphs.at[0, 0, 0, :3].set(jnp.int8([-1, GLYPHS_IN_USE, GLYPH_IDS]))
    params = random_parameters(layer, glyphs)
    p = jax.tree.map(np.float64, params["params"])
    relu = lambda x, name: np.maximum(x + p[name]["bias"], 0.0)  # noqa: E731
    flat = np.asarray(glyphs).reshape(-1, 9, 9)
    table, kernel = p["Embedding_0"]["table"][:GLYPHS_IN_USE], p["Dense_0"]["kernel"]
    x = relu(embed_and_convolve(table, kernel, flat, np.zeros((len(flat), 4, 4, 64)))[0], "Dense_0")
    nothing = np.zeros((len(flat), 2, 2, 128))
    x = relu(convolve_with_zeros_around(x, p["Dense_1"]["kernel"], nothing)[0], "Dense_1")
    x = relu(x.reshape(TIME, BATCH, -1) @ p["Dense_2"]["kernel"], "Dense_2")
    total = lambda p: (lambda said: (said.sum(), said))(layer.apply(p, glyphs))  # noqa: E731
    with kernels.plain_only() if implementation == "plain" else nullcontext():
        gradient, said = jax.jit(jax.grad(total, has_aux=True))(params)
    np.testing.assert_allclose(said, x, rtol=1e-4, atol=1e-4)
    by_row = np.abs(gradient["params"]["Embedding_0"]["table"]).max(axis=1)
    np.testing.assert_array_equal(by_row > 0, np.arange(GLYPH_IDS) < NUM_GLYPHS)


def test_every_square_of_the_crop_is_seen():
    layer = GlyphMap()
    glyphs = seen().glyphs[:1, :1]
    params = random_parameters(layer, glyphs)
    plain = jax.jit(layer.apply)(params, glyphs)
    each = jnp.arange(81)
    changed = jnp.where(jnp.eye(81).reshape(1, 81, 9, 9) > 0, max(Glyph), glyphs.repeat(81, axis=1))
    different = np.any(np.asarray(jax.jit(layer.apply)(params, changed) != plain), axis=-1)
    assert different[0][each].all()


def test_every_part_of_the_observation_counts():
    net = GlyphNet(num_actions=11)
    obs = seen()
    params = random_parameters(net, obs)
    plain = jax.jit(net.apply)(params, obs)
    for name in ("glyphs", "blstats", "message", "previous_action"):
        other = obs.replace(**{name: getattr(seen(1), name)})
        assert not np.allclose(jax.jit(net.apply)(params, other), plain)


def test_blstats_are_155_bounded_numbers():
    layer = BlstatsEncoder()
    extreme = jnp.stack([jnp.full(27, x, jnp.int32) for x in (-(2**31), -1, 0, 3, 2**31 - 1)])
    params = random_parameters(layer, extreme)
    encoded = jax.jit(layer.apply)(params, extreme)
    assert encoded.shape == (5, 155)
    assert np.abs(encoded[:, 128:]).max() <= 1
    assert np.isfinite(encoded).all()
    turns = jnp.zeros((1001, 27), jnp.int32).at[:, 20].set(jnp.arange(1001))
    assert len(np.unique(jax.jit(layer.apply)(params, turns)[:, 128 + 20])) == 1001


@both_implementations
def test_messages_and_actions_are_embedded_and_projected(implementation):
    """For ids outside the tables too, which give nothing."""
    net = GlyphNet(num_actions=11)
    obs = seen()
    params = random_parameters(net, obs)
    p = jax.tree.map(np.float64, params["params"])
    kernel = p["project"]["kernel"]
    nothing = jnp.full((TIME, BATCH), -1, jnp.int8)
    plain = obs.replace(message=nothing, previous_action=nothing)

    def difference(p, obs):
        return net.apply(p, obs) - net.apply(p, plain)

    for field, rows, name in [("message", slice(128, 256), "message"),
                              ("previous_action", slice(411, 427), "action")]:  # fmt: skip
        table = p[name]["table"]
        ids = np.arange(TIME * BATCH).reshape(TIME, BATCH) % 3 + len(table) - 2
        expected = np.pad(table, ((0, 1), (0, 0)))[ids] @ kernel[rows]
        some = plain.replace(**{field: jnp.int8(ids)})
        with kernels.plain_only() if implementation == "plain" else nullcontext():
            total = lambda p, some=some: (lambda x: (x.sum(), x))(difference(p, some))  # noqa: E731
            gradient, ours = jax.jit(jax.grad(total, has_aux=True))(params)
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
        counts = np.bincount(ids.ravel(), minlength=len(table) + 1)[:-1, None]
        np.testing.assert_allclose(
            gradient["params"][name]["table"], counts * kernel[rows].sum(1), rtol=1e-4, atol=1e-4
        )


def test_wrong_observations_get_a_sentence():
    net = make_net("mlp", num_actions=11, encoder="glyphs", width=4)
    reset = jnp.zeros((TIME, BATCH), bool)
    init = lambda obs: net.init(jax.random.key(0), (), obs, reset)  # noqa: E731
    with pytest.raises(MasklessError, match=r"reads glyphs, blstats, .*, not dict"):
        init({"glyphs": jnp.zeros((TIME, BATCH, 9, 9))})
    with pytest.raises(MasklessError, match=r"crops of 9 x 9.*got the shapes \(2, 3, 7, 7\)"):
        init(seen().replace(glyphs=jnp.zeros((TIME, BATCH, 7, 7), jnp.int8)))
