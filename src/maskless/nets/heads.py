"""What every network says about a state, and the layers that say it."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from maskless.nets.orthogonal import orthogonal

RELU_GAIN = 2.0**0.5
"""Orthogonal weights times this keep the size of what passes through a ReLU layer."""
SMALL_GAIN = 0.01
"""For logits: the first policy is near uniform and the first validities near one half."""


@struct.dataclass
class Heads:
    """The outputs of a network; all [time, batch, ...]."""

    logits: Float[Array, "time batch actions"]
    """Of the policy, before any mask."""
    value: Float[Array, "time batch"]
    validity: Float[Array, "time batch actions"]
    """Logits of "this action is valid"."""
    features: Float[Array, "time batch features"]
    """phi, which the validity head reads."""
    hidden: Float[Array, "time batch hidden"]
    """The actor's last hidden layer, which the policy's logits read."""
    intrinsic_value: Float[Array, "time batch"]
    """The value of the exploration bonus, for RND."""


def dense(
    features: int, gain: float = RELU_GAIN, name: str | None = None, dtype: Any = None
) -> nn.Dense:
    """A linear layer with orthogonal weights and a bias of zero at the start.

    `dtype`: what it computes in; the weights themselves are always float32.
    """
    return nn.Dense(features, kernel_init=orthogonal(gain), name=name, dtype=dtype)


def product(x: Array, weights: Array, dtype: Any = None) -> Array:
    """x @ weights, computed in `dtype` and added up in float32."""
    dtype = dtype or jnp.float32
    return jnp.matmul(x.astype(dtype), weights.astype(dtype), preferred_element_type=jnp.float32)


class Trunk(nn.Module):
    """Dense layers of equal width."""

    width: int
    layers: int
    activation: Callable[[jax.Array], jax.Array]
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... width"]:
        for _ in range(self.layers):
            x = self.activation(dense(self.width, dtype=self.dtype)(x))
        return x


class Outputs(nn.Module):
    """The last, linear layer of every head, in float32 whatever the layers below compute in."""

    num_actions: int

    @nn.compact
    def __call__(
        self,
        features: Float[Array, "time batch features"],
        actor: Float[Array, "time batch hidden"],
        critic: Float[Array, "time batch critic"],
    ) -> Heads:
        features, actor, critic = (x.astype(jnp.float32) for x in (features, actor, critic))
        values = dense(2, 1.0, "values")
        return Heads(
            logits=dense(self.num_actions, SMALL_GAIN, "logits")(actor),
            value=values(critic)[..., 0],
            # One independent linear classifier per action: together they are one layer.
            validity=dense(self.num_actions, SMALL_GAIN, "validity")(features),
            features=features,
            hidden=actor,
            # The bonus fades and grows with the predictor: what the critic knows of the rewards is
            # read for it, and not changed for it.
            intrinsic_value=values(jax.lax.stop_gradient(critic))[..., 1],
        )
