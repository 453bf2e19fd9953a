"""What the learner stores is what the environment records, and nothing else about it changes."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.conditions import condition, stack
from maskless.config import Config
from maskless.envs import VectorEnv, check_contract
from maskless.hyperparameters import Hyperparameters
from maskless.nets import Encoder
from maskless.ppo.learner import Learner
from maskless.ppo.rollout import collect, start
from maskless.training.request import request_again

from toys import GOAL, Tower


class Spelled(Tower):
    """Height and energy as zeros and ones."""

    def observe(self, state):
        return _spell(jnp.stack([state.height, state.energy]))


@dataclasses.dataclass(frozen=True)
class SpellingEncoder(Encoder):
    """Reads two small numbers as the zeros and ones that they stand for."""

    lost: int = 0
    """How many of these it forgets."""

    def __call__(self, obs, **how):
        return super().__call__(self._whole(obs), **how)

    def novelty_view(self, obs, dtype=None):
        return super().novelty_view(self._whole(obs), dtype)

    def _whole(self, obs):
        if obs.dtype != jnp.uint8:
            return obs
        whole = _spell(obs.astype(jnp.int32))
        return whole[..., : whole.shape[-1] - self.lost]


class Compact(Spelled):
    """The same, stored as two small numbers."""

    encoder = SpellingEncoder()

    def record(self, state):
        return jnp.stack([state.height, state.energy]).astype(jnp.uint8)


def _spell(numbers):
    height, energy = numbers[..., 0], numbers[..., 1]
    return jnp.concatenate([jax.nn.one_hot(height, GOAL + 1), jax.nn.one_hot(energy, 10)], -1)


def learner_in(env, config):
    request = request_again(config, env=env)
    return Learner(config, request.env, request.net)


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
        num_envs=4, rollout=16, minibatches=2, epochs=1, bootstrap_truncated=True, rnd=True
    )
    config = Config(env="tower", width=8, frames=640, ppo=ppo, diagnostics=False)
    plain, ours = learner_in(Spelled(), config), learner_in(Compact(), config)
    state, its_state = begun(plain), begun(ours)
    chosen = jax.tree.map(lambda x: x[0], stack([condition("masked-kl")]))  # as programs have it
    after, metrics = jax.jit(plain.update)(state, chosen, {})
    its_after, its_metrics = jax.jit(ours.update)(its_state, chosen, {})
    for expected, actual in (
        (metrics, its_metrics),
        (after.params, its_after.params),
        (after.novelty, its_after.novelty),
    ):
        # Not to the bit: the compiler may join other operations.
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), actual, expected)
    assert its_after.actor.now.observation.dtype == jnp.uint8
    steps = partial(collect, ours.venv, ours.net, steps=5)
    _, rollout = jax.eval_shape(steps, its_state.params, chosen, its_state.actor, state.key)
    assert (rollout.observation.shape, rollout.observation.dtype) == ((5, 4, 2), jnp.uint8)


def test_a_batch_of_environments_gives_whole_observations_unless_asked():
    key, actions, env = jax.random.key(0), jnp.array([1, 2, 3]), Compact()
    whole = VectorEnv(env, 3)
    small = VectorEnv(env, 3, observe=env.record)
    (state, first), (its_state, its_first) = whole.reset(key), small.reset(key)
    _, step = whole.step(key, state, actions)
    _, its_step = small.step(key, its_state, actions)
    read = partial(env.encoder, num_actions=5, width=8, dtype=None)
    for full, compact in (
        (first.observation, its_first.observation),
        (step.observation, its_step.observation),
        (step.final_observation, its_step.final_observation),
    ):
        assert compact.shape == (3, 2)
        np.testing.assert_array_equal(read(full[None]), read(compact[None]))
        np.testing.assert_array_equal(
            env.encoder.novelty_view(full[None]), env.encoder.novelty_view(compact[None])
        )


def test_the_encoder_must_read_a_record_as_it_reads_an_observation():
    class Forgetful(Compact):
        encoder = SpellingEncoder(lost=1)

    check_contract(Compact())
    with pytest.raises(
        maskless.MasklessError, match=r"record .* float32\[1,1,16\] .* float32\[1,1,15\]"
    ):
        check_contract(Forgetful())
