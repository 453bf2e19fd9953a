"""The exploration bonus: fixed target, learning predictor, blind to the clock."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from maskless.envs.corridor.observation import Observation
from maskless.nets import RandomNetworkDistillation
from maskless.nets.rnd import novelty_view

from nets.parameters import random_parameters


def places(count, seed=0):
    random = np.random.default_rng(seed)
    return jnp.asarray(random.normal(size=(1, count, 6)), jnp.float32)


def test_known_places_lose_their_bonus_and_new_ones_keep_it():
    rnd = RandomNetworkDistillation(hidden=32, output=16)
    known, new = places(8), places(8, seed=1)
    params = start = jax.jit(rnd.init)(jax.random.key(0, impl="rbg"), known)
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


def test_corridors_are_new_by_map_message_and_place_only():
    random = np.random.default_rng(0)
    obs = Observation(
        glyphs=jnp.asarray(random.integers(0, 20, (2, 3, 9, 9)), jnp.int8),
        blstats=jnp.ones((2, 3, 27), jnp.int32),
        message=jnp.asarray(random.integers(0, 42, (2, 3)), jnp.int32),
        previous_action=jnp.zeros((2, 3), jnp.int32),
    )
    view = novelty_view(obs)
    assert view.shape == (2, 3, 81 * 50 + 42 + 80 + 21)
    np.testing.assert_array_equal(view.sum(-1), 81 + 1 + 2)
    glyphs = np.argmax(view[..., :4050].reshape(2, 3, 9, 9, 50), axis=-1)
    np.testing.assert_array_equal(glyphs, obs.glyphs)
    later = obs.replace(
        blstats=obs.blstats.at[..., 2:].add(500), previous_action=obs.previous_action + 1
    )
    np.testing.assert_array_equal(novelty_view(later), view)
    for number in (0, 1):
        elsewhere = obs.replace(blstats=obs.blstats.at[..., number].add(1))
        assert (novelty_view(elsewhere) != view).any(-1).all()
