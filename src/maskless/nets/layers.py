"""Dense layers: orthogonal weights, float32 parameters, any precision to compute in."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from maskless import kernels
from maskless.nets.orthogonal import orthogonal

RELU_GAIN = 2.0**0.5
"""Orthogonal weights times this keep the size of what passes through a ReLU layer."""


@kernels.dispatch
def dot_general(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    dimension_numbers: Any,
    precision: Any = None,
) -> Float[Array, "... features"]:
    """x @ kernel, with the arguments that Flax's layers give."""
    return jax.lax.dot_general(x, kernel, dimension_numbers, precision=precision)


@kernels.dispatch
def linear(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
) -> Float[Array, "... features"]:
    """x @ kernel + bias, computed in x's dtype."""
    return x @ kernel.astype(x.dtype) + bias.astype(x.dtype)


@kernels.dispatch
def linear_relu(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
) -> Float[Array, "... features"]:
    """relu(x @ kernel + bias), computed in x's dtype."""
    return nn.relu(x @ kernel.astype(x.dtype) + bias.astype(x.dtype))


def product(x: Array, weights: Array, dtype: Any = None) -> Float[Array, "..."]:
    """x @ weights, computed in `dtype` and added up in float32."""
    dtype = dtype or jnp.float32
    return jnp.matmul(x.astype(dtype), weights.astype(dtype), preferred_element_type=jnp.float32)


def dense(
    features: int, gain: float = RELU_GAIN, name: str | None = None, dtype: Any = None
) -> nn.Dense:
    """A linear layer with orthogonal weights and a bias of zero at the start.

    `dtype`: what it computes in; the weights themselves are always float32.
    """
    return nn.Dense(
        features, kernel_init=orthogonal(gain), name=name, dtype=dtype, dot_general=dot_general
    )


class Weights(nn.Module):
    """Declares the kernel and bias of a dense layer without applying them."""

    inputs: int
    features: int
    kernel_init: Callable[..., Array] = orthogonal(RELU_GAIN)

    @nn.compact
    def __call__(self) -> tuple[Float[Array, "inputs features"], Float[Array, " features"]]:
        kernel = self.param("kernel", self.kernel_init, (self.inputs, self.features))
        return kernel, self.param("bias", nn.initializers.zeros, (self.features,))


class Trunk(nn.Module):
    """Dense layers of equal width, each followed by the activation."""

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
                x = linear_relu(x.astype(self.dtype or jnp.float32), kernel, bias)
            else:
                x = self.activation(dense(self.width, name=name, dtype=self.dtype)(x))
        return x
