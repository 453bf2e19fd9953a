"""Learning from one rollout: minibatches, the objective, and a gradient step on it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct, traverse_util
from jaxtyping import Array, Float, Int, PRNGKeyArray

from maskless import losses, masking
from maskless.conditions import Condition
from maskless.hyperparameters import Hyperparameters
from maskless.nets import AnyNetwork, Heads, apply
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
    terms["gradient_norm"] = optax.tree.norm(grads)
    return (optax.apply_updates(params, changes), optimizer_state), terms


def objective(
    params: Any, net: AnyNetwork, batch: Batch, condition: Condition, ppo: Hyperparameters
) -> tuple[Float[Array, ""], Metrics]:
    """What is minimised on a minibatch, and its parts:

    L = L_policy + c_V (L_value + L_intrinsic) - c_H H + lambda L_cls

    with PPO's clipped losses, the entropy H of the policy that acts, and the classification loss
    of the condition (Eq. 10 or 13).
    """
    rollout = batch.rollout
    _, heads = apply(net, params, batch.carry, rollout.observation, rollout.reset)
    log_probs = masking.masked_log_softmax(heads.logits, rollout.applied)
    log_prob = jnp.take_along_axis(log_probs, rollout.action[..., None], axis=-1)[..., 0]
    advantages = batch.advantages
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    terms = {
        "policy_loss": losses.clipped_policy_loss(
            log_prob, rollout.log_prob, advantages, clip=ppo.clip
        ),
        "value_loss": losses.clipped_value_loss(
            heads.value, rollout.heads.value, batch.targets, clip=ppo.clip
        ),
        "entropy": jnp.mean(masking.entropy(log_probs)),
        "classification_loss": classification_loss(
            condition, validity_logits(condition, heads, params), rollout.valid, heads.logits
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
        )
        total = total + ppo.value_weight * terms["intrinsic_value_loss"]
    log_ratio = log_prob - rollout.log_prob
    terms["approx_kl"] = jnp.mean(jnp.expm1(log_ratio) - log_ratio)
    terms["clip_fraction"] = jnp.mean(jnp.abs(jnp.expm1(log_ratio)) > ppo.clip, dtype=jnp.float32)
    return total, terms


def classification_loss(
    condition: Condition,
    validity_logits: Float[Array, "... actions"],
    valid: Array,
    policy_logits: Float[Array, "... actions"],
) -> Float[Array, ""]:
    """L_cls of the condition, before its weight lambda."""
    focal = losses.focal_loss(validity_logits, valid, gamma=condition.gamma)
    balanced = losses.kl_balanced_loss(
        validity_logits,
        valid,
        policy_logits,
        gamma=condition.gamma,
        threshold=condition.threshold,
        uniform_fallback=condition.uniform_fallback,
        literal=condition.literal,
        acting=condition.acting,
    )
    return condition.kl_share * balanced + (1.0 - condition.kl_share) * focal


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
