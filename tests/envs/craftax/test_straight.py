"""A step without loops is the same step, leaf by leaf and bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.envs.straight import straight
from maskless.errors import MasklessError

ENVS, STEPS = 8, 150


def loops_in(function, *args):
    return str(jax.make_jaxpr(function)(*args)).count("scan[")


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_and_writes_of_every_kind(reverse):
    """Independent and dependent iterations, nested ones, writes of elements and rows, additions,
    places outside the array."""

    def function(x, index):
        doubled = jax.lax.map(lambda row: jnp.sin(row) * 2, x)

        def step(carry, row):
            inner = jax.lax.scan(lambda c, v: (c * 0.5 + v, c), row.sum(), row)[1]
            carry = carry.at[index[0], 1].set(row[0]).at[index[1]].add(row)
            return carry, (inner, carry.sum())

        carry, outputs = jax.lax.scan(step, x, doubled, reverse=reverse)
        return carry, outputs, jnp.searchsorted(jnp.cumsum(jnp.abs(x[0])), jnp.float32(0.7))

    x = jax.random.normal(jax.random.key(0), (5, 3))
    for index in ([0, 4], [2, 7], [-1, -2], [9, 0]):
        arguments = x, jnp.array(index)
        assert loops_in(function, *arguments) >= 3
        assert loops_in(straight(function), *arguments) == 0
        expected = function(*arguments)
        jax.tree.map(np.testing.assert_array_equal, straight(function)(*arguments), expected)
        few = straight(function, select_below=4)(*arguments)
        jax.tree.map(np.testing.assert_array_equal, few, expected)


def bits(state):
    def one(x):
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if is_key else x)

    return jax.tree.map(one, state)


@pytest.mark.parametrize("id", ["craftax-classic", "craftax"])
def test_long_random_play_gives_the_same_states(id):
    """Every state of every step, from real and from edited ones; the actions favour building,
    fighting and, in the full game, going down."""
    env = maskless.make(id)
    keys = jax.random.split(jax.random.key(0), ENVS)
    _, start = jax.jit(jax.vmap(env.reset))(keys)
    edited = jax.jit(jax.vmap(env.perturb))(keys, start)
    start = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), start, edited)
    count = 2 * ENVS

    def play(engine):
        env = maskless.make(id, engine=engine)

        def step(states, key):
            actions = jax.random.randint(key, (count,), 0, env.num_actions)
            split = jax.random.split(key, count)
            _, states, reward, done, info = jax.vmap(env.step)(split, states, actions)
            return states, (states, reward, done, info["truncated"])

        run = jax.jit(lambda s: jax.lax.scan(step, s, jax.random.split(jax.random.key(1), STEPS)))
        return run(start)[1]

    expected, found = bits(play("upstream")), bits(play("straight"))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    moved = jax.tree.map(lambda x: (x[0] != x[-1]).any(), expected[0])
    assert moved.map
    assert moved.player_position
    assert moved.inventory.wood or moved.inventory.stone


def test_an_unknown_engine_is_refused():
    with pytest.raises(MasklessError, match="engine"):
        maskless.make("craftax", engine="fast")
