"""Random network distillation: what the predictor cannot predict yet is new, and rewarded.

The intrinsic rewards have their own value head and discount, and do not end with an episode.
They are measured in units of their spread over all updates so far: the raw errors have no natural
size, and normalised by the all-time standard deviation the bonus decays as states become familiar.
(Normalised by a recent one it never would: the agent would chase whatever is left of the error.)

Their mean is subtracted, which without ends is the same for every policy, and they are multiplied
by 1 - discount, so that a value is the average of what is ahead, about 1 in size. As sums the
values were in the hundreds, and their squared errors used up the clipped gradient (norm 46 of 1
allowed, measured).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Float, Int, PRNGKeyArray

from maskless.hyperparameters import Hyperparameters
from maskless.nets.rnd import RandomNetworkDistillation
from maskless.ppo.rollout import Actor, Rollout
from maskless.ppo.sharding import share_members


@struct.dataclass
class Novelty:
    """The two networks (only the predictor changes) and the predictor's optimizer."""

    params: Any
    optimizer: Any
    spread: Float[Array, ""]
    """The bonus's standard deviation in a rollout, averaged over all rollouts so far."""
    rollouts: Int[Array, ""]


def init(
    ppo: Hyperparameters, net: RandomNetworkDistillation, key: PRNGKeyArray, observation: Any
) -> Novelty:
    """Everything is new. `observation`: [time, envs, ...]"""
    params = net.init(key, observation)
    return Novelty(params, _optimizer(ppo).init(params), jnp.float32(0.0), jnp.int32(0))


@jax.named_scope("novelty")
def reward_novelty(
    ppo: Hyperparameters,
    net: RandomNetworkDistillation,
    novelty: Novelty,
    rollout: Rollout,
    actor: Actor,
    key: PRNGKeyArray,
) -> tuple[Novelty, Float[Array, "time envs"]]:
    """The bonus of every step, for the state it led to, and the predictor after learning them."""
    arrived = jax.tree.map(
        lambda before, last: jnp.concatenate([before[1:], last[None]]),
        rollout.observation,
        actor.now.observation,
    )
    bonus = _bonus(net, novelty.params, arrived)
    rollouts = novelty.rollouts + 1
    spread = novelty.spread + (jnp.std(bonus) - novelty.spread) / rollouts
    novelty = dataclasses.replace(novelty, spread=spread, rollouts=rollouts)
    reward = (1.0 - ppo.rnd_discount) * (bonus - jnp.mean(bonus)) / jnp.maximum(spread, 1e-8)
    return _learn(ppo, net, novelty, arrived, key), reward


def _bonus(
    net: RandomNetworkDistillation, params: Any, observation: Any
) -> Float[Array, "time envs"]:
    bonus: Any = net.apply(params, observation)
    return bonus


def _learn(
    ppo: Hyperparameters,
    net: RandomNetworkDistillation,
    novelty: Novelty,
    arrived: Any,
    key: PRNGKeyArray,
) -> Novelty:
    """One pass over the states of the rollout."""
    flat = jax.tree.map(lambda x: x.reshape(1, -1, *x.shape[2:]), arrived)
    count = jax.tree.leaves(flat)[0].shape[1]
    batches = ppo.minibatches if count % ppo.minibatches == 0 else 1
    optimizer = _optimizer(ppo)

    def loss(params: Any, members: Array) -> Float[Array, ""]:
        states = jax.tree.map(lambda x: x[:, share_members(members)], flat)
        return ppo.rnd_loss_weight * jnp.mean(_bonus(net, params, states))

    def step(novelty: Novelty, members: Array) -> tuple[Novelty, None]:
        grads = jax.grad(loss)(novelty.params, members)
        changes, state = optimizer.update(grads, novelty.optimizer)
        params = optax.apply_updates(novelty.params, changes)
        return dataclasses.replace(novelty, params=params, optimizer=state), None

    order = jax.random.permutation(key, count).reshape(batches, -1)
    return jax.lax.scan(step, novelty, order)[0]


def _optimizer(ppo: Hyperparameters) -> optax.GradientTransformation:
    return optax.chain(
        optax.clip_by_global_norm(ppo.max_gradient_norm),
        # The errors are small and their loss is scaled down: PPO's epsilon of 1e-5 would be larger
        # than the gradients, and the predictor would hardly learn.
        optax.adam(ppo.rnd_learning_rate, eps=1e-12),
    )
