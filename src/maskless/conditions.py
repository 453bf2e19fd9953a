"""What is compared: the paper's conditions C1 to C4, its ablation, a control, and ours, as data.

Everything in a condition is a number, so that seeds times conditions can be trained in one
compiled program (stack the conditions with `stack` and vmap over them).
"""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

from maskless.errors import UnknownNameError
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


CONDITIONS: dict[str, Condition] = {
    "masked": Condition(masked=1.0),  # C1
    "unmasked": Condition(masked=0.0),  # C2
    "masked-focal": Condition(masked=1.0, strength=10.0),  # C3
    "masked-kl": Condition(masked=1.0, strength=10.0, kl_share=1.0),  # C4
    "unmasked-kl": Condition(masked=0.0, strength=10.0, kl_share=1.0),  # the paper's ablation
    "masked-bce": Condition(masked=1.0, strength=10.0, gamma=0.0),  # control: plain cross-entropy
    "masked-mix": Condition(masked=1.0, strength=10.0, kl_share=0.5),  # ours
    "masked-loop": Condition(masked=1.0, strength=10.0, kl_share=0.5, predicted_share=0.25),  # ours
}


def condition(name: str) -> Condition:
    """The condition of this name."""
    if name not in CONDITIONS:
        raise UnknownNameError("condition", name, CONDITIONS)
    return CONDITIONS[name]


def stack(conditions: list[Condition]) -> Condition:
    """Many conditions as one, with arrays for numbers: vmap over it."""
    return jax.tree.map(lambda *numbers: jnp.array(numbers, jnp.float32), *conditions)


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
    )
    return condition.kl_share * balanced + (1.0 - condition.kl_share) * focal
