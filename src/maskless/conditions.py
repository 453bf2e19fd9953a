"""What is compared: the paper's conditions C1 to C4, its ablation, a control, and ours, as data.

Everything in a condition is a number, so that seeds times conditions can be trained in one
compiled program (stack the conditions with `stack` and vmap over them).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct, traverse_util
from jaxtyping import Array, Bool, Float

from maskless.errors import MasklessError, UnknownNameError
from maskless.losses import focal_loss, kl_balanced_loss


@struct.dataclass
class Condition:
    """One way to train."""

    masked: float
    """1: the behaviour policy is under the oracle's mask. 0: it may choose anything."""
    strength: float = 0.0
    """lambda: the weight of the classification loss beside PPO's. 0: no classifier."""
    gamma: float = 2.0
    """The focal parameter; 0 is cross-entropy."""
    threshold: float = 0.5
    """tau: an action is predicted valid above this probability."""
    kl_share: float = 0.0
    """1: the KL-balanced loss; 0: the focal loss; between: a mixture."""
    predicted_share: float = 0.0
    """The share of environments that act under the predicted mask while training. Labels always
    come from the oracle."""
    uniform_fallback: float = 1.0
    """Control of the KL-balanced loss, where both masks lead to the same policy. 1: weigh all
    actions alike; 0: learn nothing from such a state."""
    literal: float = 0.0
    """Control of the KL-balanced loss. 1: weigh by the oracle's policy, a true KL divergence, in
    place of the unmasked one."""
    acting: float = 0.0
    """1: weigh by how much a mistake moves the policy that acts, the masked one, and not the
    unmasked one, which never does."""
    detached: float = 0.0
    """Control. 1: the classifier reads the features but does not shape them."""
    entropy_factor: float = 1.0
    """Control. Multiplies the weight of PPO's entropy bonus."""


CONDITIONS: dict[str, Condition] = {
    "masked": Condition(masked=1.0),  # C1
    "unmasked": Condition(masked=0.0),  # C2
    "masked-focal": Condition(masked=1.0, strength=10.0),  # C3
    "masked-kl": Condition(masked=1.0, strength=10.0, kl_share=1.0),  # C4
    "unmasked-kl": Condition(masked=0.0, strength=10.0, kl_share=1.0),  # the paper's ablation
    "masked-bce": Condition(masked=1.0, strength=10.0, gamma=0.0),  # control: plain cross-entropy
    "masked-mix": Condition(masked=1.0, strength=10.0, kl_share=0.5),  # ours
    "masked-tv": Condition(masked=1.0, strength=10.0, kl_share=1.0, acting=1.0),  # ours
    "masked-loop": Condition(masked=1.0, strength=10.0, kl_share=0.5, predicted_share=0.25),  # ours
}


def condition(name: str) -> Condition:
    """The condition of this name; changes follow a colon: `masked-kl:strength=20,gamma=1`."""
    base, _, changes = name.partition(":")
    if base not in CONDITIONS:
        raise UnknownNameError("condition", base, CONDITIONS)
    found = CONDITIONS[base]
    fields = [field.name for field in dataclasses.fields(Condition)]
    for change in changes.split(",") if changes else []:
        field, _, number = change.partition("=")
        if field not in fields:
            raise UnknownNameError(f"part of the condition {base}", field, fields)
        try:
            value = float(number)
        except ValueError:
            raise MasklessError(f"{change!r} in {name!r} needs a number: {field}=0.5.") from None
        found = dataclasses.replace(found, **{field: value})
    _check(name, found)
    return found


def _check(name: str, condition: Condition) -> None:
    if condition.masked not in (0.0, 1.0):
        raise MasklessError(f"masked in {name!r} must be 0 or 1.")
    for switch in ("uniform_fallback", "literal", "acting", "detached"):
        if getattr(condition, switch) not in (0.0, 1.0):
            raise MasklessError(f"{switch} in {name!r} must be 0 or 1.")
    for share in ("threshold", "kl_share", "predicted_share"):
        if not 0.0 <= getattr(condition, share) <= 1.0:
            raise MasklessError(f"{share} in {name!r} must be between 0 and 1.")
    for amount in ("strength", "gamma", "entropy_factor"):
        if not 0.0 <= getattr(condition, amount) < float("inf"):
            raise MasklessError(f"{amount} in {name!r} must be a number of at least 0.")
    if condition.predicted_share and not condition.strength:
        raise MasklessError(
            f"{name!r} acts under predicted masks but trains no classifier: give it a strength."
        )


def stack(conditions: list[Condition]) -> Condition:
    """Many conditions as one, with arrays for numbers: vmap over it."""
    return jax.tree.map(lambda *numbers: jnp.array(numbers, jnp.float32), *conditions)


def detach(
    condition: Condition,
    validity_logits: Float[Array, "... actions"],
    features: Float[Array, "... features"],
    params: Any,
) -> Float[Array, "... actions"]:
    """The same validity logits; in a detached condition their gradient ends at the features.

    `params`: of the network that made them, in which the validity head is the one layer of that
    name.
    """
    leaves = traverse_util.flatten_dict(params)
    head = {path[-1]: leaf for path, leaf in leaves.items() if path[-2:-1] == ("validity",)}
    alone = jax.lax.stop_gradient(features) @ head["kernel"] + head["bias"]
    # The forward value is always the network's own.
    alone = alone + jax.lax.stop_gradient(validity_logits - alone)
    return jnp.where(condition.detached > 0.5, alone, validity_logits)


def classification_loss(
    condition: Condition,
    validity_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    policy_logits: Float[Array, "... actions"],
) -> Float[Array, ""]:
    """L_cls of the condition, before its weight lambda."""
    focal = focal_loss(validity_logits, valid, gamma=condition.gamma)
    balanced = kl_balanced_loss(
        validity_logits,
        valid,
        policy_logits,
        gamma=condition.gamma,
        threshold=condition.threshold,
        uniform_fallback=condition.uniform_fallback,
        literal=condition.literal,
        acting=condition.acting,
    )
    return condition.kl_share * balanced + (1.0 - condition.kl_share) * focal
