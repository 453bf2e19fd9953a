"""What the classifier learns from: the oracle's mask, a part of it, a noisy one, or only whether
the actions that were tried had an effect."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from maskless.conditions import Condition
from maskless.ppo.rollout import Rollout

OWN_LABELS = (
    *("tried", "label_noise", "labelled_share", "labelled_states", "labelled_actions"),
    *("valid_weight", "balance"),
)
"""The numbers of a condition that give its classifier other labels than the oracle's mask, or weigh
them otherwise."""
RAREST = 1e-3
"""Labels that are rarer in a rollout are balanced as if they were not."""


def with_labels(key: PRNGKeyArray, condition: Condition, rollout: Rollout) -> Rollout:
    """The rollout with the labels that this condition gives its classifier, and their weights;
    as it is, where all conditions learn from the oracle's whole mask."""
    if not any(map(condition.uses, OWN_LABELS)):
        return rollout
    labels, weights = rollout.valid, jnp.ones(rollout.valid.shape, jnp.float32)
    if condition.uses("tried"):
        chosen = jax.nn.one_hot(rollout.action, labels.shape[-1])
        labels = jnp.where(condition.tried, rollout.effect[..., None], labels)
        weights = jnp.where(condition.tried, chosen, weights)
    noise_key, share_key = jax.random.split(key)
    if condition.uses("label_noise"):
        labels = labels ^ (jax.random.uniform(noise_key, labels.shape) < condition.label_noise)
    if condition.uses("labelled_share"):
        weights = weights * (jax.random.uniform(share_key, labels.shape) < condition.labelled_share)
    if condition.uses("labelled_states"):
        states = jax.random.uniform(jax.random.fold_in(key, 2), (*labels.shape[:-1], 1))
        weights = weights * (states < condition.labelled_states)
    if condition.uses("labelled_actions"):
        labels = labels | ~_known_actions(labels.shape[-1], condition.labelled_actions)
    if condition.uses("valid_weight"):
        weights = weights * jnp.where(labels, condition.valid_weight, 1.0)
    if condition.uses("balance"):
        even = _even_weights(labels, weights)
        weights = weights * (1.0 + condition.balance * (even - 1.0))
    return dataclasses.replace(rollout, labels=labels, label_weights=weights)


def _even_weights(
    labels: Bool[Array, "*batch actions"], weights: Float[Array, "*batch actions"]
) -> Float[Array, "*batch actions"]:
    """Factors under which, of each action, both kinds of labels together weigh the same."""
    axes = tuple(range(labels.ndim - 1))
    share = jnp.sum(weights * labels, axis=axes) / jnp.maximum(jnp.sum(weights, axis=axes), 1e-8)
    of_label = jnp.where(labels, share, 1.0 - share)
    return 0.5 / jnp.maximum(of_label, RAREST)


def _known_actions(actions: int, share: float | Float[Array, ""]) -> Bool[Array, " actions"]:
    """The same for every run, so that conditions can be compared; with a larger share, more."""
    place = jax.random.permutation(jax.random.key(actions), actions)
    return place < jnp.round(share * actions)
