"""The GPU kernel of GlyphNet's first layer, interpreted: the numbers of the product it replaces."""

import jax
import jax.numpy as jnp
import numpy as np

from maskless.kernels.glyph_rows import FORWARD, fits, keys_of, rectified_rows
from maskless.nets.encoders import one_hots_and_rows
from maskless.nets.heads import rectified

PLACES, IDS, WIDTH, RUNS = 7, 24, 16, 2


def test_values_and_gradients_for_several_runs():
    """For all ids, those outside the tables too; two keys, and several blocks for each program."""
    random = np.random.default_rng(0)
    ids = jnp.int8(random.integers(-3, 60, (RUNS, PLACES, 6 * FORWARD.block)))
    tables = jnp.float32(random.normal(size=(RUNS, PLACES, IDS, WIDTH)))
    bias = jnp.float32(random.normal(size=(RUNS, WIDTH)))
    wanted = jnp.bfloat16(random.normal(size=(6 * FORWARD.block, WIDTH)))

    def both(of):
        def total(tables, bias, ids):
            said = of(tables.astype(jnp.bfloat16), ids, bias)
            return jnp.sum(said * wanted, dtype=jnp.float32), said

        gradient = jax.grad(total, argnums=(0, 1), has_aux=True)
        (by_tables, by_bias), said = jax.jit(jax.vmap(gradient))(tables, bias, ids)
        return said.astype(jnp.float32), by_tables, by_bias

    def plain(tables, ids, bias):
        return rectified(*one_hots_and_rows(tables, ids.T, jnp.bfloat16), bias)

    def with_kernel(tables, ids, bias):
        return rectified_rows(tables, keys_of(list(ids), IDS), bias, True)

    for mine, theirs in zip(both(with_kernel), both(plain), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0.02, atol=0.05)


def test_only_whole_blocks_fit():
    assert fits(3 * FORWARD.block)
    assert not fits(FORWARD.block + 16)
