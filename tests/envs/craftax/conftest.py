"""Worlds made once a session: compiling what makes them takes longer than most tests."""

import functools

import jax
import jax.numpy as jnp
import pytest

import maskless

from toys import starting_from

WORLDS, AT_A_TIME = 128, 16


@functools.cache
def _worlds(id):
    env = maskless.make(id)
    make = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))
    keys = jax.random.split(jax.random.key(17), WORLDS).reshape(-1, AT_A_TIME)
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *map(make, keys))


@pytest.fixture(scope="session")
def worlds():
    """worlds(id): fresh states of a game, [128, ...]."""
    return _worlds


@pytest.fixture(scope="session")
def make_on_worlds():
    """make_on_worlds(id, **options): a game in which every episode begins in one of `worlds`."""
    return lambda id, **options: starting_from(maskless.make(id, **options), _worlds(id))
