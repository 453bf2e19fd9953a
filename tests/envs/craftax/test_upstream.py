"""Upstream plays: observation, reward and end of episode are its own, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from craftax.craftax_env import make_craftax_env_from_name

import maskless
from maskless import VectorEnv

GAMES = {
    "craftax": ("Craftax-Symbolic-v1", 8268, 43, 67),
    "craftax-classic": ("Craftax-Classic-Symbolic-v1", 1345, 17, 22),
}
ENVS, STEPS, POOL = 8, 500, 64


def assert_same(actual, expected):
    """Bit-equal on the CPU. A GPU's compiler rounds the light level (a cosine) differently from
    one program to the next, upstream's own included, so there one unit in the last place is let
    pass."""
    if jax.default_backend() == "cpu":
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=3e-7, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("id", GAMES)
def test_500_steps_of_8_environments_equal_upstream(id, make_on_worlds):
    """Upstream's own compiled step, driven by a plain loop, against VectorEnv under scan with the
    step that GPUs use, which has no loops."""
    env = make_on_worlds(id, rules="exact", engine="loopless")
    venv = VectorEnv(env, ENVS, pool_size=POOL)
    start, first = jax.jit(venv.reset)(jax.random.key(5))

    def step(state, inputs):
        key, actions = inputs
        state, out = venv.step(key, state, actions)
        return state, (out.observation, out.reward, out.done, out.truncated)

    keys = jax.random.split(jax.random.key(6), STEPS)
    actions = jax.random.randint(jax.random.key(7), (STEPS, ENVS), 0, venv.env.num_actions)
    end, played = jax.jit(lambda s: jax.lax.scan(step, s, (keys, actions)))(start)

    upstream = make_craftax_env_from_name(GAMES[id][0], auto_reset=False)
    params = upstream.default_params
    upstream_step = jax.jit(jax.vmap(upstream.step_env, in_axes=(0, 0, 0, None)))
    observe = jax.jit(upstream.get_obs)
    states, taken = start.states, 0
    assert_same(jax.vmap(observe)(states), first.observation)
    for t in range(STEPS):
        observation, states, reward, done, _ = upstream_step(
            jax.random.split(keys[t], ENVS), states, actions[t], params
        )
        observation = np.array(observation)
        for i in np.flatnonzero(done):
            level = jax.tree.map(lambda x, slot=taken: x[slot], start.pool.levels)
            states = jax.tree.map(lambda x, y, i=i: x.at[i].set(y), states, level)
            observation[i] = observe(level)
            taken += 1
        assert_same(observation, played[0][t])
        assert_same(reward, played[1][t])
        np.testing.assert_array_equal(done, played[2][t])
    assert 0 < taken < POOL
    assert not played[3].any()  # no episode reaches the time limit
    without_keys = [s.replace(state_rng=None) for s in (end.states, states)]
    jax.tree.map(assert_same, *without_keys)


@pytest.mark.parametrize("id", GAMES)
def test_shapes_and_names(id):
    _, size, actions, achievements = GAMES[id]
    env = maskless.make(id)
    observation, state = jax.eval_shape(env.reset, jax.random.key(0))
    assert (observation.shape, observation.dtype) == ((size,), np.float32)
    assert jax.eval_shape(env.validity, state).shape == (actions,) == (env.num_actions,)
    assert state.achievements.shape == (achievements,) == (len(env.achievement_names),)
    assert env.action_names[:7] == ("noop", "left", "right", "up", "down", "do", "sleep")


@pytest.fixture(scope="module")
def classic(worlds):
    """Classic, a fresh state of it, and its compiled step: key, state, action, params."""
    env = maskless.make("craftax-classic")
    state = jax.tree.map(lambda x: x[0], worlds(env.id))
    return env, state, jax.jit(env.step)


@pytest.mark.parametrize("action", [17, 99, -1, -12])
def test_an_action_that_does_not_exist_does_nothing_inside_jit(action, classic):
    env, state, step = classic
    outcomes = [
        step(jax.random.key(1), state, jnp.int32(a), env.default_params)[1] for a in (0, action)
    ]
    jax.tree.map(np.testing.assert_array_equal, *(s.replace(state_rng=None) for s in outcomes))


def test_the_time_limit_truncates_and_death_terminates(classic):
    env, state, step = classic
    params = env.default_params.replace(max_timesteps=3)
    noop = jnp.int32(0)
    for expected in (False, False, True):
        _, state, _, done, info = step(jax.random.key(1), state, noop, params)
        assert (done, info["truncated"]) == (expected, expected)
    dying = state.replace(player_health=state.player_health * 0, timestep=state.timestep * 0)
    _, _, _, done, info = step(jax.random.key(1), dying, noop, params)
    assert done
    assert not info["truncated"]
