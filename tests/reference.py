"""The equations once more, slowly, in NumPy's float64, one row at a time."""

import numpy as np


def log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def masked_log_softmax(logits, valid):
    """Over the valid actions; -1e9 for the others; unmasked where none is valid."""
    valid = valid if valid.any() else np.ones_like(valid)
    result = np.full(logits.shape, -1e9)
    result[valid] = log_softmax(logits[valid])
    return result


def entropy(logits, valid):
    log_p = masked_log_softmax(logits, valid)[valid] if valid.any() else log_softmax(logits)
    return -(np.exp(log_p) * log_p).sum()


def focal_terms(validity_logits, valid, gamma):
    signed = np.where(valid, validity_logits, -validity_logits)
    log_p = -np.logaddexp(0.0, -signed)
    log_1_minus_p = -np.logaddexp(0.0, signed)
    return -np.exp(gamma * log_1_minus_p) * log_p


def kl_weights(validity_logits, valid, policy_logits, threshold=0.5, soft_mask=-20.0):
    predicted = 1 / (1 + np.exp(-np.clip(validity_logits, -700, 700))) > threshold
    oracle = log_softmax(policy_logits + np.where(valid, 0, soft_mask))
    guess = log_softmax(policy_logits + np.where(predicted, 0, soft_mask))
    raw = np.exp(log_softmax(policy_logits)) * np.abs(oracle - guess)
    if raw.sum() < 1e-6:
        return np.full(raw.shape, 1 / len(raw))
    return raw / raw.sum()


def focal_loss(validity_logits, valid, gamma):
    rows = zip(validity_logits, valid, strict=True)
    return np.mean([focal_terms(v, m, gamma).mean() for v, m in rows])


def kl_balanced_loss(validity_logits, valid, policy_logits, gamma, threshold=0.5):
    return np.mean(
        [
            (kl_weights(v, m, p, threshold) * focal_terms(v, m, gamma)).sum()
            for v, m, p in zip(validity_logits, valid, policy_logits, strict=True)
        ]
    )


def clipped_policy_loss(log_probs, old_log_probs, advantages, clip):
    terms = []
    for new, old, advantage in zip(log_probs, old_log_probs, advantages, strict=True):
        ratio = np.exp(new - old)
        terms.append(min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage))
    return -np.mean(terms)


def clipped_value_loss(values, old_values, targets, clip):
    terms = []
    for value, old, target in zip(values, old_values, targets, strict=True):
        clipped = min(max(value, old - clip), old + clip)
        terms.append(max((value - target) ** 2, (clipped - target) ** 2))
    return 0.5 * np.mean(terms)
