"""What the learner stores is compact, and nothing else about it changes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.config import Config, Hyperparameters
from maskless.envs import VectorEnv
from maskless.ppo.learner import Learner
from maskless.ppo.rollout import collect, start

from toys import GOAL, Tower


class Spelled(Tower):
    """Height and energy as zeros and ones."""

    def observe(self, state):
        return _spell(jnp.stack([state.height, state.energy]))


class Compact(Spelled):
    """The same, stored as two small numbers."""

    def compact(self, state):
        return jnp.stack([state.height, state.energy]).astype(jnp.uint8)

    def expand(self, compact):
        return _spell(compact.astype(jnp.int32))


def _spell(numbers):
    height, energy = numbers[..., 0], numbers[..., 1]
    return jnp.concatenate([jax.nn.one_hot(height, GOAL + 1), jax.nn.one_hot(energy, 10)], -1)


def begun(learner):
    """A state before the first update, with simple weights: the learner's take long to compile."""
    shapes = jax.eval_shape(learner.init, 0)
    random = np.random.default_rng(0)
    weights = jax.tree.map(
        lambda x: jnp.asarray(0.1 * random.normal(size=x.shape), x.dtype),
        (shapes.params, shapes.novelty.params),
    )
    state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes.replace(key=(), actor=()))
    return state.replace(
        key=jax.random.key(1),
        actor=start(learner.venv, learner.net, jax.random.key(2)),
        params=weights[0],
        novelty=state.novelty.replace(params=weights[1]),
    )


def test_it_learns_the_same():
    """Every place where the learner reads observations is used: acting, learning, the value after
    a time limit, novelty."""
    ppo = Hyperparameters(
        num_envs=8, rollout=16, minibatches=2, epochs=1, bootstrap_truncated=True, rnd=True
    )
    config = Config(env="tower", width=8, frames=1280, ppo=ppo, diagnostics=False)
    plain, ours = Learner(config, Spelled()), Learner(config, Compact())
    state, its_state = begun(plain), begun(ours)
    condition = maskless.conditions.condition("masked-kl")
    after, metrics = jax.jit(plain.update)(state, condition)
    its_after, its_metrics = jax.jit(ours.update)(its_state, condition)
    for expected, actual in (
        (metrics, its_metrics),
        (after.params, its_after.params),
        (after.novelty, its_after.novelty),
    ):
        # Not to the bit: the compiler may join other operations.
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), actual, expected)
    assert its_after.actor.now.observation.dtype == jnp.uint8
    steps = partial(collect, ours.venv, ours.reader, steps=5)
    _, rollout = jax.eval_shape(steps, its_state.params, condition, its_state.actor, state.key)
    assert (rollout.observation.shape, rollout.observation.dtype) == ((5, 8, 2), jnp.uint8)


def test_a_batch_of_environments_gives_whole_observations_unless_asked():
    key, actions = jax.random.key(0), jnp.array([1, 2, 3])
    whole = VectorEnv(Compact(), 3)
    small = VectorEnv(Compact(), 3, compact=True)
    (state, first), (its_state, its_first) = whole.reset(key), small.reset(key)
    _, step = whole.step(key, state, actions)
    _, its_step = small.step(key, its_state, actions)
    expand = jax.vmap(Compact().expand)
    for full, compact in (
        (first.observation, its_first.observation),
        (step.observation, its_step.observation),
        (step.final_observation, its_step.final_observation),
    ):
        assert compact.shape == (3, 2)
        np.testing.assert_array_equal(full, expand(compact))


def test_expand_must_fit_compact():
    class Forgetful(Compact):
        def expand(self, compact):
            return super().expand(compact)[:-1]

    maskless.envs.check_contract(Compact())
    with pytest.raises(maskless.MasklessError, match=r"expand .* float32\[16\] .* float32\[15\]"):
        maskless.envs.check_contract(Forgetful())
