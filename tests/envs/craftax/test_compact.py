"""Compact observations, spelled out, are upstream's own, bit for bit. (test_upstream.py shows the
same over long play; here are the states that play hardly reaches.)"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.envs.craftax.observation import DARK, NOWHERE

GAMES = ("craftax", "craftax-classic")
MOBS = {
    "craftax": (
        "melee_mobs", "passive_mobs", "ranged_mobs", "mob_projectiles", "player_projectiles",
    ),
    "craftax-classic": ("zombies", "cows", "skeletons", "arrows"),
}  # fmt: skip
STATES = 512


@pytest.fixture(scope="module", params=GAMES)
def game(request):
    """The environment, states, upstream's renderer, and ours in its two steps."""
    env = maskless.make(request.param)
    states = any_states(env, np.random.default_rng(0))
    upstream = jax.jit(jax.vmap(env._upstream.get_obs))
    compact, expand = jax.jit(jax.vmap(env.record)), jax.jit(jax.vmap(env.encoder.expand))
    return env, states, upstream, compact, expand


def assert_same_bits(actual, expected):
    assert actual.dtype == expected.dtype == np.float32
    np.testing.assert_array_equal(
        np.asarray(actual).view(np.uint32), np.asarray(expected).view(np.uint32)
    )


def any_states(env, random):
    """States that no rule of the game has touched: every field at random, the player anywhere,
    and all creatures crowded around him, dead or alive, on the screen's edges and beyond them."""
    full = env.id == "craftax"
    shapes = jax.eval_shape(env.reset, jax.random.key(0))[1]
    below = {
        ".map": 37 if full else 17, ".item_map": 5, ".player_level": 9,
        ".player_position": shapes.map.shape[-1], ".player_direction": 5,
    }  # fmt: skip

    def fill(path, leaf):
        name, shape = jax.tree_util.keystr(path), (STATES, *leaf.shape)
        if name == ".light_map":
            return random.choice(np.float32([0.0, 0.04, 0.05, 0.06, 1.0]), shape)
        if leaf.dtype == bool:
            return random.random(shape) < 0.6
        if leaf.dtype == jnp.float32:
            return random.random(shape, np.float32) * 9
        # Two types of creatures, the first and the last, so that some are of the same.
        values = [0, 7] if "type_id" in name else np.arange(below.get(name, 100 if full else 10))
        return random.choice(values, shape).astype(leaf.dtype)

    state = jax.tree_util.tree_map_with_path(fill, shapes.replace(state_rng=None))
    for name in MOBS[env.id]:
        shape = getattr(state, name).position.shape
        state = place(state, name, random.choice([-14, -6, -5, -4, -1, 0, 1, 4, 5, 6], shape))
    return jax.device_put(state)


def place(states, name, offsets, **fields):
    """Creatures at these offsets from the player, on every floor."""
    mobs = getattr(states, name)
    floors = tuple(range(1, mobs.position.ndim - 1))
    position = np.expand_dims(states.player_position, floors) + offsets
    position = np.broadcast_to(position, mobs.position.shape).astype(np.int32)
    return states.replace(**{name: mobs.replace(position=position, **fields)})


def test_any_states(game):
    env, states, upstream, compact, expand = game
    seen = compact(states)
    assert_same_bits(expand(seen), upstream(states))
    assert_same_bits(jax.jit(jax.vmap(env.observe))(states), upstream(states))
    one = jax.tree.map(lambda x: x[7], states)
    assert_same_bits(env.observe(one), upstream(states)[7])  # outside of jit
    assert (np.asarray(seen.mobs) != NOWHERE).sum() > STATES  # they see something


def test_perturbed_states(game):
    """Those that the audit makes."""
    env, states, upstream, compact, expand = game
    # Outside of jit: compiling the edits would take longer.
    edited = [
        env.perturb(jax.random.key(i), jax.tree.map(lambda x, i=i: x[i], states)) for i in range(32)
    ]
    states = jax.tree.map(lambda *x: np.stack(x * (STATES // 32)), *edited)
    assert_same_bits(expand(compact(states)), upstream(states))


def test_a_creature_is_erased_as_upstream_erases_it(game):
    """A dead or distant one in a later slot can hide a living one: whoever draws each living
    creature by itself is wrong here."""
    env, states, upstream, compact, expand = game
    name = MOBS[env.id][0]
    mobs = getattr(states, name)
    # Slot 0 lives in the last row of the screen. Slot 1 is in the row above the first one, whose
    # index -1 is that of the last row; slot 2 is far away.
    half = compact(states).block.shape[1] // 2
    fields = {"mask": np.broadcast_to([True, True, False], mobs.mask.shape)}
    if env.id == "craftax":
        fields["type_id"] = np.zeros_like(mobs.type_id)
    states = place(states, name, np.array([[half, 0], [-half - 1, 0], [30, 30]]), **fields)
    seen = compact(states)
    assert_same_bits(expand(seen), upstream(states))
    assert (np.asarray(seen.mobs)[:, 0] == NOWHERE).all()
    alone = place(states, name, np.array([[half, 0], [-half - 2, 0], [30, 30]]))
    tile = half * 2 * seen.block.shape[2] + seen.block.shape[2] // 2
    lit = np.asarray(seen.block)[:, -1, seen.block.shape[2] // 2] != DARK
    assert lit.any()
    kinds = 8 if env.id == "craftax" else 1
    expected = np.where(lit, tile * kinds, NOWHERE)
    np.testing.assert_array_equal(np.asarray(compact(alone).mobs)[:, 0, 0], expected)


def test_they_are_small(game):
    env, *_ = game
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]
    stored = jax.tree.leaves(jax.eval_shape(env.record, state))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in stored)
    assert size == {"craftax": 432, "craftax-classic": 175}[env.id]
    assert 30 * size < env.observation_shapes.size * 4
