"""From a prediction to a choice under a mask: `maskless.masking` and `maskless.failures` in NumPy.

Arrays are [batch, actions], True = valid.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

NEVER = np.float32(-np.inf)


class Memory(NamedTuple):
    """What is remembered of the step before."""

    leaves: list[np.ndarray]
    """The observation, a copy: environments write the next one into the same array."""
    action: np.ndarray
    """-1: there was none, so that nothing failed."""
    failures: np.ndarray
    """How often each action was tried in vain since the observation last changed."""

    def look(
        self,
        leaves: Sequence[np.ndarray],
        reset: np.ndarray | None,
        clocks: Sequence[np.ndarray | None],
    ) -> np.ndarray:
        """The failures, now that the outcome of the last action is seen. `clocks`: the entries of
        each field that change by themselves."""
        same: Any = True if reset is None else ~reset
        for old, new, clock in zip(self.leaves, leaves, clocks, strict=True):
            equal = old == new if clock is None else (old == new) | clock
            same = np.logical_and.reduce(equal.reshape(len(equal), -1), axis=-1) & same
        if not np.count_nonzero(same):  # as a rule
            return np.zeros_like(self.failures)
        last = self.action[:, None] == np.arange(self.failures.shape[1])
        tried: np.ndarray = (self.failures + last) * same[:, None]
        return tried


class Restricted(NamedTuple):
    """A mask without what has failed; never empty."""

    mask: np.ndarray
    excluded: np.ndarray
    fallback: np.ndarray
    """[batch] True where nothing of the mask was left."""


def restrict(
    mask: np.ndarray, candidates: np.ndarray, validity_logits: np.ndarray, tried: np.ndarray
) -> Restricted:
    """The mask without what was tried more often than something else that may be chosen. Where
    nothing is left, the candidate with the highest predicted validity among the others."""
    excluded = np.zeros_like(mask)
    if np.count_nonzero(tried):  # faster than any()
        least = np.where(fill(candidates), tried, np.iinfo(tried.dtype).max).min(-1)
        excluded = tried > least[:, None]
        mask = mask & ~excluded
    fallback = falls_back(mask)
    if np.count_nonzero(fallback):
        left = np.where(fill(candidates) & ~excluded, validity_logits, NEVER)
        is_best = left.argmax(-1)[:, None] == np.arange(mask.shape[-1])
        mask = mask | (fallback[:, None] & is_best)
    return Restricted(mask, excluded, fallback)


def falls_back(valid: np.ndarray) -> np.ndarray:
    """True where a mask has no valid action."""
    some: np.ndarray = np.logical_or.reduce(valid, axis=-1)
    return ~some


def fill(valid: np.ndarray) -> np.ndarray:
    """The mask, and all actions where it has none."""
    return valid | falls_back(valid)[..., None]


def choose(logits: np.ndarray, mask: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """An action of the softmax policy over the valid ones; without dice, the most probable one."""
    scores = np.where(mask, logits, NEVER)
    if rng is not None:
        scores += rng.gumbel(size=scores.shape)
    action: np.ndarray = scores.argmax(-1)
    return action


def softmax(logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The probabilities over the valid actions; 0 for the others."""
    shifted = np.where(mask, logits, NEVER)
    weights = np.exp(shifted - shifted.max(-1, keepdims=True))
    shares: np.ndarray = weights / weights.sum(-1, keepdims=True)
    return shares


@dataclasses.dataclass
class Info:
    """Why the policy chose what it chose. [batch, ...]; without that axis for one observation. As
    `maskless.policy.Info`."""

    validity: np.ndarray
    """The predicted probability that each action is valid; also where another mask was applied."""
    mask: np.ndarray
    """The mask that was applied. True = valid."""
    fallback: np.ndarray
    """True where nothing was left of the predicted mask."""
    excluded: np.ndarray
    """What was left out because it has just failed."""
    overridden: np.ndarray
    """Where overrides changed the predicted mask; by the clone, where they forbid an action."""
    changed: list[np.ndarray]
    """For each override: where it changed the mask that those before it left."""
    logits: np.ndarray
    """Of the policy, or of the clone, before the mask."""

    @functools.cached_property
    def probabilities(self) -> np.ndarray:
        """Of the actions, under the mask that was applied. Computed when asked for."""
        return softmax(self.logits, self.mask)

    def first(self) -> "Info":
        """Of the first observation, without the batch axis."""
        return Info(
            self.validity[0],
            self.mask[0],
            self.fallback[0],
            self.excluded[0],
            self.overridden[0],
            [where[0] for where in self.changed],
            self.logits[0],
        )
