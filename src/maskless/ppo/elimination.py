"""Action elimination (Zahavy et al., 2018): a linear classifier on the features, solved in closed
form, that forbids an action only where it is sure.

For each action, ridge regression of the labels y = 1 (valid) and -1 (invalid) on the features phi:

    V = ridge I + sum phi phi^T,   theta = V^-1 sum phi y
    valid  <=>  phi . theta + confidence sqrt(phi^T V^-1 phi) > 0

All actions are labelled in every state, so that they share V. The features are those of the last
rollout, and get no gradient.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import traverse_util
from jaxtyping import Array, Bool, Float

from maskless.conditions import Condition


def fit(
    features: Float[Array, "*batch features"],
    valid: Bool[Array, "*batch actions"],
    *,
    ridge: float | Float[Array, ""] = 1.0,
    confidence: float | Float[Array, ""] = 0.0,
) -> tuple[Float[Array, "inputs actions"], Float[Array, "inputs inputs"]]:
    """theta, and a matrix W with confidence sqrt(phi^T V^-1 phi) = |phi W|. phi ends with a 1."""
    phi = jnp.reshape(features, (-1, features.shape[-1])).astype(jnp.float32)
    phi = jnp.concatenate([phi, jnp.ones((phi.shape[0], 1))], axis=-1)
    labels = jnp.where(valid.reshape(-1, valid.shape[-1]), 1.0, -1.0)
    states = phi.shape[0]
    highest = jax.lax.Precision.HIGHEST
    # Means in place of sums: numbers of about 1, whatever the size of the rollout.
    unit = jnp.eye(phi.shape[-1])
    covariance = jnp.matmul(phi.T, phi, precision=highest) / states + ridge / states * unit
    root = jnp.linalg.cholesky(covariance)
    moments = jnp.matmul(phi.T, labels, precision=highest) / states
    theta = jax.scipy.linalg.cho_solve((root, True), moments)
    inverse_root = jax.scipy.linalg.solve_triangular(root, unit, lower=True)
    return theta, confidence * inverse_root.T / jnp.sqrt(states)


def refit(
    condition: Condition,
    params: Any,
    features: Float[Array, "*batch features"],
    valid: Bool[Array, "*batch actions"],
) -> Any:
    """The parameters with the validity head of this rollout, where the condition asks for it."""
    confidence = condition.get("confidence")
    ridge = jnp.maximum(condition.ridge, 1e-3)  # of a condition without one, nothing is used
    theta, width = fit(features, valid, ridge=ridge, confidence=confidence)
    solved = {"kernel": theta[:-1], "bias": theta[-1]}
    leaves = traverse_util.flatten_dict(params)
    for path, leaf in leaves.items():
        if path[-2:-1] == ("validity",):
            leaves[path] = jnp.where(condition.ridge > 0, solved[path[-1]], leaf)
        elif path[-1] == "uncertainty":
            leaves[path] = jnp.where(condition.ridge > 0, width, leaf)
    return traverse_util.unflatten_dict(leaves)
