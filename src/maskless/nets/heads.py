"""What every network says about a state, and the layers that say it."""

from collections.abc import Callable
from functools import partial
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
NEEDED_BYTES, ALIGNED_BYTES = 16, 128
"""Tensor cores need rows of a multiple of the first; those that have to be longer become a multiple
of the second, in bfloat16 64 numbers."""
WIDE = 256
"""Narrower inputs are left as they are: there is little to gain."""


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
    return nn.Dense(
        features,
        kernel_init=orthogonal(gain),
        name=name,
        dtype=dtype,
        dot_general=aligned_product,
    )


class Weights(nn.Module):
    """The parameters of a `dense` layer, for those who have a product of their own for them."""

    inputs: int
    features: int
    kernel_init: Callable[..., Array] = orthogonal(RELU_GAIN)

    @nn.compact
    def __call__(self) -> tuple[Float[Array, "inputs features"], Float[Array, " features"]]:
        kernel = self.param("kernel", self.kernel_init, (self.inputs, self.features))
        return kernel, self.param("bias", nn.initializers.zeros, (self.features,))


def aligned_product(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    dimensions: Any,
    precision: Any = None,
) -> Float[Array, "... features"]:
    """x @ kernel as flax's layers ask for it, with zeros after a wide row of odd length."""
    return jax.lax.dot_general(*aligned(x, kernel), dimensions, precision=precision)


def aligned(
    x: Float[Array, "... inputs"], kernel: Float[Array, "inputs features"]
) -> tuple[Float[Array, "... aligned"], Float[Array, "aligned features"]]:
    """Both with zeros after a wide row of odd length.

    Observations have 1345 or 8268 numbers, and no tensor core reads such rows. Zeros that are
    asked for here can be written along with the numbers, once for all products that read them.
    """
    width, size = x.shape[-1], x.dtype.itemsize
    if width > WIDE and width * size % NEEDED_BYTES:
        zeros = (0, -width % (ALIGNED_BYTES // size))
        x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + (zeros,))
        kernel = jnp.pad(kernel, (zeros, (0, 0)))
    return x, kernel


def product(x: Array, weights: Array, dtype: Any = None) -> Array:
    """x @ weights, computed in `dtype` and added up in float32."""
    dtype = dtype or jnp.float32
    return jnp.matmul(x.astype(dtype), weights.astype(dtype), preferred_element_type=jnp.float32)


def linear(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
) -> Float[Array, "... features"]:
    """x @ kernel + bias, computed in x's dtype: what a `dense` layer says.

    Made for bfloat16 on a GPU, where a bias that is added after rounding costs a pass over all
    numbers. Here the product ends with bias and rounding. (XLA sees this only if `bias` is a
    parameter as it is, float32, and not made of one.)
    """
    return _layer(*aligned(x, kernel.astype(x.dtype)), bias, False)


def rectified(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
) -> Float[Array, "... features"]:
    """The ReLU of `linear`, as part of the same product.

    The derivative asks for the outcome, not for the numbers before the ReLU: those are never
    written.
    """
    return _layer(*aligned(x, kernel.astype(x.dtype)), bias, True)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _layer(x: Array, kernel: Array, bias: Array, relu: bool) -> Array:
    said = product(x, kernel, x.dtype) + bias
    return (nn.relu(said) if relu else said).astype(x.dtype)


def _layer_forward(x: Array, kernel: Array, bias: Array, relu: bool) -> tuple[Array, Any]:
    outcome = _layer(x, kernel, bias, relu)
    return outcome, (x, kernel, outcome if relu else None)


def _layer_backward(relu: bool, residuals: Any, wanted: Array) -> tuple[Array, Array, Array]:
    x, kernel, outcome = residuals
    if relu:
        wanted = jnp.where(outcome > 0.0, wanted, 0.0)
    by_x, by_kernel = jax.vjp(jnp.matmul, x, kernel)[1](wanted)
    return by_x, by_kernel, wanted.sum(range(x.ndim - 1), dtype=jnp.float32)


_layer.defvjp(_layer_forward, _layer_backward)


class Trunk(nn.Module):
    """Dense layers of equal width."""

    width: int
    layers: int
    activation: Callable[[jax.Array], jax.Array]
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... width"]:
        for layer in range(self.layers):
            name = f"Dense_{layer}"
            if self.activation is nn.relu:
                kernel, bias = Weights(x.shape[-1], self.width, name=name)()
                x = rectified(x.astype(self.dtype or jnp.float32), kernel, bias)
            else:
                x = self.activation(dense(self.width, name=name, dtype=self.dtype)(x))
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
        given = (x.astype(jnp.float32) for x in (features, actor, critic))
        exact_features, exact_actor, exact_critic = given
        kernel, bias = Weights(critic.shape[-1], 2, orthogonal(1.0), name="values")()
        values = _values(*aligned(exact_critic, kernel), bias)
        return Heads(
            logits=dense(self.num_actions, SMALL_GAIN, "logits")(exact_actor),
            value=values[..., 0],
            # One independent linear classifier per action: together they are one layer.
            validity=dense(self.num_actions, SMALL_GAIN, "validity")(exact_features),
            features=features,  # as they came: a rollout keeps those of every step
            hidden=actor,
            intrinsic_value=values[..., 1],
        )


@jax.custom_vjp
def _values(
    critic: Float[Array, "... hidden"], kernel: Float[Array, "hidden 2"], bias: Float[Array, " 2"]
) -> Float[Array, "... 2"]:
    """The value, and that of the bonus.

    The bonus fades and grows with the predictor: what the critic knows of the rewards is read for
    it, and not changed for it. So the derivative by the critic is that of the first value alone: no
    sum, and what comes after can compute it in passing.
    """
    return jnp.matmul(critic, kernel) + bias


def _values_forward(critic: Array, kernel: Array, bias: Array) -> tuple[Array, Any]:
    return _values(critic, kernel, bias), (critic, kernel)


def _values_backward(residuals: Any, wanted: Array) -> tuple[Array, Array, Array]:
    critic, kernel = residuals
    (by_kernel,) = jax.vjp(partial(jnp.matmul, critic), kernel)[1](wanted)
    return wanted[..., :1] * kernel[:, 0], by_kernel, wanted.sum(range(critic.ndim - 1))


_values.defvjp(_values_forward, _values_backward)
