"""Layers on wide inputs are aligned for tensor cores, and nobody can tell from the numbers."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.nets.heads import dense, linear, rectified

from nets.parameters import random_parameters


@pytest.mark.parametrize(("width", "computed"), [(7, 7), (300, 300), (427, 448)])
def test_a_layer_of_any_width(width, computed):
    """Values and gradients are those of x W + b in float64; kernels keep their shape."""
    random = np.random.default_rng(0)
    x, wanted = random.normal(size=(2, 3, width)), random.normal(size=(2, 3, 5))
    layer = dense(5)
    params = random_parameters(layer, jnp.float32(x))

    def total(params, x):
        said = layer.apply(params, x)
        return jnp.sum(said * wanted), said

    differentiate = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True))
    (_, said), (by_params, by_x) = differentiate(params, jnp.float32(x))
    kernel, bias = (np.float64(params["params"][name]) for name in ("kernel", "bias"))
    assert kernel.shape == (width, 5)
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(said, x @ kernel + bias, **close)
    np.testing.assert_allclose(by_x, wanted @ kernel.T, **close)
    np.testing.assert_allclose(
        by_params["params"]["kernel"], np.einsum("tbi,tbo->io", x, wanted), **close
    )
    np.testing.assert_allclose(by_params["params"]["bias"], wanted.sum((0, 1)), **close)
    assert width_of_the_product(layer, params, jnp.float32(x)) == computed


def width_of_the_product(layer, params, x):
    equations = jax.make_jaxpr(layer.apply)(params, x).eqns
    (product,) = (e for e in equations if e.primitive.name == "dot_general")
    return product.invars[0].aval.shape[-1]


@pytest.mark.parametrize(("width", "computed"), [(256, 256), (1345, 1408), (8268, 8320)])
def test_rows_of_bfloat16_have_multiples_of_64(width, computed):
    layer, x = dense(5, dtype=jnp.bfloat16), jnp.ones((1, 1, width))
    assert width_of_the_product(layer, random_parameters(layer, x), x) == computed


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("width", [40, 427])
@pytest.mark.parametrize(("ours", "activation"), [(rectified, nn.relu), (linear, lambda x: x)])
def test_layers_that_are_one_product(ours, activation, dtype, width):
    """Values, and the gradients by everything; zeros and odd widths, too."""
    random = np.random.default_rng(0)
    x, wanted = random.normal(size=(2, 3, width)), random.normal(size=(2, 3, 5))
    x[0] = 0.0  # there, with a bias of zero, the ReLU stands at its corner
    kernel, bias = random.normal(size=(width, 5)), np.float64([-0.5, 0.0, 0.0, 0.5, 1.0])

    def both(of):
        def total(x, kernel, bias):
            said = of(x.astype(dtype), kernel, bias)
            return jnp.sum(said * wanted.astype(dtype), dtype=jnp.float32), said

        differentiate = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2), has_aux=True))
        (_, said), gradients = differentiate(*map(jnp.float32, (x, kernel, bias)))
        assert said.dtype == dtype
        assert all(gradient.dtype == jnp.float32 for gradient in gradients)
        return said, *gradients

    rounding = {"rtol": 1e-5, "atol": 1e-5} if dtype == jnp.float32 else {"rtol": 0.03, "atol": 0.1}
    plain = both(lambda x, kernel, bias: activation(x @ kernel.astype(dtype) + bias.astype(dtype)))
    for mine, theirs in zip(both(ours), plain, strict=True):
        np.testing.assert_allclose(*map(jnp.float32, (mine, theirs)), **rounding)
