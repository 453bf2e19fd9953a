import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless import MasklessError, VectorEnv
from maskless.envs.vector import restart
from maskless.kernels import restarts

from toys import Tower, mask_from_observation

ENVS, STEPS = 6, 80


def valid_actions(key, mask):
    return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))


def rollout(venv, key, state, mask, steps=STEPS):
    """Plays valid actions; returns the last state and the stacked steps."""

    def one(carry, key):
        state, mask = carry
        actions = valid_actions(jax.random.fold_in(key, 0), mask)
        state, out = venv.step(key, state, actions)
        return (state, out.mask), (actions, out)

    return jax.lax.scan(one, (state, mask), jax.random.split(key, steps))


@pytest.fixture(scope="module")
def played():
    """One long rollout of towers, with a pool large enough for all its episodes."""
    venv = VectorEnv(Tower(), ENVS, pool_size=200)
    start, first = venv.reset(jax.random.key(1))
    (end, _), (actions, steps) = jax.jit(rollout, static_argnums=0)(
        venv, jax.random.key(2), start, first.mask
    )
    return start, first, actions, steps, end


def test_the_mask_belongs_to_the_observation_it_comes_with_across_resets(played):
    _, first, _, steps, _ = played
    assert steps.done.sum() > 30
    np.testing.assert_array_equal(first.mask, mask_from_observation(first.observation))
    np.testing.assert_array_equal(steps.mask, mask_from_observation(steps.observation))
    # The test can fail: the mask of the state before the reset would be another one.
    stale = mask_from_observation(steps.final_observation)
    assert (np.asarray(stale) != np.asarray(steps.mask)).any(-1)[np.asarray(steps.done)].any()


def test_every_episode_begins_on_a_level_of_its_own(played):
    _, first, _, steps, end = played
    done = np.asarray(steps.done)
    begun = np.asarray(steps.observation)[done][:, 0]
    levels = np.concatenate([np.asarray(first.observation)[:, 0], begun])
    assert len(set(levels.tolist())) == len(levels)
    assert end.levels_repeated == 0


def test_it_plays_like_environments_stepped_one_by_one(played):
    """A slow loop over single environments, with resets by hand, gives the same everything."""
    start, _, actions, steps, _ = played
    env = Tower()
    states = [jax.tree.map(lambda x, i=i: x[i], start.states) for i in range(ENVS)]
    pool = [jax.tree.map(lambda x, i=i: x[i], start.pool.levels) for i in range(200)]
    totals = [[0.0, 0] for _ in range(ENVS)]
    step = jax.jit(env.step)
    for t, key in enumerate(jax.random.split(jax.random.key(2), STEPS)):
        for i, env_key in enumerate(jax.random.split(key, ENVS)):
            seen, state, reward, done, info = step(env_key, states[i], actions[t, i])
            totals[i] = [totals[i][0] + float(reward), totals[i][1] + 1]
            achieved = int(env.achievements(state).sum())
            assert (seen == steps.final_observation[t, i]).all()
            assert (reward, done) == (steps.reward[t, i], steps.done[t, i])
            assert steps.truncated[t, i] == info["truncated"]
            assert steps.terminated[t, i] == (done and not info["truncated"])
            assert steps.episodes.returns[t, i] == pytest.approx(totals[i][0])
            assert steps.episodes.lengths[t, i] == totals[i][1]
            assert steps.episodes.achievements[t, i] == achieved
            if done:
                state, totals[i] = pool.pop(0), [0.0, 0]
            states[i] = state
            assert (env.observe(state) == steps.observation[t, i]).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_finished_environments_get_their_levels_and_no_others(share):
    def numbered(count, first):
        numbers = first + jnp.arange(count)
        return {
            "map": jnp.broadcast_to(numbers[:, None, None], (count, 3, 2)),
            "health": numbers.astype(jnp.float32),
            "key": jax.vmap(jax.random.key)(numbers),
        }

    states, levels = numbered(20, first=0), numbered(7, first=100)
    done = jax.random.bernoulli(jax.random.key(1), share, (20,))
    slots = (5 + jnp.cumsum(done) - 1) % 7
    after = restart(states, done, levels, slots)
    expected = np.where(done, 100 + np.asarray(slots), np.arange(20))
    np.testing.assert_array_equal(after["health"], expected)
    np.testing.assert_array_equal(after["map"][:, 2, 1], expected)
    keys = jax.vmap(jax.random.key)(jnp.asarray(expected))
    np.testing.assert_array_equal(*(jax.random.key_data(x) for x in (after["key"], keys)))


def test_the_kernel_writes_over_finished_environments_only():
    """For several runs, and arrays of kinds and sizes that a corridor has."""
    runs, envs, pool = 2, 2 * restarts.ENVS_PER_PROGRAM, 5
    random = np.random.default_rng(3)
    done, slots = random.random((runs, envs)) < 0.3, random.integers(0, pool, (runs, envs))

    def some(count):
        numbers = random.integers(0, 100, (runs, count, 21, 20), np.int8)
        return [numbers, numbers > 50, numbers[..., 0, 0]]

    states, levels = some(envs), some(pool)
    assert [restarts.is_large(x[0]) for x in states] == [True, True, False]
    assert not restarts.is_large(jnp.zeros((envs, 4)))
    assert not restarts.is_large(jax.random.split(jax.random.key(0), (envs, 100)))
    kernel = functools.partial(restarts.restart, interpret=True)
    ours, plain = (jax.jit(jax.vmap(way))(states, done, levels, slots) for way in (kernel, restart))
    for mine, theirs in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_both_ways_to_end_occur_and_exclude_each_other(played):
    steps = played[3]
    assert steps.terminated.any()
    assert steps.truncated.any()
    assert not (steps.terminated & steps.truncated).any()
    np.testing.assert_array_equal(steps.terminated | steps.truncated, steps.done)
    assert (np.asarray(steps.episodes.lengths)[np.asarray(steps.truncated)] == 12).all()


