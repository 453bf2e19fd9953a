"""Thresholds for each action, chosen on episodes with an oracle and checked on fresh ones.

`conformal` bounds how often a valid action is masked. What it promises: draw an episode of the
policy under the oracle's mask in which the action is valid at least once, and one of the states in
which it is; the action is masked there with probability at most alpha. With confidence 1 - delta
in the calibration episodes this holds for all actions at once.

`policy` makes the predicted-masked policy as close to the oracle-masked one as it can, without a
promise.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from maskless import masking
from maskless.errors import MasklessError
from maskless.evaluation.player import Report, no_report
from maskless.evaluation.sampling import Episodes, EpisodeSampler, States
from maskless.policy.acting import as_array

Mode = Literal["policy", "conformal"]
Threshold = float | None
CHECKS = 3
"""How often as many episodes are played again: judged by the old and by the new thresholds, and as
deployed."""
MARGIN = 0.01
"""A state like the one that set a threshold must not be masked because another batch size or
device rounds its score differently. Lower is safe: less is masked."""
SWEEPS = 5
CANDIDATES = 24
"""Of the thresholds tried for an action, so many lie at quantiles of its scores where it is valid,
and as many where it is not."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """New thresholds, and what they do on episodes that did not choose them."""

    mode: Mode
    thresholds: tuple[Threshold, ...]
    """None: the action is never masked."""
    episodes: tuple[int, ...]
    """For each action, the calibration episodes in which it was valid."""
    guaranteed: tuple[bool, ...]
    """For which actions the bound holds."""
    before: Episodes
    """Fresh episodes under the oracle's masks, judged by the old thresholds."""
    after: Episodes
    """The same episodes, judged by the new ones."""
    deployed: Episodes
    """Fresh episodes of the policy under its own new predicted masks."""
    settings: dict[str, Any]

    @property
    def is_worse(self) -> bool:
        """Whether, on the fresh episodes, the new thresholds move the policy farther from the
        oracle-masked one than the old ones and, if they are to keep a bound, the old ones kept it
        already."""
        farther = self.after.policy_change() > self.before.policy_change()
        if self.mode == "conformal":
            masked = np.nan_to_num(self.before.masked_rate())
            return farther and bool((masked <= self.settings["alpha"]).all())
        return farther

    def to_json(self) -> dict[str, Any]:
        """For policy.json: what was chosen how, and what came out."""
        return {
            **self.settings,
            "mode": self.mode,
            "episodes_with_action_valid": list(self.episodes),
            "guaranteed": list(self.guaranteed),
            "fresh_masked_rate": [_number(rate) for rate in self.after.masked_rate()],
            "deployed_masked_rate": [_number(rate) for rate in self.deployed.masked_rate()],
            "policy_change": {
                name: getattr(self, name).policy_change()
                for name in ("before", "after", "deployed")
            },
        }


def calibrate(
    sampler: EpisodeSampler,
    *,
    mode: Mode = "conformal",
    episodes: int = 2048,
    alpha: float = 0.01,
    delta: float = 0.05,
    rare: Literal["allow", "keep"] = "keep",
    seed: int = 0,
    report: Report = no_report,
) -> Calibration:
    """Plays `episodes` episodes to choose thresholds, and as many again to check them.

    `rare`: an action that is valid in too few episodes for the bound keeps its threshold ("keep",
    without a bound) or is never masked ("allow", which keeps the bound).
    """
    check_settings(episodes, alpha, delta)
    old = sampler.policy.artifact.thresholds
    choose_key, check_key, deploy_key = jax.random.split(jax.random.key(seed), 3)

    def play(turn: int, key: PRNGKeyArray, **options: Any) -> Episodes:
        def report_turn(done: int, what: str) -> None:
            report(turn * episodes + done, what)

        return sampler.play(key, episodes, report=report_turn, **options)

    chosen_on = play(0, choose_key)
    counts = [int(n) for n in (chosen_on.valid > 0).sum(0)]
    settings: dict[str, Any] = {"episodes": episodes, "seed": seed}
    guaranteed = [False] * len(old)
    if mode == "conformal":
        settings |= {"alpha": alpha, "delta": delta, "rare": rare}
        # Each action gets its part of delta, so that all bounds hold at once.
        ranks = [tolerance_rank(n, alpha, delta / len(old)) for n in counts]
        guaranteed = [rank > 0 or rare == "allow" for rank in ranks]
        bounds = conformal_thresholds(np.asarray(chosen_on.score), ranks)
        thresholds = [t if g else o for t, g, o in zip(bounds, guaranteed, old, strict=True)]
    else:
        thresholds = closest_policy(chosen_on.states, old)
    new = as_array(thresholds)
    return Calibration(
        mode=mode,
        thresholds=tuple(thresholds),
        episodes=tuple(counts),
        guaranteed=tuple(guaranteed),
        before=play(1, check_key),
        after=play(2, check_key, thresholds=new),
        deployed=play(3, deploy_key, masks="predicted", thresholds=new),
        settings=settings,
    )


def check_settings(episodes: int, alpha: float, delta: float) -> None:
    """Refuses what no threshold can be chosen with."""
    if episodes < 1:
        raise MasklessError(f"episodes must be at least 1, not {episodes}.")
    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise MasklessError(f"{name} must be between 0 and 1, not {value}.")


