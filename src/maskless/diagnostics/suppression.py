"""Is a policy losing actions that it will need? Probabilities where they are valid, and since when.

Measured on every rollout, inside the compiled update, for all actions at once:

    state = suppression.init(num_actions)
    state, metrics = suppression.measure(
        state, policy_logits, applied=mask, valid=oracle, actions=actions, update=update
    )

`docs/metrics.md` explains each number. NaN means that there is nothing to average.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from maskless import masking

LEAST_PROBABILITY = 1e-12
"""Smaller probabilities count as this one in logarithms and geometric means: a single state in
which a predicted mask forbids a valid action would otherwise turn them into zero."""

HALF = 0.5
"""A policy that gives an action more than this, where it is valid, has learned to use it."""


@struct.dataclass
class Suppression:
    """What is remembered from update to update; per action. Updates count from 1, 0 = not yet.

    Updates rather than frames: a run has more frames than float32 or int32 can count.
    """

    first_update: Int[Array, " actions"]
    """The first update with a state in which the action is valid."""
    half_update: Int[Array, " actions"]
    """The first one in which its mean probability there exceeds `HALF`."""
    first_log: Float[Array, " actions"]
    """Mean log pi(a | valid) in the first update, under the behaviour policy."""
    first_raw_log: Float[Array, " actions"]
    """The same under the raw softmax."""
    first_relative_log: Float[Array, " actions"]
    """Mean log (pi(a | valid) * number of valid actions) in the first update."""


def init(num_actions: int) -> Suppression:
    """Before the first update."""
    never = jnp.zeros(num_actions, jnp.int32)
    unknown = jnp.full(num_actions, jnp.nan, jnp.float32)
    return Suppression(never, never, unknown, unknown, unknown)


def measure(
    state: Suppression,
    policy_logits: Float[Array, "*batch actions"],
    *,
    applied: Bool[Array, "*batch actions"],
    valid: Bool[Array, "*batch actions"],
    actions: Int[Array, "*batch"],
    update: Int[Array, ""] | int,
) -> tuple[Suppression, dict[str, Array]]:
    """The metrics of a rollout, scalars and arrays [actions].

    `applied` is the mask the behaviour policy was under (all True without one), `valid` the
    oracle's. `update` is the number of this update, counted from 1.
    """
    behaviour = masking.masked_log_softmax(policy_logits, applied)
    raw = jax.nn.log_softmax(policy_logits)
    chosen_is_valid = jnp.take_along_axis(valid, actions[..., None], axis=-1)
    choices = jnp.sum(valid, axis=-1, keepdims=True)
    relative_log = _floored(behaviour) + jnp.log(jnp.maximum(choices, 1))
    metrics = {
        "valid_rate": jnp.mean(chosen_is_valid),
        "valid_share": jnp.mean(valid, axis=_batch_axes(valid)),
        **probabilities("", behaviour, valid),
        **probabilities("raw_", raw, valid),
        "probability_valid_relative": mean_where(jnp.exp(behaviour) * choices, valid),
    }
    state = _update_firsts(
        state,
        update,
        occurred=jnp.any(valid, axis=_batch_axes(valid)),
        learned=metrics["probability_valid"] > HALF,  # False where it is NaN
        logs=(
            mean_where(_floored(behaviour), valid),
            mean_where(_floored(raw), valid),
            mean_where(relative_log, valid),
        ),
    )
    return state, {**metrics, **_history(state, frames_per_update=actions.size)}


def mean_where(
    values: Float[Array, "*batch actions"], where: Bool[Array, "*batch actions"]
) -> Float[Array, " actions"]:
    """The mean over the batch, for each action over its own states; NaN where there is none."""
    axes = _batch_axes(values)
    return jnp.sum(jnp.where(where, values, 0.0), axis=axes) / jnp.sum(where, axis=axes)


def probabilities(
    prefix: str, log_probs: Float[Array, "*batch actions"], valid: Bool[Array, "*batch actions"]
) -> dict[str, Array]:
    """Arithmetic and geometric means of a policy's probabilities at valid and invalid states."""
    metrics = {}
    for kind, where in (("valid", valid), ("invalid", ~valid)):
        name = f"{prefix}probability_{kind}"
        metrics[name] = mean_where(jnp.exp(log_probs), where)
        metrics[f"{name}_geometric"] = jnp.exp(mean_where(_floored(log_probs), where))
    return metrics


def _update_firsts(
    state: Suppression,
    update: Int[Array, ""] | int,
    *,
    occurred: Bool[Array, " actions"],
    learned: Bool[Array, " actions"],
    logs: tuple[Array, Array, Array],
) -> Suppression:
    """Stores the update and the probabilities of what occurs for the first time."""
    new = occurred & (state.first_update == 0)
    log, raw_log, relative_log = logs
    return Suppression(
        first_update=jnp.where(new, update, state.first_update),
        half_update=jnp.where(learned & (state.half_update == 0), update, state.half_update),
        first_log=jnp.where(new, log, state.first_log),
        first_raw_log=jnp.where(new, raw_log, state.first_raw_log),
        first_relative_log=jnp.where(new, relative_log, state.first_relative_log),
    )


def _history(state: Suppression, frames_per_update: int) -> dict[str, Array]:
    """The paper's three measures of suppression (its appendix on training, "Measurement")."""

    # A product of two exact float32 numbers is off by at most 6e-8 of itself, and exact when the
    # frames per update are a large power of two.
    def frames(updates: Int[Array, " actions"]) -> Float[Array, " actions"]:
        return updates.astype(jnp.float32) * frames_per_update

    first, half = state.first_update, state.half_update
    num_actions = first.shape[-1]
    return {
        "first_valid_frames": jnp.where(first > 0, frames(first), jnp.nan),
        "first_valid_log_probability": state.first_log,
        "raw_first_valid_log_probability": state.first_raw_log,
        "suppression_ratio": jnp.exp(state.first_log) * num_actions,
        "suppression_ratio_among_valid": jnp.exp(state.first_relative_log),
        "frames_to_half": jnp.where(half > 0, frames(half - first), jnp.nan),
    }


def _floored(log_probs: Float[Array, "*batch actions"]) -> Float[Array, "*batch actions"]:
    return jnp.maximum(log_probs, jnp.log(LEAST_PROBABILITY))


def _batch_axes(values: Array) -> tuple[int, ...]:
    return tuple(range(values.ndim - 1))
