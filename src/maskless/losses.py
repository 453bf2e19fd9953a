"""The losses: PPO's two, and those of feasibility classification. Each function is one equation.

Arrays are [..., actions]; True = valid; each loss is the mean over all leading axes.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from maskless import masking

LEAST_WEIGHT = 1e-6
"""Below this sum the weights of a state say nothing: both masks lead to the same policy."""


def clipped_policy_loss(
    log_probs: Float[Array, "..."],
    old_log_probs: Float[Array, "..."],
    advantages: Float[Array, "..."],
    *,
    clip: float | Float[Array, ""] = 0.2,
    where: Bool[Array, "..."] | None = None,
) -> Float[Array, ""]:
    """PPO: - E [ min(r A, clip(r, 1 - clip, 1 + clip) A) ], r = pi(a) / pi_old(a) of the actions
    taken. Both log-probabilities are those under the mask that was applied. `where`: the steps
    that count, by default all."""
    ratio = jnp.exp(log_probs - old_log_probs)
    clipped = jnp.clip(ratio, 1.0 - clip, 1.0 + clip)
    return -mean(jnp.minimum(ratio * advantages, clipped * advantages), where)


def clipped_value_loss(
    values: Float[Array, "..."],
    old_values: Float[Array, "..."],
    targets: Float[Array, "..."],
    *,
    clip: float | Float[Array, ""] = 0.2,
    where: Bool[Array, "..."] | None = None,
) -> Float[Array, ""]:
    """1/2 E [ max((V - target)^2, (V_clipped - target)^2) ], V_clipped within `clip` of V_old."""
    clipped = old_values + jnp.clip(values - old_values, -clip, clip)
    worse = jnp.maximum(jnp.square(values - targets), jnp.square(clipped - targets))
    return 0.5 * mean(worse, where)


def mean(values: Float[Array, "..."], where: Bool[Array, "..."] | None = None) -> Float[Array, ""]:
    """The mean of all values, or of some; 0 when there is none."""
    if where is None:
        return jnp.mean(values)
    return jnp.sum(jnp.where(where, values, 0.0)) / jnp.maximum(jnp.sum(where), 1)


def focal_loss(
    validity_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    *,
    gamma: float | Float[Array, ""] = 2.0,
    label_weights: Float[Array, "... actions"] | None = None,
) -> Float[Array, ""]:
    """Eq. 10: - E_s [ 1/n sum_a (1 - p_a)^gamma log p_a ], p_a = probability of the true label.

    `gamma` 0 is binary cross-entropy. `label_weights`: how much each label counts, beside the
    others; 0: it is not known.
    """
    return jnp.mean(_weighted(_focal_terms(validity_logits, valid, gamma), label_weights))


def kl_balanced_loss(
    validity_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    policy_logits: Float[Array, "... actions"],
    *,
    gamma: float | Float[Array, ""] = 2.0,
    threshold: float | Float[Array, ""] = 0.5,
    soft_mask: float = -20.0,
    uniform_fallback: bool | Bool[Array, ""] = True,
    literal: bool | Bool[Array, ""] = False,
    acting: bool | Bool[Array, ""] = False,
    label_weights: Float[Array, "... actions"] | None = None,
) -> Float[Array, ""]:
    """Eq. 13: - E_s [ sum_a w_a (1 - p_a)^gamma log p_a ] with the weights of `kl_weights`."""
    weights = kl_weights(
        validity_logits,
        valid,
        policy_logits,
        threshold=threshold,
        soft_mask=soft_mask,
        uniform_fallback=uniform_fallback,
        literal=literal,
        acting=acting,
    )
    terms = _weighted(_focal_terms(validity_logits, valid, gamma), label_weights)
    return jnp.mean(jnp.sum(weights * terms, axis=-1))


def kl_weights(
    validity_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    policy_logits: Float[Array, "... actions"],
    *,
    threshold: float | Float[Array, ""] = 0.5,
    soft_mask: float = -20.0,
    uniform_fallback: bool | Bool[Array, ""] = True,
    literal: bool | Bool[Array, ""] = False,
    acting: bool | Bool[Array, ""] = False,
) -> Float[Array, "... actions"]:
    """Eq. 12, normalised per state: how much a mistake about each action would change the policy.

    w_a = pi(a) |log pi_oracle(a) - log pi_predicted(a)| with the unmasked policy pi. (With
    pi_oracle in its place, `literal`, the loss collapses to "everything is valid".)
    `soft_mask` is added to the logits of invalid actions in both policies, which keeps the
    logarithms finite. Where the masks agree, so that the weights sum to less than `LEAST_WEIGHT`,
    they are uniform, which makes this the focal loss of that state; without `uniform_fallback` they
    are zero there. No gradient flows through.

    `acting`, ours: w_a = |pi_oracle(a) - pi_predicted(a)| under hard masks. What the unmasked
    policy does where it never acts says nothing: it can all but rule out an action that the mask
    leaves as the best one, and then a mistake about it would never be noticed.
    """
    raw = raw_kl_weights(
        validity_logits,
        valid,
        policy_logits,
        threshold=threshold,
        soft_mask=soft_mask,
        literal=literal,
        acting=acting,
    )
    total = jnp.sum(raw, axis=-1, keepdims=True)
    informative = total >= LEAST_WEIGHT
    otherwise = uniform_fallback / raw.shape[-1]
    weights = jnp.where(informative, raw / jnp.where(informative, total, 1.0), otherwise)
    return jax.lax.stop_gradient(weights)


def raw_kl_weights(
    validity_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    policy_logits: Float[Array, "... actions"],
    *,
    threshold: float | Float[Array, ""] = 0.5,
    soft_mask: float = -20.0,
    literal: bool | Bool[Array, ""] = False,
    acting: bool | Bool[Array, ""] = False,
) -> Float[Array, "... actions"]:
    """Eq. 12 before normalising. Rows that sum to less than `LEAST_WEIGHT` get uniform weights;
    their share is worth logging."""
    predicted = masking.predicted_mask(validity_logits, threshold)
    oracle = jax.nn.log_softmax(policy_logits + soft_mask * ~valid)
    guess = jax.nn.log_softmax(policy_logits + soft_mask * ~predicted)
    policy = jnp.where(literal, jnp.exp(oracle), jax.nn.softmax(policy_logits))
    moved = jnp.abs(
        jnp.exp(masking.masked_log_softmax(policy_logits, valid))
        - jnp.exp(masking.masked_log_softmax(policy_logits, predicted))
    )
    return jnp.where(acting, moved, policy * jnp.abs(oracle - guess))


def squared_validity_loss(
    validity_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    *,
    label_weights: Float[Array, "... actions"] | None = None,
) -> Float[Array, ""]:
    """E_s [ 1/n sum_a (sigmoid(v_a) - m_a)^2 ] (Zhao et al., 2021)."""
    errors = jnp.square(jax.nn.sigmoid(validity_logits) - valid)
    return jnp.mean(_weighted(errors, label_weights))


def invalid_mass_loss(
    policy_logits: Float[Array, "... actions"], valid: Bool[Array, "... actions"]
) -> Float[Array, ""]:
    """E_s [ sum over invalid a of pi(a) ], with the unmasked policy (Zhao et al., 2021)."""
    return jnp.mean(jnp.sum(jax.nn.softmax(policy_logits) * ~valid, axis=-1))


def masked_distillation_loss(
    policy_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    *,
    below: float | Float[Array, ""] = 1.0,
) -> Float[Array, ""]:
    """E_s [ sum_a pi_m(a) (log pi_m(a) - log pi(a)) ] over the valid actions with pi(a) <= below:
    the policy without masks is drawn towards the masked one, which gets no gradient.

    With `below` 1 it is KL(pi_m || pi) = - log Z, Z the probability that pi gives to valid actions,
    and so is its gradient. A smaller one protects improbable actions only, as Lp-Reg does (2025).
    """
    log_masked = jax.lax.stop_gradient(masking.masked_log_softmax(policy_logits, valid))
    log_policy = jax.nn.log_softmax(policy_logits)
    counts = valid & (jnp.exp(log_policy) <= below)
    gap = jnp.where(counts, log_masked - log_policy, 0.0)
    return jnp.mean(jnp.sum(jnp.exp(log_masked) * gap, axis=-1))


def cloning_loss(
    clone_logits: Float[Array, "... actions"],
    policy_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
) -> Float[Array, ""]:
    """- E_s [ sum_a pi_m(a) log pi_clone(a) ]: cross-entropy towards the masked policy, which gets
    no gradient."""
    target = jnp.exp(masking.masked_log_softmax(policy_logits, valid))
    log_clone = jax.nn.log_softmax(clone_logits)
    return -jnp.mean(jnp.sum(jax.lax.stop_gradient(target) * log_clone, axis=-1))


def _weighted(
    terms: Float[Array, "... actions"], weights: Float[Array, "... actions"] | None
) -> Float[Array, "... actions"]:
    """Each term times its weight in units of the mean weight, so that fewer labels do not make a
    smaller loss."""
    if weights is None:
        return terms
    return terms * weights / jnp.maximum(jnp.mean(weights), 1e-8)


def _focal_terms(
    validity_logits: Float[Array, "... actions"],
    valid: Bool[Array, "... actions"],
    gamma: float | Float[Array, ""],
) -> Float[Array, "... actions"]:
    """- (1 - p)^gamma log p of each action.

    optax.sigmoid_focal_loss computes the same, but with a power whose gradient is nan where
    p = 1 and gamma = 0; (1 - p)^gamma = exp(gamma log(1 - p)) has no such place.
    """
    towards_label = jnp.where(valid, validity_logits, -validity_logits)
    log_p = jax.nn.log_sigmoid(towards_label)
    log_1_minus_p = jax.nn.log_sigmoid(-towards_label)
    return -jnp.exp(gamma * log_1_minus_p) * log_p
