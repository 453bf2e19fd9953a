"""Acting: one rollout of every environment under the mask that the condition applies."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import failures
from maskless.conditions import Condition
from maskless.envs.base import Environment, Observation
from maskless.envs.effects import had_effect
from maskless.envs.vector import Episodes, First, Step, VectorEnv, VectorState
from maskless.nets import AnyNetwork, Heads, apply
from maskless.ppo.acting import Act, act


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
    failures: Any = None
    """[envs, actions]: what has been tried in vain (`maskless.failures`); None: nobody asks."""


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

    # What no condition of the program asks for is None. All [time, envs, ...].
    by: Any = None
    """Who chose: see `Act`."""
    excused: Any = None
    """Where the choice gives the policy no gradient."""
    effect: Any = None
    """Whether the action had an effect."""
    labels: Any = None
    """What the classifier learns from in place of `valid`; True = valid."""
    label_weights: Any = None
    """How much each label counts; 0: it is not known."""


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
        choice = act(act_key, condition, actor.now.mask, heads, actor.failures)
        worlds, out = venv.step(world_key, actor.worlds, choice.executed)
        effect = None
        if condition.uses("tried"):
            keys = jax.random.split(world_key, venv.num_envs)  # as `venv.step` does
            effect = had_effect(venv.env, keys, actor.worlds.states, choice.executed)
        reward = out.reward
        if truncation_discount is not None:
            no_reset = jnp.zeros_like(out.done)
            _, after = network(carry, out.final_observation, no_reset)
            reward = reward + truncation_discount * out.truncated * after.value
        tried = failures_after(venv.env, actor, choice, out)
        return after_step(actor, carry, heads, choice, worlds, out, reward, tried, effect)

    return jax.lax.scan(step, actor, jax.random.split(key, steps))


def after_step(
    actor: Actor,
    carry: Any,
    heads: Heads,
    choice: Act,
    worlds: Any,
    out: Step,
    reward: Any,
    tried: Any = None,
    effect: Any = None,
) -> tuple[Actor, Rollout]:
    """Where acting stands after a step, and the transition. [envs, ...]

    `tried`: the failures after it; `effect`: whether it had one. None: nobody asks.
    """
    decision = choice.decision
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
        by=choice.by,
        excused=choice.excused,
        effect=effect,
    )
    now = First(out.observation, out.mask)
    return Actor(worlds, carry, now, reset=out.done, failures=tried), transition


def failures_after(env: Environment, actor: Actor, choice: Act, out: Step) -> Any:
    """What has been tried in vain so far, where that is remembered."""
    if actor.failures is None:
        return None
    same = failures.unchanged(actor.now.observation, out.observation, env.clock_fields)
    return failures.count(actor.failures, choice.executed, same & ~out.done)


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