def test_refresh_replaces_the_taken_levels_and_keeps_the_others():
    venv = VectorEnv(Tower(), ENVS, pool_size=50)
    state, first = venv.reset(jax.random.key(1))
    before = np.asarray(state.pool.levels.level)
    seen = set(np.asarray(first.observation)[:, 0].tolist())
    mask, offered = first.mask, set(before.tolist()) | seen
    play, refresh = jax.jit(rollout, static_argnums=(0, 4)), jax.jit(venv.refresh)
    for turn in range(8):
        key = jax.random.fold_in(jax.random.key(3), turn)
        (state, mask), (_, steps) = play(venv, key, state, mask, 20)
        taken = int(state.pool.taken)
        assert taken == int(steps.done.sum()) > 0
        begun = np.asarray(steps.observation)[np.asarray(steps.done)][:, 0].tolist()
        assert not seen & set(begun), "a level was played twice"
        seen |= set(begun)
        old = np.asarray(state.pool.levels.level)
        state = refresh(key, state)
        new = np.asarray(state.pool.levels.level)
        assert (old != new).sum() == taken
        assert not set(new[old != new].tolist()) & offered, "a refreshed level is not fresh"
        offered |= set(new.tolist())
        assert state.pool.taken == 0


def test_levels_repeat_only_when_the_pool_has_run_dry_and_that_is_counted():
    venv = VectorEnv(Tower(), ENVS, pool_size=4)
    state, first = venv.reset(jax.random.key(1))
    (state, _), (_, steps) = rollout(venv, jax.random.key(2), state, first.mask)
    begun = np.asarray(steps.observation)[np.asarray(steps.done)][:, 0].tolist()
    assert len(set(begun[:4])) == 4
    assert begun[4:8] == begun[:4]
    assert int(state.levels_repeated) == len(begun) - 4


def test_many_runs_in_one_program_play_like_each_alone():
    venv = VectorEnv(Tower(), ENVS, pool_size=9)

    def run(key):
        state, first = venv.reset(key)
        (state, mask), (_, steps) = rollout(venv, key, state, first.mask, 20)
        state = venv.refresh(key, state)
        (state, _), (_, more) = rollout(venv, jax.random.fold_in(key, 1), state, mask, 20)
        return state, steps, more

    keys = jax.random.split(jax.random.key(4), 3)
    together = jax.jit(jax.vmap(run))(keys)
    for i, key in enumerate(keys):
        alone = jax.jit(run)(key)
        jax.tree.map(lambda x, y, i=i: np.testing.assert_array_equal(x[i], y), together, alone)


@pytest.mark.parametrize("id", ["toys:Tower", "craftax-classic", "craftax"])
def test_the_compiled_step_makes_no_worlds(id):
    env = maskless.make(id)
    venv = VectorEnv(env, 4)
    state, _ = jax.eval_shape(venv.reset, jax.random.key(0))
    calls = []
    env.reset = lambda *args: calls.append(args) or pytest.fail("the step makes a world")
    jax.eval_shape(venv.step, jax.random.key(0), state, jnp.zeros(4, jnp.int32))
    with pytest.raises(pytest.fail.Exception, match="makes a world"):
        jax.eval_shape(venv.refresh, jax.random.key(0), state)


@pytest.mark.parametrize("id", ["craftax-classic", "staircase"])
def test_on_an_accelerator_the_step_of_many_runs_asks_the_host_nothing(id, monkeypatch):
    """A loop or a condition would: the host decides how it goes on."""
    env = maskless.make(id)
    venv = VectorEnv(env, 4, observe=env.record)
    state, _ = jax.eval_shape(jax.vmap(venv.reset), jax.random.split(jax.random.key(0), 2))
    arguments = jax.random.split(jax.random.key(0), 2), state, jnp.zeros((2, 4), jnp.int32)

    def asks(function, *arguments):
        text = str(jax.make_jaxpr(jax.vmap(lambda *args: function(*args)))(*arguments))
        return any(f"{name}[" in text for name in ("while", "cond", "scan", "callback"))

    # Making levels is a loop; tracing that of Craftax takes seconds.
    assert id == "craftax-classic" or asks(venv.refresh, *arguments[:2])
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not asks(venv.step, *arguments)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda v, s: v.step(jax.random.key(0), s, jnp.zeros(5, int)), r"of shape \(3,\)"),
        (lambda v, s: v.step(jax.random.key(0), s, jnp.int32(1)), r"got shape \(\)"),
        (lambda v, s: v.step(jax.random.key(0), s, jnp.array([0, 1, 5])), "actions 0 to 4"),
        (lambda v, s: v.step(jax.random.key(0), s, jnp.array([0, 1, -1])), "actions 0 to 4"),
        (lambda v, s: v.env.step(jax.random.key(0), s, 1.5), "an integer"),
        (lambda v, s: VectorEnv(v.env, 0), "num_envs must be at least 1"),
        (lambda v, s: VectorEnv(v.env, 3, pool_size=0), "pool_size must be at least 1"),
    ],
)
def test_bad_input_is_refused(wrong_shapes, call, says):
    venv = VectorEnv(Tower(), 3)
    state, _ = venv.reset(jax.random.key(0))
    with pytest.raises(MasklessError, match=says):
        call(venv, state)
