"""Random orthogonal matrices: orthogonal, and drawn uniformly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.nets.orthogonal import orthogonal


@pytest.mark.parametrize("shape", [(40, 40), (60, 7), (7, 60), (1, 3), (1, 1)])
def test_the_shorter_side_is_orthonormal(shape):
    matrix = orthogonal(2.0)(jax.random.key(0), shape)
    assert matrix.shape == shape
    tall = matrix if shape[0] >= shape[1] else matrix.T
    np.testing.assert_allclose(tall.T @ tall, 4.0 * jnp.eye(min(shape)), atol=2e-5)


def test_all_orthogonal_matrices_are_equally_likely():
    """Moments of the uniform distribution on 4 x 3 orthonormal columns, by symmetry: means 0,
    squares 1/4, fourth powers 3/24, and of two columns together 5/72 and -1/72."""
    keys = jax.random.split(jax.random.key(1), 100_000)
    q = jax.vmap(lambda key: orthogonal()(key, (4, 3)))(keys)
    np.testing.assert_allclose(q.mean(0), 0.0, atol=0.01)
    np.testing.assert_allclose((q**2).mean(0), 1 / 4, atol=0.01)
    np.testing.assert_allclose((q**4).mean(0), 3 / 24, atol=0.01)
    np.testing.assert_allclose((q[:, 0, 0] ** 2 * q[:, 1, 1] ** 2).mean(), 5 / 72, atol=2e-3)
    corner = q[:, 0, 0] * q[:, 1, 1] * q[:, 0, 1] * q[:, 1, 0]
    np.testing.assert_allclose(corner.mean(), -1 / 72, atol=1e-3)
