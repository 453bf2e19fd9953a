"""Parameters for tests that do not care how networks begin."""

import jax
import jax.numpy as jnp
import numpy as np


def random_parameters(module, *arguments, seed=0):
    """Random numbers in the place of `module.init`, whose random numbers take long to compile.

    Every parameter is away from zero, biases too, and about as large as after `init`.
    """
    random = np.random.default_rng(seed)

    def fill(x):
        scale = x.shape[-2] ** -0.5 if len(x.shape) > 1 else 0.5
        return jnp.asarray(scale * random.normal(size=x.shape), jnp.float32)

    shapes = jax.eval_shape(module.init, jax.random.key(0), *arguments)
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(shapes))
    return jax.tree.map(fill, shapes)
