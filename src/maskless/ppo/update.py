"""Learning from one rollout: epochs of minibatches, each a gradient step on PPO's loss and the
classifier's."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Float, Int, PRNGKeyArray

from maskless import losses, masking
from maskless.conditions import Condition, classification_loss, detach
from maskless.config import Hyperparameters
from maskless.nets import Network
from maskless.ppo.rollout import Rollout, apply
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

    def take(self, envs: Int[Array, " some"]) -> "Batch":
        """Some of the environments (or of the samples)."""
        carry = jax.tree.map(lambda x: x[envs], self.carry)
        rest = jax.tree.map(lambda x: x[:, envs], dataclasses.replace(self, carry=()))
        # Fetched once: XLA would fetch the masks anew in every pass that reads them.
        rollout = rest.rollout
        applied, valid = jax.lax.optimization_barrier((rollout.applied, rollout.valid))
        rollout = dataclasses.replace(rollout, applied=applied, valid=valid)
        return dataclasses.replace(rest, carry=carry, rollout=rollout)


def make_optimizer(ppo: Hyperparameters, updates: int) -> optax.GradientTransformation:
    """Adam behind a clipped gradient."""
    rate: Any = ppo.learning_rate
    if ppo.anneal:
        rate = optax.linear_schedule(rate, 0.0, updates * ppo.epochs * ppo.minibatches)
    return optax.chain(
        optax.clip_by_global_norm(ppo.max_gradient_norm),
        optax.adam(rate, eps=ppo.adam_epsilon),
    )


@jax.named_scope("learning")
def learn(
    net: Network,
    optimizer: optax.GradientTransformation,
    ppo: Hyperparameters,
    condition: Condition,
    params: Any,
    optimizer_state: Any,
    batch: Batch,
    key: PRNGKeyArray,
) -> tuple[Any, Any, Metrics]:
    """All epochs over one batch. The metrics are means over the gradient steps."""
    batch = batch if net.recurrent else batch.flat()
    gradient = jax.value_and_grad(loss, argnums=1, has_aux=True)

    def step(carry: tuple[Any, Any], envs: Array) -> tuple[tuple[Any, Any], Metrics]:
        params, optimizer_state = carry
        some = batch.take(share_members(envs))
        (_, terms), grads = gradient(net, params, some, condition, ppo)
        changes, optimizer_state = optimizer.update(grads, optimizer_state, params)
        terms["gradient_norm"] = optax.tree.norm(grads)
        return (optax.apply_updates(params, changes), optimizer_state), terms

    order = _shuffled(key, batch.advantages.shape[1], ppo)
    (params, optimizer_state), terms = jax.lax.scan(step, (params, optimizer_state), order)
    return params, optimizer_state, jax.tree.map(jnp.mean, terms)


def loss(
    net: Network,
    params: Any,
    batch: Batch,
    condition: Condition,
    ppo: Hyperparameters,
) -> tuple[Float[Array, ""], Metrics]:
    """The loss of a minibatch, and its parts."""
    seen = batch.rollout
    _, heads = apply(net, params, batch.carry, seen.observation, seen.reset)
    log_probs = masking.masked_log_softmax(heads.logits, seen.applied)
    log_prob = jnp.take_along_axis(log_probs, seen.action[..., None], axis=-1)[..., 0]
    advantages = batch.advantages
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    validity = detach(condition, heads.validity, heads.features, params)
    terms = {
        "policy_loss": losses.clipped_policy_loss(
            log_prob, seen.log_prob, advantages, clip=ppo.clip
        ),
        "value_loss": losses.clipped_value_loss(
            heads.value, seen.heads.value, batch.targets, clip=ppo.clip
        ),
        "entropy": jnp.mean(masking.entropy(log_probs)),
        "classification_loss": classification_loss(condition, validity, seen.valid, heads.logits),
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
            seen.heads.intrinsic_value,
            batch.intrinsic_targets,
            clip=ppo.clip,
        )
        total = total + ppo.value_weight * terms["intrinsic_value_loss"]
    ratio = log_prob - seen.log_prob
    terms["approx_kl"] = jnp.mean(jnp.expm1(ratio) - ratio)
    terms["clip_fraction"] = jnp.mean(jnp.abs(jnp.expm1(ratio)) > ppo.clip, dtype=jnp.float32)
    return total, terms


def _shuffled(key: PRNGKeyArray, count: int, ppo: Hyperparameters) -> Int[Array, "steps some"]:
    """The members of each minibatch of each epoch."""
    keys = jax.random.split(key, ppo.epochs)
    orders = jax.vmap(lambda key: jax.random.permutation(key, count))(keys)
    return orders.reshape(ppo.epochs * ppo.minibatches, -1)
