"""Dense layers for tensor cores: aligned rows, and bias and ReLU as part of the product."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

REQUIRED_BYTES, ALIGNED_BYTES = 16, 128
"""Tensor cores need rows of a multiple of the first. Other rows are padded to a multiple of the
second, in bfloat16 64 numbers."""
WIDE = 256
"""Inputs up to this width are never padded: there is little to gain."""


def align(
    x: Float[Array, "... inputs"], kernel: Float[Array, "inputs features"]
) -> tuple[Float[Array, "... aligned"], Float[Array, "aligned features"]]:
    """Both padded with zeros, if x is wide and its rows are not aligned.

    Craftax's observations have 1345 or 8268 numbers, and each product would first copy its input.
    XLA writes these zeros together with the numbers, once for all products that read them.
    """
    width, size = x.shape[-1], x.dtype.itemsize
    if width > WIDE and width * size % REQUIRED_BYTES:
        zeros = (0, -width % (ALIGNED_BYTES // size))
        x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + (zeros,))
        kernel = jnp.pad(kernel, (zeros, (0, 0)))
    return x, kernel


def dot_general(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    dimension_numbers: Any,
    precision: Any = None,
) -> Float[Array, "... features"]:
    """x @ kernel with aligned rows."""
    return jax.lax.dot_general(*align(x, kernel), dimension_numbers, precision=precision)


def linear(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
) -> Float[Array, "... features"]:
    """In bfloat16 on a GPU, a bias that is added after rounding costs a pass over all numbers.

    Here the product ends with bias and rounding. (XLA fuses them only if `bias` is a parameter
    itself, in float32, and not computed from one.)
    """
    return _layer(*align(x, kernel.astype(x.dtype)), bias, False)


def linear_relu(
    x: Float[Array, "... inputs"],
    kernel: Float[Array, "inputs features"],
    bias: Float[Array, " features"],
) -> Float[Array, "... features"]:
    """The derivative reads the output, so that the numbers before the ReLU are never written."""
    return _layer(*align(x, kernel.astype(x.dtype)), bias, True)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _layer(x: Array, kernel: Array, bias: Array, relu: bool) -> Array:
    y = jnp.matmul(x, kernel, preferred_element_type=jnp.float32) + bias
    return (jax.nn.relu(y) if relu else y).astype(x.dtype)


def _layer_forward(x: Array, kernel: Array, bias: Array, relu: bool) -> tuple[Array, Any]:
    y = _layer(x, kernel, bias, relu)
    return y, (x, kernel, y if relu else None)


def _layer_backward(relu: bool, residuals: Any, d_y: Array) -> tuple[Array, Array, Array]:
    x, kernel, y = residuals
    if relu:
        d_y = jnp.where(y > 0.0, d_y, 0.0)
    d_x, d_kernel = jax.vjp(jnp.matmul, x, kernel)[1](d_y)
    return d_x, d_kernel, d_y.sum(range(x.ndim - 1), dtype=jnp.float32)


_layer.defvjp(_layer_forward, _layer_backward)


def two_values(
    critic: Float[Array, "... hidden"], kernel: Float[Array, "hidden 2"], bias: Float[Array, " 2"]
) -> Float[Array, "... 2"]:
    """One product; the derivative by the critic, which is that of the first value alone, needs none
    and is fused with the ReLU before it."""
    return _two_values(*align(critic, kernel), bias)


@jax.custom_vjp
def _two_values(critic: Array, kernel: Array, bias: Array) -> Array:
    return jnp.matmul(critic, kernel) + bias


def _two_values_forward(critic: Array, kernel: Array, bias: Array) -> tuple[Array, Any]:
    return _two_values(critic, kernel, bias), (critic, kernel)


def _two_values_backward(residuals: Any, d_y: Array) -> tuple[Array, Array, Array]:
    critic, kernel = residuals
    (d_kernel,) = jax.vjp(partial(jnp.matmul, critic), kernel)[1](d_y)
    return d_y[..., :1] * kernel[:, 0], d_kernel, d_y.sum(range(critic.ndim - 1))


_two_values.defvjp(_two_values_forward, _two_values_backward)
