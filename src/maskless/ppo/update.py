"""Learning from one rollout: minibatches, the objective, and a gradient step on it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct, traverse_util
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import losses, masking
from maskless.conditions import Condition
from maskless.hyperparameters import Hyperparameters
from maskless.nets import AnyNetwork, Heads, apply
from maskless.ppo.acting import CLONE, log_policy
from maskless.ppo.rollout import Rollout
from maskless.ppo.sharding import share_members

Metrics = dict[str, Array]


@struct.dataclass
class Batch:
    """What is learned from. [time, envs, ...], or [1, samples, ...] without a memory."""

    rollout: Rollout
    carry: Any
    """The network's memory at the beginning of the rollout. [envs, ...]"""
    advantages: Float[Array, "time envs"]
    targets: Float[Array, "time envs"]
    intrinsic_targets: Float[Array, "time envs"]

    def flat(self) -> "Batch":
        """Every sample on its own: only for networks without a memory."""
        return jax.tree.map(lambda x: x.reshape(1, -1, *x.shape[2:]), self)

    def take(self, members: Int[Array, " some"]) -> "Batch":
        """Some of the environments (or of the samples)."""
        carry = jax.tree.map(lambda x: x[members], self.carry)
        rest = jax.tree.map(lambda x: x[:, members], dataclasses.replace(self, carry=()))
        # Fetched once: XLA would fetch the masks anew in every pass that reads them.
        rollout = rest.rollout
        applied, valid = jax.lax.optimization_barrier((rollout.applied, rollout.valid))
        rollout = dataclasses.replace(rollout, applied=applied, valid=valid)
        return dataclasses.replace(rest, carry=carry, rollout=rollout)


def minibatches(key: PRNGKeyArray, count: int, ppo: Hyperparameters) -> Int[Array, "steps members"]:
    """The members of each minibatch of each epoch, shuffled anew for every epoch."""
    keys = jax.random.split(key, ppo.epochs)
    orders = jax.vmap(lambda key: jax.random.permutation(key, count))(keys)
    return orders.reshape(ppo.epochs * ppo.minibatches, -1)


def adam(ppo: Hyperparameters, updates: int) -> optax.GradientTransformation:
    """Adam behind a clipped gradient; its learning rate falls to zero over the run, or stays."""
    rate: Any = ppo.learning_rate
    if ppo.anneal:
        rate = optax.linear_schedule(rate, 0.0, updates * ppo.epochs * ppo.minibatches)
    return optax.chain(
        optax.clip_by_global_norm(ppo.max_gradient_norm),
        optax.adam(rate, eps=ppo.adam_epsilon),
    )


def with_clone(
    optimizer: optax.GradientTransformation, of_clone: optax.GradientTransformation
) -> optax.GradientTransformation:
    """An optimiser of its own for the clone, so that its gradients take nothing from the policy's
    when these are clipped together."""

    def labels(params: Any) -> Any:
        return traverse_util.path_aware_map(
            lambda path, _: "clone" if "clone" in path else "policy", params
        )

    return optax.partition({"policy": optimizer, "clone": of_clone}, labels)


def without_clone(params: Any) -> Any:
    """The parameters that are not the clone's."""
    leaves = traverse_util.flatten_dict(params)
    return {path: leaf for path, leaf in leaves.items() if "clone" not in path}


def gradient_step(
    net: AnyNetwork,
    optimizer: optax.GradientTransformation,
    ppo: Hyperparameters,
    condition: Condition,
    batch: Batch,
    learned: tuple[Any, Any],
    members: Int[Array, " members"],
) -> tuple[tuple[Any, Any], Metrics]:
    """Parameters and optimiser state after one minibatch, and the parts of its objective."""
    params, optimizer_state = learned
    gradient = jax.value_and_grad(objective, has_aux=True)
    minibatch = batch.take(share_members(members))
    (_, terms), grads = gradient(params, net, minibatch, condition, ppo)
    changes, optimizer_state = optimizer.update(grads, optimizer_state, params)
    of_policy = without_clone(grads) if getattr(net, "cloned", False) else grads
    terms["gradient_norm"] = optax.tree.norm(of_policy)
    return (optax.apply_updates(params, changes), optimizer_state), terms


def objective(
    params: Any, net: AnyNetwork, batch: Batch, condition: Condition, ppo: Hyperparameters
) -> tuple[Float[Array, ""], Metrics]:
    """What is minimised on a minibatch, and its parts:

    L = L_policy + c_V (L_value + L_intrinsic) - c_H H + lambda L_cls + L_rivals

    with PPO's clipped losses, the entropy H of the policy that acts, the classification loss of
    the condition (Eq. 10 or 13), and what `rival_losses` adds.
    """
    rollout = batch.rollout
    _, heads = apply(net, params, batch.carry, rollout.observation, rollout.reset)
    mask, old_log_prob = policy_of_ratio(condition, rollout)
    log_probs = log_policy(condition, heads.logits, mask)
    log_prob = jnp.take_along_axis(log_probs, rollout.action[..., None], axis=-1)[..., 0]
    where = None if not condition.uses("clone_share") else rollout.by != CLONE
    advantages = normalised_advantages(condition, batch, where)
    labels = rollout.valid if rollout.labels is None else rollout.labels
    terms = {
        "policy_loss": losses.clipped_policy_loss(
            log_prob, old_log_prob, advantages, clip=ppo.clip, where=where
        ),
        "value_loss": losses.clipped_value_loss(
            heads.value, rollout.heads.value, batch.targets, clip=ppo.clip, where=where
        ),
        "entropy": losses.mean(masking.entropy(log_probs), where),
        "classification_loss": classification_loss(
            condition,
            validity_logits(condition, heads, params),
            labels,
            heads.logits,
            rollout.label_weights,
        ),
    }
    total = (
        terms["policy_loss"]
        + ppo.value_weight * terms["value_loss"]
        - condition.entropy_factor * ppo.entropy * terms["entropy"]
        + condition.strength * terms["classification_loss"]
    )
    if ppo.rnd:
        terms["intrinsic_value_loss"] = losses.clipped_value_loss(
            heads.intrinsic_value,
            rollout.heads.intrinsic_value,
            batch.intrinsic_targets,
            clip=ppo.clip,
            where=where,
        )
        total = total + ppo.value_weight * terms["intrinsic_value_loss"]
    for name, (weight, loss) in rival_losses(condition, heads, rollout).items():
        terms[name] = loss
        total = total + weight * loss
    log_ratio = log_prob - old_log_prob
    terms["approx_kl"] = losses.mean(jnp.expm1(log_ratio) - log_ratio, where)
    clipped = jnp.abs(jnp.expm1(log_ratio)) > ppo.clip
    terms["clip_fraction"] = losses.mean(clipped.astype(jnp.float32), where)
    return total, terms


