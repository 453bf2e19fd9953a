"""Comparing a twin with its plain function."""

import jax
import jax.numpy as jnp
import numpy as np

ROUNDING = {jnp.float32: 1e-5, jnp.bfloat16: 0.03}


def assert_twins(plain, twin, floats, *others, dtype):
    """Values, and the gradients by all of `floats`, of functions (*floats, *others).

    Each array may differ by the dtype's rounding, as a share of its length as a vector: in
    bfloat16 a single number may well fall on the other side of a ReLU's corner.
    """
    floats = [jnp.float32(x) for x in floats]

    def both(function):
        def total(*floats):
            outputs = function(*floats, *others)
            leaves = [x.astype(jnp.float32) for x in jax.tree.leaves(outputs)]
            return sum(jnp.sum(jnp.sin(1.0 + i + x)) for i, x in enumerate(leaves)), outputs

        gradient = jax.value_and_grad(total, argnums=tuple(range(len(floats))), has_aux=True)
        (_, outputs), gradients = jax.jit(gradient)(*floats)
        assert all(x.dtype == jnp.float32 for x in gradients)
        return jax.tree.leaves((outputs, gradients))

    for expected, ours in zip(both(plain), both(twin), strict=True):
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        ours, expected = np.float64(ours), np.float64(expected)
        assert np.linalg.norm(expected) > 0
        assert np.linalg.norm(ours - expected) <= ROUNDING[dtype] * np.linalg.norm(expected)
