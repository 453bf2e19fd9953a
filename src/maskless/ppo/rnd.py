"""Random network distillation: what the predictor cannot predict yet is new, and rewarded.

The intrinsic rewards have their own value head and discount, and do not end with an episode.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Float, PRNGKeyArray

from maskless.config import Hyperparameters
from maskless.envs.base import Observation
from maskless.nets.rnd import RandomNetworkDistillation
from maskless.ppo.rollout import Actor, Rollout

_NET = RandomNetworkDistillation()


@struct.dataclass
class Novelty:
    """The two networks (only the predictor changes) and the predictor's optimizer."""

    params: Any
    optimizer: Any


def init_params(key: PRNGKeyArray, observation: Observation) -> Any:
    """Parameters of both networks. `observation`: [time, envs, ...]"""
    return _NET.init(key, observation)


def begin(ppo: Hyperparameters, params: Any) -> Novelty:
    """Everything is new."""
    return Novelty(params, _optimizer(ppo).init(params))


def reward_novelty(
    ppo: Hyperparameters, novelty: Novelty, rollout: Rollout, actor: Actor, key: PRNGKeyArray
) -> tuple[Novelty, Float[Array, "time envs"]]:
    """The bonus of every step, for the state it led to, and the predictor after learning them."""
    arrived = jax.tree.map(
        lambda seen, now: jnp.concatenate([seen[1:], now[None]]),
        rollout.observation,
        actor.now.observation,
    )
    return _learn(ppo, novelty, arrived, key), _bonus(novelty.params, arrived)


def _bonus(params: Any, observation: Observation) -> Float[Array, "time envs"]:
    bonus: Any = _NET.apply(params, observation)
    return bonus


def _learn(
    ppo: Hyperparameters, novelty: Novelty, arrived: Observation, key: PRNGKeyArray
) -> Novelty:
    """One pass over the states of the rollout."""
    flat = jax.tree.map(lambda x: x.reshape(1, -1, *x.shape[2:]), arrived)
    count = jax.tree.leaves(flat)[0].shape[1]
    batches = ppo.minibatches if count % ppo.minibatches == 0 else 1
    optimizer = _optimizer(ppo)

    def loss(params: Any, some: Array) -> Float[Array, ""]:
        seen = jax.tree.map(lambda x: x[:, some], flat)
        return ppo.rnd_loss_weight * jnp.mean(_bonus(params, seen))

    def step(novelty: Novelty, some: Array) -> tuple[Novelty, None]:
        grads = jax.grad(loss)(novelty.params, some)
        changes, state = optimizer.update(grads, novelty.optimizer)
        return Novelty(optax.apply_updates(novelty.params, changes), state), None

    order = jax.random.permutation(key, count).reshape(batches, -1)
    return jax.lax.scan(step, novelty, order)[0]


def _optimizer(ppo: Hyperparameters) -> optax.GradientTransformation:
    return optax.chain(
        optax.clip_by_global_norm(ppo.max_gradient_norm),
        optax.adam(ppo.rnd_learning_rate, eps=ppo.adam_epsilon),
    )
