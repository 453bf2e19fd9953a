"""Who acts while training, and under which mask."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import failures, masking
from maskless.conditions import Condition
from maskless.nets import Heads

POLICY, PREDICTED, CLONE = 0, 1, 2
"""Who acts: the policy under the oracle's mask or none, the policy under the predicted mask, or the
clone without a mask."""


@struct.dataclass
class Act:
    """One step of every environment, before its outcome. What no condition of the program asks for
    is None."""

    decision: masking.Decision
    """What was chosen, and under which mask: what PPO learns about."""
    executed: Int[Array, " envs"]
    """What the environment carries out."""
    by: Any = None
    """[envs]: who chose."""
    excused: Any = None
    """[envs]: where the choice was not the policy's, and gives it no gradient."""


def act(
    key: PRNGKeyArray,
    condition: Condition,
    valid: Bool[Array, "envs actions"],
    heads: Heads,
    tried: Any = None,
) -> Act:
    """Every environment's action: under the oracle's mask or none; under the predicted mask in the
    condition's share of the environments (the first ones), by the clone in another (the last).

    `tried`: int [envs, actions], what these two have tried in vain; None: nobody remembers.
    """
    mask, logits, by = valid | jnp.logical_not(condition.masked), heads.logits, None
    number, envs = jnp.arange(valid.shape[0]), valid.shape[0]
    if condition.uses("predicted_share"):
        predicts = number < condition.predicted_share * envs
        predicted = masking.predicted_mask(heads.validity, condition.threshold)
        mask = jnp.where(predicts[:, None], predicted, mask)
        by = jnp.where(predicts, PREDICTED, POLICY)
    if condition.uses("clone_share"):
        clones = number >= (1.0 - condition.clone_share) * envs
        mask = mask | clones[:, None]
        logits = jnp.where(clones[:, None], heads.clone, logits)
        by = jnp.where(clones, CLONE, POLICY if by is None else by)
    if tried is not None and by is not None:
        remembers = condition.remembers & (by != POLICY)
        left = failures.restrict(mask, jnp.ones_like(mask), heads.validity, tried).mask
        mask = jnp.where(remembers[:, None], left, mask)
    decision = _decide(key, condition, logits, mask)
    excused = None
    if condition.uses("explore"):
        decision, excused = _explore(jax.random.fold_in(key, 1), condition, decision)
    executed = decision.action
    if condition.uses("replaces"):
        decision, executed = _replace(jax.random.fold_in(key, 2), condition, decision, valid)
    return Act(decision, executed, by, excused)


def log_policy(
    condition: Condition,
    logits: Float[Array, "*batch actions"],
    mask: Bool[Array, "*batch actions"],
) -> Float[Array, "*batch actions"]:
    """log pi(a | s) under a mask, as this condition applies it."""
    return masking.masked_log_softmax(*_soften(condition, logits, mask))


def _soften(condition: Condition, logits: Array, mask: Array) -> tuple[Array, Array]:
    """Logits and hard mask that stand for a soft one."""
    if not condition.uses("soft_mask"):
        return logits, mask
    return logits + jnp.where(mask, 0.0, condition.soft_mask), mask | (condition.soft_mask < 0)


def _decide(
    key: PRNGKeyArray, condition: Condition, logits: Array, mask: Array
) -> masking.Decision:
    decision = masking.decide(key, *_soften(condition, logits, mask))
    if condition.uses("soft_mask"):  # learning softens it once more
        return decision._replace(mask=jnp.where(condition.soft_mask < 0, mask, decision.mask))
    return decision


def _explore(
    key: PRNGKeyArray, condition: Condition, decision: masking.Decision
) -> tuple[masking.Decision, Bool[Array, " envs"]]:
    """Sometimes one of the forbidden actions, all alike; and where."""
    dice, which = jax.random.split(key)
    forbidden = ~decision.mask
    tries = jax.random.uniform(dice, forbidden.shape[:1]) < condition.explore
    tries = tries & jnp.any(forbidden, axis=-1)
    other = jax.random.categorical(which, jnp.where(forbidden, 0.0, masking.INVALID))
    return _choose_instead(decision, jnp.where(tries, other, decision.action)), tries


def _replace(
    key: PRNGKeyArray, condition: Condition, decision: masking.Decision, valid: Array
) -> tuple[masking.Decision, Int[Array, " envs"]]:
    """A random valid action in place of an invalid one; and what PPO takes for the choice."""
    chosen_valid = jnp.take_along_axis(valid, decision.action[:, None], axis=-1)[:, 0]
    other = jax.random.categorical(key, jnp.where(valid, 0.0, masking.INVALID))
    executed = jnp.where(condition.replaces & ~chosen_valid, other, decision.action)
    if condition.uses("learns_replaced"):
        learned = jnp.where(condition.learns_replaced, executed, decision.action)
        decision = _choose_instead(decision, learned)
    return decision, executed


def _choose_instead(decision: masking.Decision, action: Int[Array, " envs"]) -> masking.Decision:
    log_prob = jnp.take_along_axis(decision.log_probs, action[:, None], axis=-1)[:, 0]
    return decision._replace(action=action, log_prob=log_prob)
