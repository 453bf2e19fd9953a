"""Did an action do anything? What an agent without an oracle can learn its mask from."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PRNGKeyArray

from maskless.envs.base import Environment
from maskless.envs.mask_audit import differ


def had_effect(
    env: Environment, keys: Key[Array, " envs"], states: Any, actions: Int[Array, " envs"]
) -> Bool[Array, " envs"]:
    """Whether an action changes the world more than the no-op would with the same dice (a no-op
    counts as having an effect: it does what it should). Without a no-op: whether it ends the
    episode, or changes what `effect_view` keeps of the state; where the environment has no such
    view, the observation.

    It costs another step of every environment. `keys`: those of the step.
    """
    own_view = getattr(type(env), "effect_view", None) not in (None, Environment.effect_view)
    view = env.effect_view if own_view or env.noop_action is not None else env.observe

    def one(key: PRNGKeyArray, state: Any, action: Array) -> Array:
        _, after, _, done, info = env.step(key, state, action)
        if env.noop_action is None:
            return differ(view(state), view(after)) | (done & ~info.get("truncated", False))
        _, idle, _, idle_done, _ = env.step(key, state, jnp.int32(env.noop_action))
        changed = differ((view(idle), idle_done), (view(after), done))
        return changed | (action == env.noop_action)

    return jax.vmap(one)(keys, states, actions)
