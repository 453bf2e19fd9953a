"""Toys with known answers, learned by the whole learner."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import masking
from maskless.conditions import grid
from maskless.config import Config
from maskless.hyperparameters import Hyperparameters
from maskless.nets import make_net
from maskless.ppo.rollout import apply_step
from maskless.training.program import of_run

from programs import program_of
from toys import MaskedBandit, Recall

SMALL = Hyperparameters(
    num_envs=32, rollout=8, minibatches=2, epochs=4, learning_rate=3e-3, entropy=0.003
)


def train(env, updates, conditions=("masked",), ppo=SMALL, **settings):
    settings = {"width": 32, "seeds": 1, "diagnostics": False} | settings
    frames = updates * ppo.num_envs * ppo.rollout
    config = Config(env=env.id, frames=frames, conditions=conditions, ppo=ppo, **settings)
    program = program_of(config, env, chunk=updates)
    return program, *program.advance(program.start(), updates)


@pytest.fixture(scope="module")
def bandit():
    conditions = ("masked", "unmasked", "masked-focal")
    return train(MaskedBandit(), 150, conditions=conditions, diagnostics=True)


@pytest.mark.parametrize("run", [0, 1, 2])
def test_the_bandit_is_played_optimally(bandit, run):
    program, states, _ = bandit
    net, params = program.learner.net, of_run(states.params, run)
    contexts = jnp.eye(3)
    _, heads = apply_step(net, params, net.initial_carry(3), contexts, jnp.ones(3, bool))
    masks = MaskedBandit.masks if run != 1 else jnp.ones((3, 4), bool)
    policy = jnp.exp(masking.masked_log_softmax(heads.logits, masks))
    np.testing.assert_array_equal(policy.argmax(-1), [1, 2, 0])  # the best valid arms
    earned = (policy * MaskedBandit.masks * MaskedBandit.payoffs).sum(-1).mean()
    assert earned > MaskedBandit.optimum - 0.01


def test_a_masked_run_never_selects_an_invalid_action(bandit):
    program, _, metrics = bandit
    assert program.learner.config.runs[0][0] == "masked"
    np.testing.assert_array_equal(metrics["valid_rate"][:, 0], 1.0)
    # What PPO does not see stays untouched: arm 0 is invalid in context 0 and learns nothing there.
    np.testing.assert_array_equal(metrics["probability_invalid"][:, 0], 0.0)
    assert metrics["valid_rate"][0, 1] < 1.0


def test_the_classifier_learns_the_bandits_masks(bandit):
    program, states, _ = bandit
    net, params = program.learner.net, of_run(states.params, 2)
    _, heads = apply_step(net, params, (), jnp.eye(3), jnp.ones(3, bool))
    np.testing.assert_array_equal(heads.validity > 0, MaskedBandit.masks)


def test_without_a_classifier_the_validity_head_stays_as_it_began(bandit):
    program, states, _ = bandit
    for run, stays in ((0, True), (2, False)):
        begun, ended = (
            of_run(params, run)["params"]["heads"]["validity"]["kernel"]
            for params in (program.start().params, states.params)
        )
        assert np.array_equal(begun, ended) == stays


@pytest.mark.parametrize(
    ("net", "updates", "rollout", "learns"),
    [("mlp", 60, 8, False), pytest.param("hybrid", 25, 64, True, marks=pytest.mark.slow)],
)
def test_recall_needs_a_memory(net, updates, rollout, learns):
    ppo = dataclasses.replace(SMALL, rollout=rollout)
    _, _, metrics = train(Recall(), updates, net=net, ppo=ppo)
    last = metrics["return"][-8:, 0]
    assert np.nanmean(last) > 0.95 if learns else np.nanmean(last) < 0.65


def test_random_network_distillation_runs_and_its_novelty_fades():
    """And the GRU remembers, whether novelty counts (the second run) or not."""
    ppo = dataclasses.replace(SMALL, rnd=True)
    conditions = grid("masked", rnd_advantage=[0.0, 0.01])
    _, states, metrics = train(Recall(), 60, net="gru", ppo=ppo, conditions=conditions)
    assert (np.nanmean(metrics["return"][-8:], axis=0) > 0.95).all()
    # As a sum over a hundred steps the bonus had losses in the thousands, and the clipped gradient
    # was all about them.
    assert (metrics["intrinsic_value_loss"] < 1).all()
    assert (metrics["gradient_norm"] < 3).all()
    spread = states.novelty.spread
    assert ((spread > 0) & (spread < 0.5 * metrics["bonus_spread"][0])).all()


@pytest.mark.parametrize("name", ["mlp", "gru"])
def test_learning_the_value_of_novelty_changes_nothing_but_its_own_weights(name):
    net = make_net(name, num_actions=3, width=8)
    carry, obs, reset = net.initial_carry(2), jnp.ones((1, 2, 4)), jnp.zeros((1, 2), bool)
    params = net.init(jax.random.key(0), carry, obs, reset)
    gradient = jax.grad(lambda p: net.apply(p, carry, obs, reset)[1].intrinsic_value.sum())(params)
    of_values = gradient["params"]["heads"].pop("values")
    assert (of_values["kernel"][:, 1] != 0).any()
    assert (of_values["kernel"][:, 0] == 0).all()
    assert all((x == 0).all() for x in jax.tree.leaves(gradient))