def policy_of_ratio(
    condition: Condition, rollout: Rollout
) -> tuple[Bool[Array, "..."], Float[Array, "..."]]:
    """The mask of the policy in the numerator of PPO's ratio, and the logarithm of the
    denominator: both of the policy that acted, unless the condition says otherwise."""
    mask, old = rollout.applied, rollout.log_prob
    if condition.uses("unmasked_ratio"):
        raw = jax.nn.log_softmax(rollout.heads.logits)
        raw = jnp.take_along_axis(raw, rollout.action[..., None], axis=-1)[..., 0]
        of_raw = jnp.logical_and(
            condition.unmasked_ratio, jnp.logical_not(condition.get("importance"))
        )
        old = jnp.where(of_raw, raw, old)
        mask = mask | condition.unmasked_ratio
    return mask, old


def normalised_advantages(
    condition: Condition, batch: Batch, where: Bool[Array, "..."] | None
) -> Float[Array, "..."]:
    """Mean 0 and deviation 1 over the steps that count; zero, which is no gradient, where the
    choice was not the policy's or is to be ignored."""
    rollout, advantages = batch.rollout, batch.advantages
    if where is None:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    else:
        advantages = advantages - losses.mean(advantages, where)
        deviation = jnp.sqrt(losses.mean(jnp.square(advantages), where))
        advantages = advantages / (deviation + 1e-8)
    if condition.uses("silent"):
        labels = rollout.valid if rollout.labels is None else rollout.labels
        works = jnp.take_along_axis(labels, rollout.action[..., None], axis=-1)[..., 0]
        advantages = jnp.where(condition.silent & ~works, 0.0, advantages)
    if rollout.excused is not None:
        advantages = jnp.where(rollout.excused, 0.0, advantages)
    return advantages


def rival_losses(
    condition: Condition, heads: Heads, rollout: Rollout
) -> dict[str, tuple[Any, Float[Array, ""]]]:
    """The losses of the policy, and of the clone, that some condition of the program has:
    {name: (weight, loss)}."""
    logits, valid = heads.logits, rollout.valid
    chosen: dict[str, tuple[Any, Float[Array, ""]]] = {}
    if condition.uses("distil"):
        below = condition.get("distil_below")
        loss = losses.masked_distillation_loss(logits, valid, below=below)
        chosen["distillation_loss"] = (condition.distil, loss)
    if condition.uses("invalid_mass"):
        loss = losses.invalid_mass_loss(logits, valid)
        chosen["invalid_mass"] = (condition.invalid_mass, loss)
    if condition.uses("clone"):
        loss = losses.cloning_loss(heads.clone, logits, valid)
        chosen["clone_loss"] = (condition.clone, loss)
    return chosen


def classification_loss(
    condition: Condition,
    validity_logits: Float[Array, "... actions"],
    valid: Array,
    policy_logits: Float[Array, "... actions"],
    label_weights: Array | None = None,
) -> Float[Array, ""]:
    """L_cls of the condition, before its weight lambda. `valid`: the labels."""
    focal = losses.focal_loss(
        validity_logits, valid, gamma=condition.gamma, label_weights=label_weights
    )
    balanced = losses.kl_balanced_loss(
        validity_logits,
        valid,
        policy_logits,
        gamma=condition.gamma,
        threshold=condition.threshold,
        uniform_fallback=condition.uniform_fallback,
        literal=condition.literal,
        acting=condition.acting,
        label_weights=label_weights,
    )
    loss = condition.kl_share * balanced + (1.0 - condition.kl_share) * focal
    if condition.uses("squared"):
        squared = losses.squared_validity_loss(validity_logits, valid, label_weights=label_weights)
        loss = jnp.where(condition.squared, squared, loss)
    return loss


def validity_logits(condition: Condition, heads: Heads, params: Any) -> Float[Array, "... actions"]:
    """The network's validity logits; in a detached condition their gradient ends at the features.

    That needs the validity head by itself: the one layer of that name in `params`. A network
    without such a layer cannot be detached (`training.request` refuses it).
    """
    leaves = traverse_util.flatten_dict(params)
    head = {path[-1]: leaf for path, leaf in leaves.items() if path[-2:-1] == ("validity",)}
    if not head:
        return heads.validity
    alone = jax.lax.stop_gradient(heads.features) @ head["kernel"] + head["bias"]
    # The forward value is always the network's own.
    alone = alone + jax.lax.stop_gradient(heads.validity - alone)
    return jnp.where(condition.detached, alone, heads.validity)
