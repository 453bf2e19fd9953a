"""How good is the feasibility classifier, action by action, and what do its errors do to play?

    metrics = classifier.measure(validity_logits, valid, policy_logits, threshold=0.5)

Nothing is carried from update to update. NaN means that there is nothing to judge by, such as the
recall of an action that was never valid. `docs/metrics.md` explains each number.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from maskless import losses, masking

BINS = 64
LARGEST_LOGIT = 16.0
"""AUROC and calibration look at scores in `BINS` bins of equal width in the *logit*, from
-`LARGEST_LOGIT` to `LARGEST_LOGIT`, the outermost ones open. (Bins of the probability would put all
scores of a rare action into one.)"""

SOFT_MASK = -20.0
"""As in the losses: what is added to the logits of invalid actions for the KL divergence. Under
the hard masks of play it would be infinite at the first valid action that is predicted invalid."""


def measure(
    validity_logits: Float[Array, "time *batch actions"],
    valid: Bool[Array, "time *batch actions"],
    policy_logits: Float[Array, "time *batch actions"],
    *,
    threshold: float | Float[Array, ""] = 0.5,
    stride: int = 1,
) -> dict[str, Array]:
    """The metrics of a rollout, scalars and arrays [actions].

    `valid` is the oracle's mask; an action is predicted valid above the probability `threshold`.
    `stride`: AUROC and calibration use every `stride`-th time step only, which divides their cost.
    """
    predicted = masking.predicted_mask(validity_logits, threshold)
    weights = losses.raw_kl_weights(
        validity_logits, valid, policy_logits, threshold=threshold, soft_mask=SOFT_MASK
    )
    num_actions = valid.shape[-1]
    return {
        **_confusion(predicted, valid),
        **_scores(
            validity_logits[::stride].reshape(-1, num_actions),
            valid[::stride].reshape(-1, num_actions),
        ),
        **_policy_change(predicted, valid, policy_logits),
        "uniform_weight_share": jnp.mean(jnp.sum(weights, axis=-1) < losses.LEAST_WEIGHT),
        "fallback_rate": jnp.mean(masking.falls_back(predicted)),
    }


def _confusion(
    predicted: Bool[Array, "*batch actions"], valid: Bool[Array, "*batch actions"]
) -> dict[str, Array]:
    axes = tuple(range(valid.ndim - 1))
    hits = jnp.sum(predicted & valid, axis=axes)
    correct = predicted == valid
    return {
        "classifier_accuracy": jnp.mean(correct),
        "classifier_accuracy_per_action": jnp.mean(correct, axis=axes),
        "classifier_precision": hits / jnp.sum(predicted, axis=axes),
        "classifier_recall": hits / jnp.sum(valid, axis=axes),
    }


def _scores(
    logits: Float[Array, "states actions"], valid: Bool[Array, "states actions"]
) -> dict[str, Array]:
    """What the scores are worth, whatever the threshold: ranking and calibration."""
    position = (logits + LARGEST_LOGIT) * (BINS / (2 * LARGEST_LOGIT))
    bins = jnp.clip(jnp.floor(position), 0, BINS - 1).astype(jnp.int32)
    residual = valid - jax.nn.sigmoid(logits)

    # Bin after bin: all at once would need an array [bins, states, actions], and scattering into
    # bins is slow on every device.
    def tally(index: Array) -> tuple[Array, Array, Array]:
        inside = bins == index
        hits = jnp.sum(inside & valid, axis=0)
        misses = jnp.sum(inside, axis=0) - hits
        return hits, misses, jnp.sum(jnp.where(inside, residual, 0.0), axis=0)

    valid_in, invalid_in, residual_in = jax.lax.map(tally, jnp.arange(BINS))  # each [bins, actions]
    return {
        "classifier_auroc": _auroc(valid_in, invalid_in),
        "classifier_calibration_error": jnp.sum(jnp.abs(residual_in), axis=0) / len(valid),
    }


def _auroc(
    valid_in: Int[Array, "bins actions"], invalid_in: Int[Array, "bins actions"]
) -> Float[Array, " actions"]:
    """How often a valid state has the higher score of two; in the same bin: half of the time."""
    # Shares, since the number of pairs is beyond what float32 and int32 can count.
    valid_share = valid_in / jnp.sum(valid_in, axis=0)
    invalid_share = invalid_in / jnp.sum(invalid_in, axis=0)
    below = jnp.cumsum(invalid_share, axis=0) - invalid_share
    return jnp.sum(valid_share * (below + 0.5 * invalid_share), axis=0)


def _policy_change(
    predicted: Bool[Array, "*batch actions"],
    valid: Bool[Array, "*batch actions"],
    policy_logits: Float[Array, "*batch actions"],
) -> dict[str, Array]:
    """How far the policy under the predicted mask is from the one under the oracle's."""
    under_oracle = masking.masked_log_softmax(policy_logits, valid)
    under_prediction = masking.masked_log_softmax(policy_logits, predicted)
    soft_oracle = jax.nn.log_softmax(policy_logits + SOFT_MASK * ~valid)
    soft_prediction = jax.nn.log_softmax(policy_logits + SOFT_MASK * ~predicted)
    return {
        "mask_total_variation": jnp.mean(masking.total_variation(under_oracle, under_prediction)),
        "mask_kl": jnp.mean(masking.kl_divergence(soft_oracle, soft_prediction)),
    }
