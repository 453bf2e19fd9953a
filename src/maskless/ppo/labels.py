"""What the classifier learns from: the oracle's mask, a part of it, a noisy one, or only whether
the actions that were tried had an effect."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from maskless.conditions import Condition
from maskless.ppo.rollout import Rollout


def with_labels(key: PRNGKeyArray, condition: Condition, rollout: Rollout) -> Rollout:
    """The rollout with the labels that this condition gives its classifier, and their weights;
    as it is, where all conditions learn from the oracle's whole mask."""
    if not any(map(condition.uses, ("tried", "label_noise", "labelled_share", "valid_weight"))):
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
    if condition.uses("valid_weight"):
        weights = weights * jnp.where(labels, condition.valid_weight, 1.0)
    return dataclasses.replace(rollout, labels=labels, label_weights=weights)
