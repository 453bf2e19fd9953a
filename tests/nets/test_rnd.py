"""The exploration bonus: fixed target, learning predictor, blind to the clock."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from maskless.nets import RandomNetworkDistillation
from maskless.nets.glyphs import GlyphEncoder, novelty_view
from minihax.look.glyphs import NUM_GLYPHS
from minihax.look.observation import Observation

from nets.parameters import random_parameters


def places(count, seed=0):
    random = np.random.default_rng(seed)
    return jnp.asarray(random.normal(size=(1, count, 6)), jnp.float32)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_known_places_lose_their_bonus_and_new_ones_keep_it(dtype):
    rnd = RandomNetworkDistillation(hidden=32, output=16, dtype=dtype)
    known, new = places(8), places(8, seed=1)
    params = start = random_parameters(rnd, known)
    optimiser = optax.adam(3e-3)

    @jax.jit
    def learn(carry, _):
        params, state = carry
        gradient = jax.grad(lambda p: rnd.apply(p, known).mean())(params)
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(learn, (params, optimiser.init(params)), length=300)
    before, after = rnd.apply(start, known), rnd.apply(params, known)
    assert before.shape == (1, 8)
    assert before.dtype == jnp.float32
    assert (after < 0.02 * before).all()
    assert rnd.apply(params, new).mean() > 10 * after.mean()
    for name in ("target", "target_hidden"):
        jax.tree.map(np.testing.assert_array_equal, start["params"][name], params["params"][name])


def test_bonus_is_the_mean_squared_difference_of_two_networks():
    rnd = RandomNetworkDistillation()
    obs = places(4)
    params = random_parameters(rnd, obs)["params"]

    def network(name):
        x = np.float64(obs)
        for layer in params[f"{name}_hidden"].values():
            assert layer["kernel"].shape[1] == 256
            x = np.maximum(x @ np.float64(layer["kernel"]) + np.float64(layer["bias"]), 0)
        assert params[name]["kernel"].shape == (256, 512)
        return x @ np.float64(params[name]["kernel"]) + np.float64(params[name]["bias"])

    expected = ((network("predictor") - network("target")) ** 2).mean(-1)
    np.testing.assert_allclose(rnd.apply({"params": params}, obs), expected, rtol=1e-4)


def test_the_target_gets_no_gradient():
    rnd = RandomNetworkDistillation(hidden=8, output=4)
    obs = places(5)
    params = random_parameters(rnd, obs)
    gradient = jax.grad(lambda p: rnd.apply(p, obs).sum())(params)["params"]
    for name, part in gradient.items():
        for leaf in jax.tree.leaves(part):
            assert (leaf == 0).all() == name.startswith("target")


def test_the_view_is_written_once_in_the_precision_it_is_read_in():
    rnd = RandomNetworkDistillation(GlyphEncoder(), dtype=jnp.bfloat16)
    obs = corridor()
    params = jax.eval_shape(rnd.init, jax.random.key(0), obs)
    program = jax.jit(rnd.apply).lower(params, obs).as_text()
    assert "2x3x2112xbf16" in program
    assert "2x3x2112xf32" not in program
    assert "x24xf32" not in program
    assert program.count("stablehlo.concatenate") == 1


def corridor():
    random = np.random.default_rng(0)
    return Observation(
        glyphs=jnp.asarray(random.integers(0, NUM_GLYPHS, (2, 3, 9, 9)), jnp.int8),
        blstats=jnp.ones((2, 3, 27), jnp.int32),
        message=jnp.asarray(random.integers(0, 42, (2, 3)), jnp.int32),
        previous_action=jnp.zeros((2, 3), jnp.int32),
    )


def test_corridors_are_new_by_map_message_and_place_only():
    obs = corridor()
    view = novelty_view(obs)
    assert view.shape == (2, 3, 81 * 24 + 42 + 80 + 21 + 25)
    np.testing.assert_array_equal(view.sum(-1), 81 + 1 + 2)
    glyphs = np.argmax(view[..., :1944].reshape(2, 3, 9, 9, 24), axis=-1)
    np.testing.assert_array_equal(glyphs, obs.glyphs)
    exact = novelty_view(obs, jnp.bfloat16)
    assert exact.dtype == jnp.bfloat16
    np.testing.assert_array_equal(exact, view)
    later = obs.replace(
        blstats=obs.blstats.at[..., 2:].add(500), previous_action=obs.previous_action + 1
    )
    np.testing.assert_array_equal(novelty_view(later), view)
    for number in (0, 1):
        elsewhere = obs.replace(blstats=obs.blstats.at[..., number].add(1))
        assert (novelty_view(elsewhere) != view).any(-1).all()
