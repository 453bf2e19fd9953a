"""Generalised advantage estimation (Schulman et al., 2016)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def gae(
    rewards: Float[Array, "time envs"],
    values: Float[Array, "time envs"],
    ends: Bool[Array, "time envs"],
    last_value: Float[Array, " envs"],
    *,
    discount: float | Float[Array, ""],
    gae_lambda: float | Float[Array, ""],
) -> Float[Array, "time envs"]:
    """A_t = sum_k (discount gae_lambda)^k delta_{t+k},
    delta_t = r_t + discount V_{t+1} - V_t, both cut off where `ends[t]`: step t ended its episode.

    `last_value`: the value of the state after the last step. Value targets are A_t + V_t.
    """
    goes_on = 1.0 - ends.astype(jnp.float32)
    next_values = jnp.concatenate([values[1:], last_value[None]])
    deltas = rewards + discount * goes_on * next_values - values

    def back(advantage: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, goes_on = step
        advantage = delta + discount * gae_lambda * goes_on * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(
        back, jnp.zeros_like(last_value), (deltas, goes_on), reverse=True, unroll=8
    )
    return advantages
