"""What every network says about a state: policy, value and validity."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from maskless import kernels
from maskless.nets.layers import Weights, dense
from maskless.nets.orthogonal import orthogonal

SMALL_GAIN = 0.01
"""For logits: the first policy is near uniform and the first validities near one half."""


@struct.dataclass
class Heads:
    """The outputs of a network; all [time, batch, ...]. A network of yours may leave out the last
    three: `complete` fills in what is needed."""

    logits: Float[Array, "time batch actions"]
    """Of the policy, before any mask."""
    value: Float[Array, "time batch"]
    validity: Float[Array, "time batch actions"]
    """Logits of "this action is valid"."""
    features: Float[Array, "time batch features"]
    """phi, which the validity head reads."""
    hidden: Any = None
    """[time, batch, hidden]: the actor's last hidden layer, which the policy's logits read."""
    intrinsic_value: Any = None
    """[time, batch]: the value of the exploration bonus, for RND."""
    clone: Any = None
    """[time, batch, actions]: logits of a policy that needs no mask; None: there is none."""


def complete(heads: Heads) -> Heads:
    """Fills in what a network may leave out: hidden = features, intrinsic_value = 0."""
    if heads.hidden is None:
        heads = dataclasses.replace(heads, hidden=heads.features)
    if heads.intrinsic_value is None:
        heads = dataclasses.replace(heads, intrinsic_value=jnp.zeros_like(heads.value))
    return heads


class Outputs(nn.Module):
    """The last, linear layer of every head, in float32 whatever the layers below compute in."""

    num_actions: int
    uncertain: bool = False
    """Whether the validity logits are raised where the classifier is not sure."""

    @nn.compact
    def __call__(
        self,
        features: Float[Array, "time batch features"],
        actor: Float[Array, "time batch hidden"],
        critic: Float[Array, "time batch critic"],
    ) -> Heads:
        phi, hidden, critic = (x.astype(jnp.float32) for x in (features, actor, critic))
        kernel, bias = Weights(critic.shape[-1], 2, orthogonal(1.0), name="values")()
        values = two_values(critic, kernel, bias)
        logits = dense(self.num_actions, SMALL_GAIN, "logits")(hidden)
        # One independent linear classifier per action: together they are one layer.
        validity = dense(self.num_actions, SMALL_GAIN, "validity")(phi)
        if self.uncertain:
            validity = validity + self._uncertainty(phi)[..., None]
        return Heads(
            logits=logits,
            value=values[..., 0],
            validity=validity,
            features=features,  # in their own dtype: a rollout keeps those of every step
            hidden=actor,
            intrinsic_value=values[..., 1],
        )

    def _uncertainty(self, phi: Float[Array, "time batch features"]) -> Float[Array, "time batch"]:
        """|(phi, 1) W| with a W that is solved for, and not learned."""
        inputs = phi.shape[-1] + 1
        matrix = self.param("uncertainty", nn.initializers.zeros, (inputs, inputs))
        squares = jnp.square(phi @ matrix[:-1] + matrix[-1])
        return jax.lax.stop_gradient(jnp.sqrt(jnp.sum(squares, axis=-1)))


@kernels.dispatch
def two_values(
    critic: Float[Array, "... hidden"], kernel: Float[Array, "hidden 2"], bias: Float[Array, " 2"]
) -> Float[Array, "... 2"]:
    """The value and the value of the exploration bonus.

    The bonus fades and grows with RND's predictor: its value reads what the critic has learned
    about the rewards, and does not change it.
    """
    value = critic @ kernel[:, 0]
    intrinsic_value = jax.lax.stop_gradient(critic) @ kernel[:, 1]
    return jnp.stack([value, intrinsic_value], axis=-1) + bias
