"""A memory of failures: an action that has left the observation as it was is not tried again until
the observation changes.

Where a predicted mask wrongly allows an action that does nothing, the observation stays, hence the
mask, hence the action: a policy without this memory repeats it until time runs out.

    failures = failures.count(failures, action, unchanged(before, after) & ~done)
    mask, excluded, fallback = restrict(predicted, ~forbidden, validity_logits, failures)

`failures` is int32[batch, actions]: how often each action was tried in vain since the observation
last changed. Once all have been tried, those tried least often are left: all begin again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from maskless import masking
from maskless.artifact.clocks import check_clocks, clock_entries
from maskless.artifact.fields import WHOLE


class Restricted(NamedTuple):
    """A mask without what has failed. [..., actions]; `fallback` [...]."""

    mask: Bool[Array, "... actions"]
    """Never empty."""
    excluded: Bool[Array, "... actions"]
    fallback: Bool[Array, "..."]
    """True where nothing of the mask was left."""


def none_yet(batch: int, num_actions: int) -> Int[Array, "batch actions"]:
    """Nothing has been tried."""
    return jnp.zeros((batch, num_actions), jnp.int32)


def unchanged(
    before: PyTree[Array], after: PyTree[Array], clock_fields: Sequence[str] = ()
) -> Bool[Array, " batch"]:
    """Where two observations are the same, apart from what changes by itself.

    `before`, `after`: leaves [batch, ...]. `clock_fields`: names of fields, or of single entries
    of them: `("time", "bottom_line[20]")`.
    """
    same = None
    for (name, old), new in zip(_by_name(before), jax.tree.leaves(after), strict=True):
        equal = old == new
        ignored = clock_entries(clock_fields, name, np.shape(old)[1:])
        if ignored.any():
            equal = equal | ignored
        here = jnp.all(equal.reshape(equal.shape[0], -1), axis=-1)
        same = here if same is None else same & here
    assert same is not None, "an observation has at least one array"
    return same


def count(
    failures: Int[Array, "batch actions"],
    action: Int[Array, " batch"],
    unchanged: Bool[Array, " batch"],
) -> Int[Array, "batch actions"]:
    """The failures after an action: one more where it changed nothing, otherwise none.

    `unchanged`: whether what is seen now is what was seen before, and of the same episode.
    """
    tried = jax.nn.one_hot(action, failures.shape[-1], dtype=failures.dtype)
    return jnp.where(unchanged[:, None], failures + tried, 0)


def exclude(
    failures: Int[Array, "... actions"], candidates: Bool[Array, "... actions"]
) -> Bool[Array, "... actions"]:
    """What has been tried more often than something else that may be chosen. At least one of the
    `candidates` is never excluded; where there are none, all are."""
    candidates = candidates | masking.falls_back(candidates)[..., None]
    least = jnp.min(jnp.where(candidates, failures, jnp.iinfo(failures.dtype).max), axis=-1)
    return failures > least[..., None]


def restrict(
    mask: Bool[Array, "... actions"],
    candidates: Bool[Array, "... actions"],
    validity_logits: Float[Array, "... actions"],
    failures: Int[Array, "... actions"],
) -> Restricted:
    """The mask without what has failed. Where nothing is left, the candidate with the highest
    predicted validity among those that have not failed.

    `candidates`: what may be chosen at all: what no rule forbids.
    """
    excluded = exclude(failures, candidates)
    left = (candidates | masking.falls_back(candidates)[..., None]) & ~excluded
    restricted = mask & ~excluded
    fallback = masking.falls_back(restricted)
    best = jnp.argmax(jnp.where(left, validity_logits, -jnp.inf), axis=-1)
    # The comparison, and not one_hot: ONNX Runtime knows no boolean one.
    is_best = best[..., None] == jnp.arange(mask.shape[-1])
    return Restricted(restricted | (fallback[..., None] & is_best), excluded, fallback)


@struct.dataclass
class Memory:
    """What is remembered between two steps where nobody sees both observations at once."""

    observation: PyTree[Array]
    """Of the step before. [batch, ...]"""
    action: Int[Array, " batch"]
    """Of the step before; -1: there was none."""
    failures: Int[Array, "batch actions"]

    @staticmethod
    def start(observation: PyTree[Array], batch: int, num_actions: int) -> "Memory":
        """Nothing was done yet. `observation`: any of the right shape."""
        return Memory(observation, jnp.full(batch, -1, jnp.int32), none_yet(batch, num_actions))

    def look(
        self,
        observation: PyTree[Array],
        reset: Bool[Array, " batch"],
        clock_fields: Sequence[str] = (),
    ) -> Int[Array, "batch actions"]:
        """The failures, now that the outcome of the last action is seen. `reset`: where it is seen
        in a new episode."""
        same = unchanged(self.observation, observation, clock_fields)
        return count(self.failures, self.action, same & (self.action >= 0) & ~reset)


def check_clock_fields(clock_fields: Sequence[str], observation: PyTree[Any]) -> None:
    """Refuses names of fields, or entries of them, that an observation does not have.

    `observation`: one without batch axis, or the shapes of one.
    """
    check_clocks(clock_fields, dict(_by_name(observation)))


def _by_name(observation: PyTree[Any]) -> list[tuple[str, Any]]:
    """(name, array) of every field, in the order of the leaves."""
    keystr = jax.tree_util.keystr
    return [
        (keystr(path, simple=True, separator=".") or WHOLE, leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(observation)
    ]
