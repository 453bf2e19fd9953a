"""Feature correlation against a reference that looks at every pair of states."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.diagnostics import correlation

from diagnostics import slow

SIZES = (slow.ACTIONS, 5, 9)


@functools.partial(jax.jit, static_argnames="stride")
def compiled(state, features, hidden, valid, stride=1):
    return correlation.measure(state, features, hidden, valid, stride=stride)


def follow(rollouts, stride=1):
    state = correlation.init(*SIZES)
    for rollout in rollouts:
        state, metrics = compiled(
            state, rollout.features, rollout.hidden, rollout.valid, stride=stride
        )
        yield metrics


@pytest.mark.parametrize("stride", [1, 3])
def test_equals_the_reference_in_every_update(stride):
    rollouts = slow.random_rollouts("masked", updates=3, time=9, envs=12)
    rollouts[0].valid[0, :, slow.RARE] = True  # 12 states, too few alone, enough with the others
    for update, metrics in enumerate(follow(rollouts, stride), start=1):
        expected = slow.correlation(rollouts[:update], stride=stride)
        assert metrics.keys() == expected.keys()
        for name, value in metrics.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_too_few_states_have_no_number_and_the_window_collects_them():
    rollouts = slow.random_rollouts("masked", updates=6, time=4, envs=40)
    for rollout in rollouts:
        rollout.valid[..., slow.RARE] = False
        rollout.valid[0, :10, slow.RARE] = True
    seen = list(follow(rollouts))
    known = [not np.isnan(metrics["feature_correlation"][slow.RARE]) for metrics in seen]
    counts = [metrics["correlation_valid_states"][slow.RARE] for metrics in seen]
    np.testing.assert_allclose(counts, [10 * (1 - 0.9**n) / 0.1 for n in range(1, 7)], rtol=1e-6)
    assert known == [count >= 32 for count in counts] == [False] * 3 + [True] * 3
    for name in ("feature_correlation", "hidden_cosine", "feature_cosine_with_bias"):
        # Never valid, and never invalid: nothing to compare.
        assert np.isnan(seen[-1][name])[[slow.NEVER, slow.ALWAYS]].all()


def test_known_similarities():
    """Features of valid and invalid states that are orthogonal, the same, or opposite."""
    time, envs = 4, 40
    valid = np.zeros((time, envs, 3), bool)
    valid[:, ::2] = True
    orthogonal = np.float32(np.where(valid[..., :1], [1, 0, 0, 0], [0, 0, 1, 0]))
    same = np.float32(np.broadcast_to([1, 2, 3, 4], (time, envs, 4)))
    _, metrics = compiled(correlation.init(3, 4, 4), orthogonal, same, valid)
    np.testing.assert_allclose(metrics["feature_cosine"], 0, atol=1e-6)
    np.testing.assert_allclose(metrics["feature_cosine_with_bias"], 0.5, rtol=1e-5)
    np.testing.assert_allclose(metrics["hidden_correlation"], 1, rtol=1e-6)
    np.testing.assert_allclose(metrics["hidden_cosine"], 1, rtol=1e-6)
    opposite, constant = np.where(valid[..., :1], same, -same), np.ones_like(same)
    _, metrics = compiled(correlation.init(3, 4, 4), opposite, constant, valid)
    np.testing.assert_allclose(metrics["feature_correlation"], -1, rtol=1e-6)
    assert np.isnan(metrics["hidden_correlation"]).all()  # a constant correlates with nothing


def test_one_odd_state_among_many_is_not_drowned():
    """The rarer side comes from its own sum, not from the difference of two large ones."""
    random = np.random.default_rng(0)
    features = np.float32(random.normal(np.arange(8) - 2, 1, (64, 512, 8)))
    valid = np.ones((64, 512, 2), bool)
    valid[::2, 3, 0] = False  # 32 states
    features[::2, 3] = np.float32(random.normal(0, 1e-3, 8))
    _, metrics = compiled(correlation.init(2, 8, 8), features, features, valid)
    wide, odd = np.float64(features), ~valid[..., 0]
    expected = np.corrcoef(wide[odd].mean(0), wide[~odd].mean(0))[0, 1]
    assert metrics["feature_correlation"][0] == pytest.approx(expected, abs=1e-5)
    unit = wide / np.linalg.norm(wide, axis=-1, keepdims=True)
    expected = unit[odd].mean(0) @ unit[~odd].mean(0)
    assert metrics["feature_cosine"][0] == pytest.approx(expected, abs=1e-5)


def test_the_state_keeps_its_shapes_and_types():
    """So that a compiled loop can carry it."""
    rollout = slow.random_rollouts("masked", updates=1)[0]
    start = correlation.init(*SIZES)
    after, _ = compiled(start, rollout.features, rollout.hidden, rollout.valid)
    same = jax.tree.map(lambda a, b: a.shape == b.shape and a.dtype == b.dtype, start, after)
    assert jax.tree.all(same)


def test_many_runs_at_once_are_as_one_by_one():
    runs = [slow.random_rollouts("masked", updates=1, seed=seed)[0] for seed in (0, 1)]
    arrays = [np.stack([getattr(r, n) for r in runs]) for n in ("features", "hidden", "valid")]
    start = jax.tree.map(lambda x: jnp.stack([x, x]), correlation.init(*SIZES))
    together = jax.jit(jax.vmap(correlation.measure))(start, *arrays)
    for number, run in enumerate(runs):
        alone = compiled(correlation.init(*SIZES), run.features, run.hidden, run.valid)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[number], b, rtol=1e-5, atol=1e-6)
