"""How well does a clone, which acts without a mask, do what the masked policy does?

    metrics = clone.measure(clone_logits, policy_logits, valid)

`docs/metrics.md` explains each number.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from maskless import masking


def measure(
    clone_logits: Float[Array, "*batch actions"],
    policy_logits: Float[Array, "*batch actions"],
    valid: Bool[Array, "*batch actions"],
) -> dict[str, Array]:
    """Means over the states of a rollout. `valid`: the oracle's mask."""
    log_clone = jax.nn.log_softmax(clone_logits)
    masked = masking.masked_log_softmax(policy_logits, valid)
    return {
        "clone_invalid_mass": jnp.mean(jnp.sum(jnp.exp(log_clone) * ~valid, axis=-1)),
        "clone_total_variation": jnp.mean(masking.total_variation(log_clone, masked)),
    }
