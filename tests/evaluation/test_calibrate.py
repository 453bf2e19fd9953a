"""Thresholds keep their promise on fresh episodes, whatever the classifier is worth."""

import jax
import numpy as np
import pytest
from policy.drift import Drift
from policy.made import make_policy
from scipy import stats

from maskless.errors import MasklessError
from maskless.evaluation.calibration import (
    calibrate,
    closest_policy,
    conformal_thresholds,
    episodes_needed,
    tolerance_rank,
)
from maskless.evaluation.sampling import EpisodeSampler, States
from maskless.policy.acting import as_array, load

ALPHA, DELTA = 0.01, 0.05


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """A classifier with random weights: the promise must hold for any."""
    return load(make_policy(tmp_path_factory.mktemp("drift") / "policy", env=Drift(), width=8))


@pytest.fixture(scope="module")
def player(policy):
    with EpisodeSampler(policy, Drift(), envs=1024, states=4) as sampler:
        yield sampler


@pytest.mark.parametrize("count", [10, 298, 299, 1000, 5000])
@pytest.mark.parametrize("delta", [0.05, 0.01])
def test_the_rank_is_the_binomial_s_quantile(count, delta):
    rank = tolerance_rank(count, ALPHA, delta)
    # P(Beta(k, n - k + 1) > alpha): the share below the k-th smallest score is Beta distributed.
    risk = [stats.beta.sf(ALPHA, k, count - k + 1) for k in (rank, rank + 1) if k]
    assert risk[-1] > delta
    assert (rank > 0) == (count >= episodes_needed(ALPHA, delta))
    assert all(value <= delta for value in risk[:-1])


def test_the_score_at_the_threshold_s_rank_is_allowed():
    scores = np.array([[0.4, np.nan], [0.1, 0.5], [0.2, np.nan], [0.3, 0.0]], np.float32)
    second, lowest = conformal_thresholds(scores, [2, 1])
    assert (scores[:, 0] > np.float32(second)).tolist() == [True, False, True, True]
    assert 0.19 < second < 0.2  # no closer: rounding must not mask the state that set it
    assert lowest is None
    assert conformal_thresholds(scores, [0, 0]) == [None, None]


def test_the_bound_holds_on_fresh_episodes_in_18_of_20_repetitions(player):
    """The measured rate of masked valid actions, every action, at alpha = 0.01."""
    kept, rates = 0, []
    for repetition in range(20):
        key, fresh_key = jax.random.split(jax.random.key(repetition))
        seen = player.play(key, 1024)
        counts = (seen.valid > 0).sum(0)
        ranks = [tolerance_rank(int(n), ALPHA, DELTA / 3) for n in counts]
        assert min(ranks) > 0
        thresholds = as_array(conformal_thresholds(seen.score, ranks))
        rate = player.play(fresh_key, 4096, thresholds=thresholds).masked_rate()
        kept += bool((rate <= ALPHA).all())
        rates.append(rate)
    assert kept >= 18
    assert np.mean(rates) > ALPHA / 5  # the bound is kept by aiming, not by masking nothing


def test_scores_are_drawn_evenly_from_the_states_in_which_an_action_is_valid(player):
    """Averages over the drawn states equal averages over all states of each episode."""
    median = as_array([0.5, 0.45, 0.55])
    seen = player.play(jax.random.key(5), 8192, thresholds=median)
    drawn = np.nanmean(np.where(np.isnan(seen.score), np.nan, seen.score <= median), axis=0)
    np.testing.assert_allclose(drawn, seen.masked_rate(), atol=0.02)
    lengths = np.asarray(seen.lengths)
    assert lengths.min() >= 1
    assert abs(lengths.mean() - (1 - 0.9**30) / 0.1) < 0.3
    valid = seen.states.valid.mean((0, 1))
    np.testing.assert_allclose(valid, (seen.valid / lengths[:, None]).mean(0), atol=0.02)


def test_the_oracle_s_episodes_do_not_depend_on_thresholds(player):
    key = jax.random.key(6)
    one = player.play(key, 1024)
    other = player.play(key, 1024, thresholds=as_array([0.9, None, 0.9]))
    np.testing.assert_array_equal(one.valid, other.valid)
    assert other.masked[:, 1].sum() == 0
    assert other.masked.sum() > one.masked.sum()


def test_policy_mode_comes_closer_to_the_oracle_s_policy(player):
    states = player.play(jax.random.key(7), 1024).states
    thresholds = closest_policy(states, (0.5, 0.5, 0.5))
    fresh_key = jax.random.key(8)
    before = player.play(fresh_key, 2048, thresholds=as_array([0.5] * 3)).policy_change()
    after = player.play(fresh_key, 2048, thresholds=as_array(thresholds)).policy_change()
    assert after < 0.9 * before


def test_policy_mode_finds_what_needs_two_changes_at_once():
    """In one state of three the valid action is masked and an invalid one allowed instead. Moving
    either threshold alone helps nothing."""
    valid = np.array([[1, 0], [1, 0], [0, 1]], bool)
    scores = np.array([[0.9, 0.1], [0.9, 0.1], [0.7, 0.3]])
    states = States(
        leaves=[],
        logits=np.tile(np.float32([9.0, 0.0]), (1, 3, 1)),
        validity=np.log(scores / (1 - scores)).astype(np.float32)[None],
        valid=valid[None],
    )
    found = as_array(closest_policy(states, (0.5, 0.5)))
    np.testing.assert_array_equal(scores > np.asarray(found), valid)


def test_calibration_says_what_it_did(player):
    found = calibrate(player, episodes=512, alpha=0.05, seed=1)
    assert all(found.guaranteed)
    about = found.to_json()
    assert about["alpha"] == 0.05
    assert about["episodes_with_action_valid"][0] == 512
    assert all(0.0 <= rate <= 0.05 for rate in about["fresh_masked_rate"])
    assert set(about["policy_change"]) == {"before", "after", "deployed"}


def test_too_few_episodes_for_the_bound(player):
    allowed = calibrate(player, episodes=64, seed=1, rare="allow")
    assert allowed.thresholds == (None, None, None)
    assert allowed.after.masked.sum() == 0
    kept = calibrate(player, episodes=64, seed=1)
    assert kept.thresholds == (0.5, 0.5, 0.5)
    assert not kept.is_worse  # nor better
    assert not any(kept.guaranteed)


def test_wrong_settings_are_refused(player):
    for wrong, sentence in (
        ({"alpha": 0.0}, "alpha must be between"),
        ({"delta": 1.0}, "delta must be between"),
        ({"episodes": 0}, "episodes must be at least 1"),
    ):
        with pytest.raises(MasklessError, match=sentence):
            calibrate(player, **wrong)
