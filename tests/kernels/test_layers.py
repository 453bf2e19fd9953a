"""Dense layers with aligned rows and fused biases equal the plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.kernels import layers as twins
from maskless.nets import heads, layers

from nets.parameters import random_parameters
from nets.twins import assert_twins


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("width", [40, 427])
@pytest.mark.parametrize("name", ["linear", "linear_relu"])
def test_bias_and_relu_are_part_of_the_product(name, dtype, width):
    random = np.random.default_rng(0)
    x, kernel = random.normal(size=(2, 3, width)), random.normal(size=(width, 5)) * width**-0.5
    x[0] = 0.0  # there, with a bias of zero, the ReLU stands at its corner
    bias = np.float32([-0.5, 0.0, 0.0, 0.5, 1.0])
    plain, twin = getattr(layers, name).__wrapped__, getattr(twins, name)
    cast = lambda f: lambda x, kernel, bias: f(x.astype(dtype), kernel, bias)  # noqa: E731
    assert_twins(cast(plain), cast(twin), (x, kernel, bias), dtype=dtype)


@pytest.mark.parametrize("hidden", [40, 301])
def test_the_bonus_does_not_change_the_critic(hidden):
    random = np.random.default_rng(0)
    arrays = (random.normal(size=s) for s in [(2, 3, hidden), (hidden, 2), (2,)])
    critic, kernel, bias = (jnp.float32(x) for x in arrays)
    assert_twins(
        heads.two_values.__wrapped__, twins.two_values, (critic, kernel, bias), dtype=jnp.float32
    )
    by_critic = jax.grad(lambda x: heads.two_values(x, kernel, bias)[..., 1].sum())(critic)
    np.testing.assert_array_equal(by_critic, 0.0)


@pytest.mark.parametrize(("width", "computed"), [(7, 7), (300, 300), (427, 448)])
def test_a_layer_of_any_width(width, computed):
    """Values and gradients are those of x W + b in float64; kernels keep their shape."""
    random = np.random.default_rng(0)
    x, d_y = random.normal(size=(2, 3, width)), random.normal(size=(2, 3, 5))
    layer = layers.dense(5)
    params = random_parameters(layer, jnp.float32(x))

    def total(params, x):
        y = layer.apply(params, x)
        return jnp.sum(y * d_y), y

    differentiate = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True))
    (_, y), (d_params, d_x) = differentiate(params, jnp.float32(x))
    kernel, bias = (np.float64(params["params"][name]) for name in ("kernel", "bias"))
    assert kernel.shape == (width, 5)
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(y, x @ kernel + bias, **close)
    np.testing.assert_allclose(d_x, d_y @ kernel.T, **close)
    np.testing.assert_allclose(
        d_params["params"]["kernel"], np.einsum("tbi,tbo->io", x, d_y), **close
    )
    np.testing.assert_allclose(d_params["params"]["bias"], d_y.sum((0, 1)), **close)
    assert width_of_the_product(layer, params, jnp.float32(x)) == computed


def width_of_the_product(layer, params, x):
    equations = jax.make_jaxpr(layer.apply)(params, x).eqns
    (product,) = (e for e in equations if e.primitive.name == "dot_general")
    return product.invars[0].aval.shape[-1]


@pytest.mark.parametrize(("width", "computed"), [(256, 256), (1345, 1408), (8268, 8320)])
def test_rows_of_bfloat16_have_multiples_of_64(width, computed):
    layer, x = layers.dense(5, dtype=jnp.bfloat16), jnp.ones((1, 1, width))
    assert width_of_the_product(layer, random_parameters(layer, x), x) == computed
