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
from maskless.envs.vector import Episodes, First, VectorEnv, VectorState
from maskless.nets import Heads, Network


@struct.dataclass
class Actor:
    """Where acting stands between two steps."""

    worlds: VectorState
    carry: Any
    """The network's memory, before it sees `now`."""
    now: First
    """What is seen now, and the oracle's mask of the same state."""
    reset: Bool[Array, " envs"]
    """True where an episode has just begun."""


@struct.dataclass
class Rollout:
    """What was seen, done and earned. All [time, envs, ...]."""

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


def start(venv: VectorEnv, net: Network, key: PRNGKeyArray) -> Actor:
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
    net: Network,
    params: Any,
    condition: Condition,
    actor: Actor,
    key: PRNGKeyArray,
    *,
    steps: int,
    truncation_discount: float | None = None,
) -> tuple[Actor, Rollout]:
    """Acts for `steps` steps. `truncation_discount`: when given, the discounted value of what
    follows is added to the last reward of an episode that ran out of time."""
    see = partial(look, net, params)

    def step(actor: Actor, key: PRNGKeyArray) -> tuple[Actor, Rollout]:
        act_key, world_key = jax.random.split(key)
        carry, heads = see(actor.carry, actor.now.observation, actor.reset)
        applied = applied_mask(condition, actor.now.mask, heads.validity)
        log_probs = masking.masked_log_softmax(heads.logits, applied)
        action = masking.sample(act_key, log_probs)
        worlds, out = venv.step(world_key, actor.worlds, action)
        reward = out.reward
        if truncation_discount is not None:
            no_reset = jnp.zeros_like(out.done)
            _, after = see(carry, out.final_observation, no_reset)
            reward = reward + truncation_discount * out.truncated * after.value
        done_step = Rollout(
            observation=actor.now.observation,
            valid=actor.now.mask,
            applied=applied,
            reset=actor.reset,
            action=action,
            log_prob=jnp.take_along_axis(log_probs, action[:, None], axis=-1)[:, 0],
            reward=reward,
            done=out.done,
            heads=heads,
            episodes=out.episodes,
        )
        return Actor(worlds, carry, First(out.observation, out.mask), reset=out.done), done_step

    return jax.lax.scan(step, actor, jax.random.split(key, steps))


@jax.named_scope("network")
def look(
    net: Network,
    params: Any,
    carry: Any,
    observation: Observation,
    reset: Bool[Array, " envs"],
) -> tuple[Any, Heads]:
    """One step of the network for every environment: [envs, ...] in, [envs, ...] out."""
    sequence = jax.tree.map(lambda x: x[None], (observation, reset))
    carry, heads = apply(net, params, carry, *sequence)
    return carry, jax.tree.map(lambda x: x[0], heads)


def apply(
    net: Network,
    params: Any,
    carry: Any,
    observation: Observation,
    reset: Bool[Array, "time envs"],
) -> tuple[Any, Heads]:
    """The network on whole sequences [time, envs, ...]; the type of the result is all it adds."""
    outputs: Any = net.apply(params, carry, observation, reset)
    return outputs


def applied_mask(
    condition: Condition,
    valid: Bool[Array, "envs actions"],
    validity_logits: Float[Array, "envs actions"],
) -> Bool[Array, "envs actions"]:
    """The mask each environment acts under: the oracle's, the predicted one in the condition's
    share of the environments (the first ones), or none."""
    oracle_or_none = valid | (condition.masked < 0.5)
    predicts = jnp.arange(valid.shape[0]) < condition.predicted_share * valid.shape[0]
    predicted = predicted_mask(validity_logits, condition.threshold)
    return jnp.where(predicts[:, None], predicted, oracle_or_none)


def predicted_mask(
    validity_logits: Float[Array, "... actions"], threshold: float | Float[Array, ""]
) -> Bool[Array, "... actions"]:
    """Valid where the predicted probability is above the threshold."""
    return jax.nn.sigmoid(validity_logits) > threshold
