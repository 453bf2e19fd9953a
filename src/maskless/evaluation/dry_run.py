"""What other overrides would have changed, on states that a policy visits."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from maskless import masking
from maskless.evaluation.sampling import States
from maskless.policy.acting import Policy
from maskless.policy.overrides import Override, check_overrides


@dataclasses.dataclass(frozen=True)
class DryRun:
    """Counts of states; an action has a place in each tuple."""

    states: int
    changed: int
    """States in which the mask would have been another one."""
    allowed: tuple[int, ...]
    """Where the action would have been allowed, and was masked."""
    allowed_rightly: tuple[int, ...]
    """Of these, where the oracle allows it."""
    forbidden: tuple[int, ...]
    """Where the action would have been masked, and was allowed."""
    forbidden_rightly: tuple[int, ...]
    """Of these, where the oracle masks it."""
    fallbacks: tuple[int, int]
    """States without any action left, before and after."""
    policy_change: float
    """Mean total variation between the two policies."""


def with_overrides(policy: Policy, overrides: Sequence[Override]) -> Policy:
    """The same policy under these rules instead of its own."""
    check_overrides(overrides, policy.action_names, policy.fields)
    return Policy(dataclasses.replace(policy.artifact, overrides=tuple(overrides)))


def dry_run(policy: Policy, overrides: Sequence[Override], states: States) -> DryRun:
    """Compares the policy with itself under `overrides`."""
    flat: States = jax.tree.map(lambda x: jnp.asarray(x).reshape(-1, *x.shape[2:]), states)
    now = policy.make_mask(flat.leaves, flat.validity)
    then = with_overrides(policy, overrides).make_mask(flat.leaves, flat.validity)
    allowed, forbidden = then.mask & ~now.mask, now.mask & ~then.mask

    def count(entries: Bool[Array, "states actions"]) -> tuple[int, ...]:
        return tuple(int(n) for n in np.asarray(entries).sum(0))

    change = masking.total_variation(
        masking.masked_log_softmax(flat.logits, now.mask),
        masking.masked_log_softmax(flat.logits, then.mask),
    )
    return DryRun(
        states=len(flat.valid),
        changed=int(np.asarray(now.mask != then.mask).any(-1).sum()),
        allowed=count(allowed),
        allowed_rightly=count(allowed & flat.valid),
        forbidden=count(forbidden),
        forbidden_rightly=count(forbidden & ~flat.valid),
        fallbacks=(int(now.fallback.sum()), int(then.fallback.sum())),
        policy_change=float(jnp.mean(change)),
    )