def tolerance_rank(count: int, alpha: float, delta: float) -> int:
    """The largest k such that masking what scores below the k-th smallest of `count` independent
    scores masks at most a share alpha, with probability at least 1 - delta; 0 when even k = 1 does
    not.

    The share below the k-th smallest score exceeds alpha only when fewer than k of the scores lie
    in the lowest alpha of their distribution: with probability P(Binomial(count, alpha) < k).
    """
    below, rank = 0.0, 0
    while rank < count:
        below += math.exp(
            math.lgamma(count + 1)
            - math.lgamma(rank + 1)
            - math.lgamma(count - rank + 1)
            + rank * math.log(alpha)
            + (count - rank) * math.log1p(-alpha)
        )
        if below > delta:
            break
        rank += 1
    return rank


def episodes_needed(alpha: float, delta: float) -> int:
    """The fewest scores for which `tolerance_rank` is not 0."""
    return math.ceil(math.log(delta) / math.log1p(-alpha))


def conformal_thresholds(
    scores: Float[np.ndarray, "episodes actions"], ranks: list[int]
) -> list[Threshold]:
    """For each action a little below its score of this rank, so that this one is still allowed;
    None where the rank is 0. `scores`: one of each independent episode, nan where there is none."""
    thresholds: list[Threshold] = []
    for column, rank in zip(np.asarray(scores, np.float32).T, ranks, strict=True):
        known = np.sort(column[~np.isnan(column)])
        thresholds.append(_below(float(known[rank - 1])) if rank else None)
    return thresholds


def _below(score: float) -> Threshold:
    """The probability `MARGIN` below a score, in logits; None when there is nothing below."""
    score = min(score, 1.0 - 1e-7)  # float32 ends here
    odds = math.exp(-MARGIN) * score / (1.0 - score)
    return float(np.float32(odds / (1.0 + odds))) or None


def closest_policy(states: States, thresholds: tuple[Threshold, ...]) -> list[Threshold]:
    """Thresholds that bring the predicted-masked policy close to the oracle-masked one: action by
    action, until nothing improves. Never worse than `thresholds` on these states.

    One action at a time gets stuck where two must change together (a valid action is masked, and
    an invalid one allowed in its place), so a second search starts where each action by itself is
    classified best.
    """
    logits, validity, valid = (
        jnp.asarray(x).reshape(-1, x.shape[-1])
        for x in (states.logits, states.validity, states.valid)
    )
    scores = jax.nn.sigmoid(validity)
    oracle = masking.masked_log_softmax(logits, valid)
    mean_change = jax.jit(partial(_mean_change, logits, scores, oracle))
    columns = list(zip(np.asarray(scores).T, np.asarray(valid).T, strict=True))
    tried = [_candidates(*column) for column in columns]
    alone = [_best_alone(t, *column) for t, column in zip(tried, columns, strict=True)]
    starts = (as_array(thresholds), jnp.array(alone, jnp.float32))
    found = [_descend(mean_change, tried, start) for start in starts]
    _, chosen = min(found, key=lambda result: result[0])
    return [None if t < 0 else float(t) for t in np.asarray(chosen)]


def _descend(
    mean_change: Callable[[Array], Array],
    tried: list[Float[np.ndarray, " candidates"]],
    chosen: Float[Array, " actions"],
) -> tuple[float, Float[Array, " actions"]]:
    """The least change, and its thresholds, that changing one at a time leads to."""
    best = float(mean_change(chosen[None])[0])
    for _ in range(SWEEPS):
        start = best
        for action, candidates in enumerate(tried):
            rows = jnp.tile(chosen, (len(candidates), 1)).at[:, action].set(candidates)
            changes = np.asarray(mean_change(rows))
            # Rounding alone must not move a threshold.
            if changes.min() < best - 1e-7:
                best = float(changes.min())
                chosen = rows[int(changes.argmin())]
        if best == start:
            break
    return best, chosen


def _best_alone(
    tried: Float[np.ndarray, " candidates"],
    scores: Float[np.ndarray, " states"],
    valid: Bool[np.ndarray, " states"],
) -> float:
    """The threshold with the best balanced accuracy, so that rarely valid actions count as well."""
    predicted = scores > tried[:, None]
    allowed = (predicted & valid).sum(1) / max(1, valid.sum())
    masked = (~predicted & ~valid).sum(1) / max(1, (~valid).sum())
    return float(tried[np.argmax(allowed + masked)])


def _mean_change(
    logits: Float[Array, "states actions"],
    scores: Float[Array, "states actions"],
    oracle: Float[Array, "states actions"],
    thresholds: Float[Array, "rows actions"],
) -> Float[Array, " rows"]:
    """The mean total variation that each row of thresholds leaves."""

    def one(row: Float[Array, " actions"]) -> Float[Array, ""]:
        predicted = masking.masked_log_softmax(logits, scores > row)
        return jnp.mean(masking.total_variation(oracle, predicted))

    return jax.lax.map(one, thresholds)


def _candidates(
    scores: Float[np.ndarray, " states"], valid: Bool[np.ndarray, " states"]
) -> Float[np.ndarray, " candidates"]:
    """Thresholds worth a try, always equally many: never masked, and at quantiles, each in the
    middle between two scores so that rounding decides nothing."""
    levels = np.linspace(0.0, 1.0, CANDIDATES)
    different = np.unique(scores)
    middles = (different + np.append(different[1:], 1.0)) / 2
    parts = [np.full(1, -1.0)]
    for part in (scores[valid], scores[~valid]):
        quantiles = np.quantile(part if part.size else scores, levels, method="lower")
        parts.append(middles[np.searchsorted(different, quantiles)])
    return np.concatenate(parts).astype(np.float32)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
