"""Policies under a hard mask: plain functions on arrays [..., actions], True = valid.

An invalid action has the log-probability `INVALID` and its logit a gradient of exactly zero. A row
without any valid action stands for no mask at all: the policy falls back to the unmasked one.
That is meant for *predicted* masks, and to be counted (`falls_back`); in an oracle mask such a row
is an error.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

INVALID = -1e9
"""The log-probability of an invalid action: zero probability, and still a number."""


def falls_back(valid: Bool[Array, "... actions"]) -> Bool[Array, "..."]:
    """True where a mask has no valid action, so that the policy is the unmasked one."""
    return ~jnp.any(valid, axis=-1)


def fall_back(
    valid: Bool[Array, "... actions"], forbidden: Bool[Array, "... actions"]
) -> Bool[Array, "... actions"]:
    """The mask, and where it has no valid action all those that are not forbidden (all, when that
    would be none)."""
    rest = ~forbidden | falls_back(~forbidden)[..., None]
    return valid | (falls_back(valid)[..., None] & rest)


def masked_log_softmax(
    logits: Float[Array, "... actions"], valid: Bool[Array, "... actions"]
) -> Float[Array, "... actions"]:
    """log pi(a | s) of the softmax policy over the valid actions; `INVALID` for the others."""
    valid = valid | falls_back(valid)[..., None]
    # Invalid logits are replaced before they enter any arithmetic: a huge one must reach neither
    # the maximum nor, as inf or nan, the gradient.
    largest = jnp.max(jnp.where(valid, logits, -jnp.inf), axis=-1, keepdims=True)
    shifted = jnp.where(valid, logits - jax.lax.stop_gradient(largest), 0.0)
    total = jnp.sum(jnp.where(valid, jnp.exp(shifted), 0.0), axis=-1, keepdims=True)
    return jnp.where(valid, shifted - jnp.log(total), INVALID)


def sample(key: PRNGKeyArray, log_probs: Float[Array, "... actions"]) -> Int[Array, "..."]:
    """An action of the policy for each row; never an invalid one."""
    return jax.random.categorical(key, log_probs)


class Decision(NamedTuple):
    """An action for each row, its log-probability, those of all actions under the mask that was
    applied, that mask, and where it is a fallback because the mask asked for allows nothing."""

    action: Int[Array, "..."]
    log_prob: Float[Array, "..."]
    log_probs: Float[Array, "... actions"]
    mask: Bool[Array, "... actions"]
    fallback: Bool[Array, "..."]


def decide(
    key: PRNGKeyArray | None,
    logits: Float[Array, "... actions"],
    mask: Bool[Array, "... actions"],
    forbidden: Bool[Array, "... actions"] | None = None,
    *,
    greedy: bool = False,
) -> Decision:
    """Chooses under a mask; where the mask allows nothing, among all that is not `forbidden`.

    `greedy`: always the most probable action; then no key is needed.
    """
    fallback = falls_back(mask)
    mask = mask | fallback[..., None] if forbidden is None else fall_back(mask, forbidden)
    log_probs = masked_log_softmax(logits, mask)
    action = jnp.argmax(log_probs, axis=-1) if greedy or key is None else sample(key, log_probs)
    log_prob = jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]
    return Decision(action, log_prob, log_probs, mask, fallback)


def predicted_mask(
    validity_logits: Float[Array, "... actions"], threshold: float | Float[Array, "..."]
) -> Bool[Array, "... actions"]:
    """Valid where the predicted probability is above the threshold (one, or one per action)."""
    return jax.nn.sigmoid(validity_logits) > threshold


def entropy(log_probs: Float[Array, "... actions"]) -> Float[Array, "..."]:
    """H = - sum_a pi(a) log pi(a). Invalid actions add nothing, not even to the gradient."""
    possible = log_probs > INVALID
    safe = jnp.where(possible, log_probs, 0.0)
    return -jnp.sum(jnp.where(possible, jnp.exp(safe) * safe, 0.0), axis=-1)


def kl_divergence(
    log_p: Float[Array, "... actions"], log_q: Float[Array, "... actions"]
) -> Float[Array, "..."]:
    """KL(p || q). Where q forbids what p does, it is huge (about p * 1e9) instead of infinite."""
    possible = log_p > INVALID
    safe = jnp.where(possible, log_p, 0.0)
    return jnp.sum(jnp.where(possible, jnp.exp(safe) * (safe - log_q), 0.0), axis=-1)


def total_variation(
    log_p: Float[Array, "... actions"], log_q: Float[Array, "... actions"]
) -> Float[Array, "..."]:
    """The largest difference that two policies give to any set of actions, in [0, 1]."""
    return 0.5 * jnp.sum(jnp.abs(jnp.exp(log_p) - jnp.exp(log_q)), axis=-1)
