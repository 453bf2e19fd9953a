"""Random orthogonal matrices without LAPACK.

`jax.nn.initializers.orthogonal` takes a QR decomposition. On a CPU with few cores several of those
in one program can hang (OpenBLAS's threads and XLA's wait for each other; seen with JAX 0.10), and
on a GPU each costs seconds. Householder reflections need neither, and can be compiled.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


def orthogonal(gain: float = 1.0) -> Callable[..., Any]:
    """An initializer: `gain` times a matrix with orthonormal columns (or rows, if they are fewer),
    drawn uniformly from all of these (Stewart, 1980)."""

    def init(key: PRNGKeyArray, shape: tuple[int, int], dtype: Any = jnp.float32) -> Array:
        rows, columns = shape
        matrix = _orthonormal_columns(key, max(shape), min(shape))
        return (gain * (matrix if rows >= columns else matrix.T)).astype(dtype)

    return init


def _orthonormal_columns(
    key: PRNGKeyArray, rows: int, columns: int
) -> Float[Array, "rows columns"]:
    """The product of one reflection per column, each in a random direction of the dimensions that
    the columns before it have left, with random signs."""
    directions = jax.random.normal(key, (columns, rows))

    def reflect(number: Array, matrix: Array) -> Array:
        column = columns - 1 - number
        direction = jnp.where(jnp.arange(rows) >= column, directions[column], 0.0)
        length = jnp.linalg.norm(direction)
        sign = jnp.where(direction[column] < 0.0, -1.0, 1.0)
        mirror = direction.at[column].add(sign * length)
        mirror = mirror / jnp.linalg.norm(mirror)
        return -sign * (matrix - 2.0 * jnp.outer(mirror, mirror @ matrix))

    # The sign of a reflection turns all columns made so far; each column's own is still random.
    return jax.lax.fori_loop(0, columns, reflect, jnp.eye(rows, columns))
