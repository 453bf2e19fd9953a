"""What a few runs say about many: point estimates, intervals, and how often one beats another.

    middle = interquartile_mean(scores)                    # of seeds
    draws = bootstrap([classic, corridor], mean_of_games)  # seeds drawn anew within each game
    low, high = percentile_interval(draws)

The measures of Agarwal et al. 2021 ("Deep Reinforcement Learning at the Edge of the Statistical
Precipice"), which the rliable package has too; here they need NumPy only. Nothing is random
between calls: the same numbers always give the same interval.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Real

SEEDS = 3
"""From fewer no order of two conditions is claimed, and no interval over seeds is given."""
RESAMPLES = 2000
"""Of a bootstrap. The ends of a 95 % interval then lie within about a tenth of its width."""
_AT_ONCE = 2_000_000
"""Numbers drawn at a time: with ten thousand episodes all resamples would not fit into memory."""

Scores = Real[np.ndarray, "..."]
Statistic = Callable[[Sequence[Scores]], Scores]
"""From one array [resamples, n] for each stratum to a number for each resample, [resamples]."""


def interquartile_mean(scores: Scores, axis: int = -1) -> Scores:
    """The mean without the lowest and the highest quarter (of four: the middle two).

    Fewer than four have no quarter to leave out: then it is their mean.
    """
    ordered = np.sort(np.moveaxis(np.asarray(scores, np.float64), axis, -1), axis=-1)
    count = ordered.shape[-1]
    cut = count // 4
    return np.asarray(ordered[..., cut : count - cut].mean(axis=-1))


def standard_error(values: Real[np.ndarray, " n"]) -> float:
    """Of the mean; NaN for a single value."""
    count = len(values)
    return float(np.std(values, ddof=1) / math.sqrt(count)) if count > 1 else math.nan


def bootstrap(
    strata: Sequence[Scores],
    statistic: Statistic,
    *,
    errors: Sequence[Scores] | None = None,
    resamples: int = RESAMPLES,
) -> Float[np.ndarray, "resamples ..."]:
    """The statistic of resamples: every stratum is drawn anew, with replacement, from itself.

    `strata`: arrays [n], or [n, points], of scores that belong together: the seeds of one game, the
    episodes of one seed. `errors`: standard errors of the scores, where each is itself a mean (a
    seed's, over its episodes): a drawn score is then moved by its error, which is what drawing its
    episodes anew comes to when there are hundreds of them.
    """
    random = np.random.default_rng(0)
    chunk = max(1, _AT_ONCE // max(1, sum(map(len, strata))))
    parts = []
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        drawn = []
        for number, scores in enumerate(strata):
            at = random.integers(len(scores), size=(rows, len(scores)))
            sample = np.asarray(scores, np.float64)[at]
            if errors is not None:
                spread = np.asarray(errors[number], np.float64)[at]
                sample = sample + spread * random.standard_normal(sample.shape)
            drawn.append(sample)
        parts.append(statistic(drawn))
    return np.concatenate(parts)


def percentile_interval(
    draws: Float[np.ndarray, " resamples"], coverage: float = 0.95
) -> tuple[float, float]:
    """The ends between which the middle `coverage` of the draws lies."""
    low, high = np.quantile(draws, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)


def bootstrap_interval(
    values: Real[np.ndarray, " n"],
    statistic: Callable[[Scores], Scores] = lambda drawn: drawn.mean(axis=-1),
    *,
    coverage: float = 0.95,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """Of one sample: the percentile bootstrap of its mean, or of another statistic
    ([resamples, n] -> [resamples])."""
    draws = bootstrap([values], lambda strata: statistic(strata[0]), resamples=resamples)
    return percentile_interval(draws, coverage)


def ratio_interval(
    above: float, below: float, error_above: float, error_below: float, *, coverage: float = 0.95
) -> tuple[float, float]:
    """Of `above` / `below`, two means with independent standard errors (Fieller 1954).

    Where `below` is not surely different from zero nothing is known: (-inf, inf). Means that were
    measured with the same dice are correlated, usually positively: then it is wider than it
    need be.
    """
    z = NormalDist().inv_cdf((1 + coverage) / 2)
    # All ratios r for which above - r * below is within z of its own standard errors of zero.
    a = below**2 - (z * error_below) ** 2
    b = above * below
    c = above**2 - (z * error_above) ** 2
    if a <= 0:
        return -math.inf, math.inf
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return (b - root) / a, (b + root) / a


def probability_of_improvement(ours: Scores, theirs: Scores) -> Scores:
    """How often a run of ours is better than one of theirs, ties counting half. [..., n], [..., m]

    One half: no difference. Several games: take the mean over them.
    """
    one, other = np.asarray(ours)[..., :, None], np.asarray(theirs)[..., None, :]
    wins = (one > other) + 0.5 * (one == other)
    return np.asarray(wins.mean(axis=(-2, -1)))


def performance_profile(
    scores: Scores, thresholds: Real[np.ndarray, " thresholds"]
) -> Float[np.ndarray, "... thresholds"]:
    """The share of runs, [..., n], that score more than each threshold."""
    above = np.asarray(scores)[..., None, :] > np.asarray(thresholds)[:, None]
    return above.mean(axis=-1)


def can_rank(x: Real[np.ndarray, " n"], y: Real[np.ndarray, " n"]) -> bool:
    """Whether a rank correlation is worth a number: four points, and not all alike."""
    return len(x) > 3 and bool(np.ptp(x) > 0 and np.ptp(y) > 0)


def rank_correlation(x: Real[np.ndarray, " n"], y: Real[np.ndarray, " n"]) -> float:
    """Spearman's: Pearson's correlation of the ranks, ties sharing theirs."""
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def rank_correlation_p(
    x: Real[np.ndarray, " n"], y: Real[np.ndarray, " n"], resamples: int = 20_000
) -> float:
    """How often chance alone, shuffling one side, gives a rank correlation as far from zero."""
    ranks, others = _ranks(x), _ranks(y)
    random = np.random.default_rng(0)
    shuffled = random.permuted(np.tile(others, (resamples, 1)), axis=1)
    found = abs(_centred(ranks) @ _centred(others))
    chance = np.abs(_centred(shuffled) @ _centred(ranks))
    return float((np.sum(chance >= found - 1e-9) + 1) / (resamples + 1))


def _centred(values: Scores) -> Scores:
    return values - values.mean(axis=-1, keepdims=True)


def _ranks(values: Real[np.ndarray, " n"]) -> Real[np.ndarray, " n"]:
    """From 1; equal values share the mean of their ranks."""
    values = np.asarray(values, np.float64)
    lower = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return lower + (equal + 1) / 2
