"""Each measure against an exact enumeration, a plain loop, or SciPy."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from maskless import statistics

RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize("count", range(1, 14))
def test_the_interquartile_mean_is_the_trimmed_mean_of_scipy(count):
    scores = RANDOM.normal(size=(3, count)) ** 3
    expected = scipy.stats.trim_mean(scores, 0.25, axis=1)
    np.testing.assert_allclose(statistics.interquartile_mean(scores), expected)
    np.testing.assert_allclose(statistics.interquartile_mean(scores.T, axis=0), expected)


def enumerated(strata, statistic):
    """The statistic of every resample that there can be."""
    samples = [itertools.product(stratum, repeat=len(stratum)) for stratum in strata]
    return np.sort(
        [statistic([np.array(s) for s in drawn]) for drawn in itertools.product(*samples)]
    )


def test_the_bootstrap_has_the_distribution_of_all_resamples():
    strata = [np.array([0.0, 1.0]), np.array([2.0, 5.0, 11.0])]
    exact = enumerated(strata, lambda drawn: np.mean([part.mean() for part in drawn]))
    draws = statistics.bootstrap(
        strata,
        lambda drawn: np.mean([part.mean(axis=-1) for part in drawn], axis=0),
        resamples=40_000,
    )
    assert draws.shape == (40_000,)
    for value in np.unique(exact.round(9)):
        below = np.mean(exact <= value + 1e-9)
        assert np.mean(draws <= value + 1e-9) == pytest.approx(below, abs=0.012)


def test_the_interval_of_a_mean_is_the_normal_one_where_that_is_right():
    values = RANDOM.normal(3.0, 2.0, size=2_000)
    low, high = statistics.bootstrap_interval(values)
    error = statistics.standard_error(values)
    assert error == pytest.approx(scipy.stats.sem(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)
    assert statistics.bootstrap_interval(values) == (low, high)  # always the same
    assert math.isnan(statistics.standard_error(values[:1]))
    many = RANDOM.normal(size=30_000)  # more than are drawn at a time
    assert np.diff(statistics.bootstrap_interval(many, resamples=200)) < 0.04


def test_errors_stand_for_drawing_the_episodes_anew():
    """Seeds, and the episodes of every drawn seed, both with replacement: by brute force."""
    episodes = [RANDOM.normal(mean, 4.0, size=200) for mean in (0.0, 0.3, 1.0, 1.4, 2.0)]
    means = np.array([part.mean() for part in episodes])
    errors = np.array([statistics.standard_error(part) for part in episodes])
    random = np.random.default_rng(1)
    brute = []
    for _ in range(4_000):
        seeds = random.integers(5, size=5)
        brute.append(np.mean([random.choice(episodes[seed], 200).mean() for seed in seeds]))
    draws = statistics.bootstrap(
        [means], lambda drawn: drawn[0].mean(axis=-1), errors=[errors], resamples=4_000
    )
    assert draws.std() == pytest.approx(np.std(brute), rel=0.05)
    without = statistics.bootstrap([means], lambda drawn: drawn[0].mean(axis=-1))
    assert draws.std() > 1.05 * without.std()


def test_the_interval_of_a_ratio_holds_both_errors():
    low, high = statistics.ratio_interval(9.0, 10.0, 0.3, 0.4)
    for ratio in (low, high):  # Fieller's own equation
        distance = abs(9.0 - ratio * 10.0) / math.hypot(0.3, ratio * 0.4)
        assert distance == pytest.approx(1.959964, abs=1e-5)
    draws = RANDOM.normal(9.0, 0.3, 200_000) / RANDOM.normal(10.0, 0.4, 200_000)
    assert (low, high) == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=2e-3)
    assert statistics.ratio_interval(-0.9, 17.0, 0.0, 0.0) == pytest.approx((-0.9 / 17,) * 2)
    narrow = statistics.ratio_interval(9.0, 10.0, 0.3, 0.0)
    assert narrow == pytest.approx((0.9 - 0.0588, 0.9 + 0.0588), abs=1e-4)
    assert statistics.ratio_interval(0.5, 0.01, 0.1, 0.1) == (-math.inf, math.inf)


def test_the_probability_of_improvement_counts_pairs():
    ours, theirs = RANDOM.integers(5, size=(4, 6)), RANDOM.integers(5, size=(4, 3))
    expected = [
        np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x in a for y in b])
        for a, b in zip(ours, theirs, strict=True)
    ]
    np.testing.assert_allclose(statistics.probability_of_improvement(ours, theirs), expected)
    assert statistics.probability_of_improvement(theirs, ours) + expected == pytest.approx(1.0)


def test_a_profile_is_the_share_above():
    scores = RANDOM.normal(size=(2, 9))
    thresholds = np.array([-1.0, scores[0, 0], 2.0])
    expected = [[sum(x > t for x in row) / 9 for t in thresholds] for row in scores]
    np.testing.assert_allclose(statistics.performance_profile(scores, thresholds), expected)


def test_rank_correlation_is_spearmans():
    x, y = RANDOM.integers(6, size=12).astype(float), RANDOM.normal(size=12)
    expected = scipy.stats.spearmanr(x, y)
    assert statistics.rank_correlation(x, y) == pytest.approx(expected.statistic)
    few = np.array([1.0, 2.0, 4.0, 3.0, 6.0]), np.array([5.0, 3.0, 4.0, 2.0, 1.0])
    exact = np.mean(
        [
            abs(scipy.stats.spearmanr(few[0], order).statistic)
            >= abs(scipy.stats.spearmanr(*few).statistic) - 1e-9
            for order in itertools.permutations(few[1])
        ]
    )
    assert statistics.rank_correlation_p(*few) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize(
    ("x", "y", "can"),
    [([1, 2, 3, 4], [1, 2, 2, 2], True), ([1, 2, 3], [1, 2, 3], False), ([1] * 5, range(5), False)],
)
def test_what_is_all_alike_has_no_rank_correlation(x, y, can):
    assert statistics.can_rank(np.array(x), np.array(y)) == can
