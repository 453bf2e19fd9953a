"""A function without loops is the same function. (That the games' steps are, is in
test_upstream.py.)"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.envs.straight import straight
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
    for index in ([0, 4], [2, 7], [-1, -2], [9, 0]):
        arguments = x, jnp.array(index)
        assert loops_in(function, *arguments) >= 3
        assert loops_in(straight(function), *arguments) == 0
        expected = function(*arguments)
        jax.tree.map(np.testing.assert_array_equal, straight(function)(*arguments), expected)
        few = straight(function, select_below=4)(*arguments)
        jax.tree.map(np.testing.assert_array_equal, few, expected)


def test_an_unknown_engine_is_refused():
    with pytest.raises(MasklessError, match="engine"):
        maskless.make("craftax", engine="fast")
