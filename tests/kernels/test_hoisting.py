"""What depends on the parameters alone is computed before the loop, and nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np

from maskless.kernels.hoisting import beforehand
from maskless.nets.heads import rectified


def network(params, x, shift):
    """Rounds and pads its weights, has a custom derivative, and gives several things."""
    kernel = jnp.pad(params["kernel"], ((0, 1), (0, 0))).astype(jnp.bfloat16)
    hidden = rectified(jnp.pad(x, ((0, 0), (0, 1))).astype(jnp.bfloat16), kernel, params["bias"])
    return {"hidden": hidden, "shifted": jnp.tanh(x) + shift, "bias": params["bias"]}


def arguments(runs):
    random = np.random.default_rng(0)
    params = {"kernel": random.normal(size=(runs, 3, 4)), "bias": random.normal(size=(runs, 4))}
    return jax.tree.map(jnp.float32, params), jnp.float32(random.normal(size=(runs, 5, 3)))


def test_the_same_numbers_in_a_loop_and_for_several_runs():
    params, x = arguments(runs=2)

    def in_a_loop(params, x):
        see = beforehand(network, params, x, 0.0)
        return jax.lax.map(lambda shift: see(x * shift, shift), jnp.arange(3.0))

    ours = jax.jit(jax.vmap(in_a_loop))(params, x)
    for shift in range(3):
        expected = jax.vmap(lambda params, x, n=float(shift): network(params, x * n, n))(params, x)
        jax.tree.map(np.testing.assert_array_equal, {k: ours[k][:, shift] for k in ours}, expected)


def test_what_is_left_for_the_loop():
    params, x = jax.tree.map(lambda x: x[0], arguments(runs=1))
    see = beforehand(network, params, x, 0.0)
    whole, left = (
        [e.primitive.name for e in jax.make_jaxpr(f)(x, 0.0).eqns]
        for f in (lambda x, shift: network(params, x, shift), see)
    )
    assert (whole.count("jit"), left.count("jit")) == (2, 1)  # x is still padded, the kernel not
    assert "tanh" in left
