"""A function without loops is the same function. (That the games' steps are, is in
test_upstream.py.)"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.envs.craftax.loopless import loopless
from maskless.errors import MasklessError


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
    ways = [jax.jit(loopless(function)), jax.jit(loopless(function, select_below=4))]
    for index in ([0, 4], [2, 7], [-1, -2], [9, 0]):
        arguments = x, jnp.array(index)
        assert loops_in(function, *arguments) >= 3
        assert loops_in(loopless(function), *arguments) == 0
        expected = function(*arguments)
        for way in ways:
            jax.tree.map(np.testing.assert_array_equal, way(*arguments), expected)


def writes_in(function, *args):
    return str(jax.make_jaxpr(function)(*args)).count("scatter")


def test_writes_to_a_large_array_are_buffered_and_reads_see_them():
    """Squares and whole floors, overwritten, conditional, outside; reads of a square, a row's
    floor and a fixed floor in between, past the edge too; and an operation that needs it all."""

    def function(floors, level, spot):
        read = []
        for turn in range(3):
            floors = floors.at[level, spot[0], spot[1] + turn].set(turn + 2)
            read += [floors[level, spot[0], spot[1] + 1], floors[level - turn], floors[0, 3]]
            dug = floors.at[level].set(floors[level] * 2).at[2, 1, 1].set(-turn)
            floors = jnp.where(spot[0] > turn, dug, floors)
            read.append(jax.lax.dynamic_slice(floors, (level + 7, spot[0], spot[1]), (1, 1, 1)))
        either = jnp.where(spot[0] > 1, floors.at[0, 0, 0].set(9), floors.at[1, 1, 1].set(8))
        return jax.lax.stop_gradient(floors), read, jnp.roll(floors, 1).sum(0), either

    floors = jax.random.randint(jax.random.key(0), (4, 60, 50), 0, 100)
    arguments = floors, jnp.int32(0), jnp.array([0, 0])
    assert writes_in(loopless(function), *arguments) == 0 < writes_in(function, *arguments)
    plain, buffered = jax.jit(function), jax.jit(loopless(function))
    batched = [jax.jit(jax.vmap(way)) for way in (loopless(function), function)]
    for level, *spot in ([0, 0, 0], [2, 1, 1], [3, 59, 48], [5, 70, 3], [-1, -2, -3], [1, 2, 49]):
        arguments = floors, jnp.int32(level), jnp.array(spot)
        jax.tree.map(np.testing.assert_array_equal, buffered(*arguments), plain(*arguments))
        many = jax.tree.map(lambda x: jnp.stack([x, x + 1]), arguments)
        jax.tree.map(np.testing.assert_array_equal, *(way(*many) for way in batched))


def test_an_unknown_engine_is_refused():
    with pytest.raises(MasklessError, match="engine"):
        maskless.make("craftax", engine="fast")


def test_the_old_name_of_the_engine_still_works():
    assert maskless.make("craftax-classic", engine="straight").engine == "loopless"
