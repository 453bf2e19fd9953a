"""Acting: one rollout of every environment under the mask that the condition applies."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import masking
from maskless.conditions import Condition
from maskless.envs.base import Observation
from maskless.envs.vector import Episodes, First, Step, VectorEnv, VectorState
from maskless.nets import AnyNetwork, Heads, apply


@struct.dataclass
class Actor:
    """Where acting stands between two steps."""

    worlds: VectorState
    carry: Any
    """The network's memory, before it reads `now`."""
    now: First
    """The observation, and the oracle's mask of the same state."""
    reset: Bool[Array, " envs"]
    """True where an episode has just begun."""


@struct.dataclass
class Rollout:
    """Observations, actions and rewards. All [time, envs, ...]."""

    observation: Observation
    """As `Environment.record` gives it."""
    valid: Bool[Array, "time envs actions"]
    """The oracle's mask: the classifier's labels."""
    applied: Bool[Array, "time envs actions"]
    """The mask the agent acted under; PPO uses this one."""
    reset: Bool[Array, "time envs"]
    action: Int[Array, "time envs"]
    log_prob: Float[Array, "time envs"]
    reward: Float[Array, "time envs"]
    """Including what a truncated episode was still worth, where that is asked for."""
    done: Bool[Array, "time envs"]
    heads: Heads
    """The network's outputs while acting."""
    episodes: Episodes
    """Where `done`: the numbers of the finished episode."""


def start(venv: VectorEnv, net: AnyNetwork, key: PRNGKeyArray) -> Actor:
    """Every environment at the start of its first episode."""
    worlds, first = venv.reset(key)
    return Actor(
        worlds=worlds,
        carry=net.initial_carry(venv.num_envs),
        now=first,
        reset=jnp.ones(venv.num_envs, bool),
    )


def collect(
    venv: VectorEnv,
    net: AnyNetwork,
    params: Any,
    condition: Condition,
    actor: Actor,
    key: PRNGKeyArray,
    *,
    steps: int,
    truncation_discount: float | Float[Array, ""] | None = None,
) -> tuple[Actor, Rollout]:
    """Acts for `steps` steps. `truncation_discount`: when given, the discounted value of what
    follows is added to the last reward of an episode that ran out of time."""
    network = partial(apply_step, net, params)

    def step(actor: Actor, key: PRNGKeyArray) -> tuple[Actor, Rollout]:
        act_key, world_key = jax.random.split(key)
        carry, heads = network(actor.carry, actor.now.observation, actor.reset)
        decision = act(act_key, condition, actor.now.mask, heads)
        worlds, out = venv.step(world_key, actor.worlds, decision.action)
        reward = out.reward
        if truncation_discount is not None:
            no_reset = jnp.zeros_like(out.done)
            _, after = network(carry, out.final_observation, no_reset)
            reward = reward + truncation_discount * out.truncated * after.value
        return after_step(actor, carry, heads, decision, worlds, out, reward)

    return jax.lax.scan(step, actor, jax.random.split(key, steps))


def after_step(
    actor: Actor,
    carry: Any,
    heads: Heads,
    decision: masking.Decision,
    worlds: Any,
    out: Step,
    reward: Any,
) -> tuple[Actor, Rollout]:
    """Where acting stands after a step, and the transition. [envs, ...]"""
    transition = Rollout(
        observation=actor.now.observation,
        valid=actor.now.mask,
        applied=decision.mask,
        reset=actor.reset,
        action=decision.action,
        log_prob=decision.log_prob,
        reward=reward,
        done=out.done,
        heads=heads,
        episodes=out.episodes,
    )
    return Actor(worlds, carry, First(out.observation, out.mask), reset=out.done), transition


@jax.named_scope("network")
def apply_step(
    net: AnyNetwork,
    params: Any,
    carry: Any,
    observation: Observation,
    reset: Bool[Array, " envs"],
) -> tuple[Any, Heads]:
    """One step of the network for every environment: [envs, ...] in, [envs, ...] out."""
    sequence = jax.tree.map(lambda x: x[None], (observation, reset))
    carry, heads = apply(net, params, carry, *sequence)
    return carry, jax.tree.map(lambda x: x[0], heads)


def act(
    key: PRNGKeyArray, condition: Condition, valid: Bool[Array, "envs actions"], heads: Heads
) -> masking.Decision:
    """Every environment's action while training: under the oracle's mask, under the predicted one
    in the condition's share of the environments (the first ones), or under none."""
    oracle_or_none = valid | jnp.logical_not(condition.masked)
    predicts = jnp.arange(valid.shape[0]) < condition.predicted_share * valid.shape[0]
    predicted = masking.predicted_mask(heads.validity, condition.threshold)
    mask = jnp.where(predicts[:, None], predicted, oracle_or_none)
    return masking.decide(key, heads.logits, mask)
