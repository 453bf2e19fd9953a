"""Observations at the edges of the map, and from NLE."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihax.level.terrain import HEIGHT, WIDTH
from minihax.look.glyphs import NLE_GLYPHS, Glyph
from minihax.look.messages import Message
from minihax.look.observation import NUM_ACTIONS, crop, from_nle, observe


def random_map(seed: int) -> np.ndarray:
    choices = [g for g in Glyph if g not in (Glyph.HERO, Glyph.OUTSIDE)]
    return np.random.default_rng(seed).choice(choices, (HEIGHT, WIDTH)).astype(np.int8)


@pytest.mark.parametrize("position", [(10, 40), (0, 1), (20, 79), (1, 78), (19, 2), (3, 5)])
def test_the_crop_is_the_neighbourhood_with_padding(position):
    remembered = random_map(0)
    part = np.asarray(jax.jit(crop)(jnp.asarray(remembered), jnp.array(position)))
    for dy in range(-4, 5):
        for dx in range(-4, 5):
            y, x = position[0] + dy, position[1] + dx
            if dy == dx == 0:
                wanted = Glyph.HERO
            elif 0 <= y < HEIGHT and 1 <= x < WIDTH:
                wanted = remembered[y, x]
                if wanted == Glyph.FLOOR_MAPPED:  # to the agent, floor like any other
                    wanted = Glyph.FLOOR
            else:
                wanted = Glyph.OUTSIDE
            assert part[dy + 4, dx + 4] == wanted


@pytest.mark.parametrize("position", [(10, 40), (0, 1), (20, 79), (1, 78)])
def test_nle_gives_the_same_observation(position):
    remembered = random_map(1)
    y, x = position
    blstats = np.arange(27)
    blstats[:2] = x - 1, y
    glyphs = NLE_GLYPHS[remembered[:, 1:]]
    glyphs[y, x - 1] = NLE_GLYPHS[Glyph.HERO]
    message = np.zeros(256, np.uint8)
    message[:12] = np.frombuffer(b"It's a wall.", np.uint8)
    real = from_nle({"glyphs": glyphs, "blstats": blstats, "message": message}, 3)
    ours = observe(
        jnp.asarray(remembered),
        jnp.array(position),
        jnp.asarray(blstats),
        jnp.asarray(Message.WALL),
        jnp.asarray(3),
    )
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(real), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def test_before_the_first_action_there_is_none():
    screen = {
        "glyphs": np.full((21, 79), 2359, np.int16),
        "blstats": np.zeros(27, np.int64),
        "message": np.zeros(256, np.uint8),
    }
    assert from_nle(screen).previous_action == NUM_ACTIONS
    assert from_nle(screen, num_actions=8).previous_action == 8
    assert from_nle(screen).message == Message.NONE
