"""Evaluation plays complete episodes, and the mask it applies is the only thing that differs."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from maskless.envs.base import Environment
from maskless.evaluation.episodes import MASKS, MaskSource, mask_source
from maskless.evaluation.player import make_player
from maskless.nets import Heads, Network

from programs import play_episodes
from toys import MaskedBandit, Tower, mask_from_observation

SEED = 3


class Scripted(Network):
    """A policy whose validity head is what its parameters say: the mask of the tower, read from
    the observation (`perfect`), the opposite (`flipped`), or the same for all actions."""

    def initial_carry(self, batch):
        return ()

    @nn.compact
    def __call__(self, carry, obs, reset):
        head = self.param("head", lambda _: jnp.int32(0))
        logits = jnp.zeros((*reset.shape, self.num_actions))
        truth = logits > 0
        if self.num_actions == Tower().num_actions:
            truth = mask_from_observation(obs)
            # Preferences that depend on the state, so that a wrong state would show.
            logits = jnp.sin(obs[..., -1:] + jnp.arange(self.num_actions))
        valid = jnp.stack([truth, ~truth, truth | True, truth & False])[head]
        blank = jnp.zeros((*reset.shape, 1))
        return carry, Heads(
            logits=logits,
            value=blank[..., 0],
            validity=jnp.where(valid, 3.0, -3.0),
            features=blank,
            hidden=blank,
            intrinsic_value=blank[..., 0],
        )


HEADS = ("perfect", "flipped", "all", "nothing")


@functools.cache
def player(world, envs, greedy):
    """Compiled once for all heads and masks: that is what takes time here."""
    return make_player(world(), envs, Scripted(num_actions=world().num_actions), greedy=greedy)


def play(world, head, masks, *, envs=16, episodes=3, greedy=False):
    params = {"params": {"head": jnp.int32(HEADS.index(head))}}
    return play_episodes(player(world, envs, greedy), params, masks, seed=SEED, episodes=episodes)


def equal(a, b):
    return jax.tree.all(jax.tree.map(np.array_equal, a, b))


@pytest.mark.parametrize("greedy", [False, True])
def test_a_perfect_classifier_and_the_oracle_play_identical_episodes(greedy):
    oracle = play(Tower, "perfect", "oracle", greedy=greedy)
    predicted = play(Tower, "perfect", "predicted-forgetful", greedy=greedy)
    assert equal(oracle, predicted)
    assert predicted.wrong.sum() == predicted.changed.sum() == predicted.invalid.sum() == 0
    wrong = play(Tower, "flipped", "predicted-forgetful", greedy=greedy)
    assert not np.array_equal(wrong.returns, oracle.returns)
    np.testing.assert_array_equal(wrong.wrong, 5 * wrong.lengths)
    # `wait` is always valid, so that a flipped mask never has it; it may have nothing at all.
    assert wrong.invalid.sum() > 0


def test_a_classifier_that_allows_nothing_falls_back_to_no_mask_and_is_counted():
    nothing = play(MaskedBandit, "nothing", "predicted-forgetful", envs=64, episodes=64)
    none = play(MaskedBandit, "nothing", "none", envs=64, episodes=64)
    np.testing.assert_array_equal(nothing.fallbacks, nothing.lengths)
    np.testing.assert_array_equal(nothing.returns, none.returns)
    assert none.fallbacks.sum() == 0


def test_correcting_actions_one_by_one_leads_from_the_predicted_mask_to_the_oracle():
    corrected = {n: MaskSource(jnp.arange(5) < n, jnp.bool_(False)) for n in (0, 2, 5)}
    played = {n: play(Tower, "flipped", source) for n, source in corrected.items()}
    assert equal(played[0], play(Tower, "flipped", "predicted-forgetful"))
    assert equal(played[5], play(Tower, "flipped", "oracle"))
    assert not equal(played[2], played[0])
    # Waiting and climbing come from the oracle, the rest is flipped.
    assert played[5].invalid.sum() == 0 < played[2].invalid.sum() < played[0].invalid.sum()


def test_modes_by_position_can_be_traced():
    sources = jax.vmap(lambda number: mask_source(number, 5))(jnp.arange(len(MASKS)))
    for number, masks in enumerate(MASKS):
        assert equal(mask_source(masks, 5), jax.tree.map(lambda x: x[number], sources))  # noqa: B023


def test_returns_and_invalid_choices_of_a_uniform_policy_are_those_computed_by_hand():
    # Contexts pay on average, over valid arms: (.5 + .1 + .2) / 3, (.1 + .6 + .3) / 3,
    # (.7 + .2) / 2; an invalid arm pays nothing, and 4 of 12 are.
    expected = {"oracle": ((0.8 / 3 + 1.0 / 3 + 0.9 / 2) / 3, 0.0), "none": (2.7 / 12, 4 / 12)}
    for masks, (mean, invalid) in expected.items():
        record = play(MaskedBandit, "all", masks, envs=64, episodes=64)
        error = record.returns.std() / 64
        assert abs(record.returns.mean() - mean) < 4 * error
        assert abs(record.invalid.mean() - invalid) <= 4 * np.sqrt(invalid / 64**2)
        assert (record.lengths == 1).all()
        np.testing.assert_array_equal(record.solved, record.returns > 0)
        # Where the dice of the unmasked policy hit an invalid arm, the oracle changes the choice.
        np.testing.assert_array_equal(record.changed, record.invalid)


@struct.dataclass
class WaitState:
    length: jax.Array
    time: jax.Array


class Waits(Environment):
    """Half of the episodes last 2 steps, half of them 40; every step pays 1."""

    id = "waits"
    action_names = ("wait",)
    episode_limit = 40

    def reset(self, key, params=None):
        length = jnp.where(jax.random.bernoulli(key), 2, 40)
        state = WaitState(length, jnp.int32(0))
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        state = WaitState(state.length, state.time + 1)
        return self.observe(state), state, 1.0, state.time >= state.length, {}

    def observe(self, state):
        return jnp.stack([state.length, state.time])

    def validity(self, state, params=None):
        return jnp.ones(1, bool)


def test_every_episode_is_complete_and_short_ones_are_not_favoured():
    record = play(Waits, "all", "none", envs=40, episodes=10)
    assert set(np.unique(record.lengths)) == {2, 40}
    np.testing.assert_array_equal(record.returns, record.lengths)
    assert record.finished.all()
    # Taking what finishes first would make nearly all of them short.
    assert abs((record.lengths == 2).mean() - 0.5) < 4 * 0.5 / np.sqrt(record.lengths.size)
