"""GlyphNet's products equal its embeddings and convolutions; the GPU kernel equals the product."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.kernels import glyph_rows
from maskless.kernels import glyphs as twins
from maskless.nets import glyphs
from maskless.nets.glyphs import GLYPH_IDS, GLYPHS_IN_USE

from nets.twins import assert_twins

every_precision = pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])


def first_layer(samples, runs=()):
    """Weights, and ids inside and outside the table: right after it, far away and negative."""
    random = np.random.default_rng(0)
    ids = random.integers(-3, GLYPH_IDS + 9, (*runs, samples, 9, 9)).astype(np.int8)
    ids[..., 0, 0, :4] = -128, 127, GLYPHS_IN_USE - 1, GLYPHS_IN_USE
    shapes = (GLYPHS_IN_USE, 32), (9 * 32, 64), (64,)
    scales = 1.0, (9 * 32) ** -0.5, 1.0
    weights = [s * random.normal(size=(*runs, *x)) for x, s in zip(shapes, scales, strict=True)]
    return jnp.asarray(ids), weights


@every_precision
def test_one_product_embeds_and_convolves(dtype):
    ids, weights = first_layer(7)
    plain, ours = (
        lambda table, kernel, bias, f=f: f(ids, table, kernel, bias, dtype)
        for f in (glyphs.embed_and_convolve.__wrapped__, twins.embed_and_convolve)
    )
    assert_twins(plain, ours, weights, dtype=dtype)


def test_the_gpu_kernel_equals_the_product():
    """For two runs, two keys, and several blocks for each program."""
    ids, weights = first_layer(3 * glyph_rows.FORWARD.block // 16, runs=(2,))
    kernel = partial(glyph_rows.embed_and_convolve, interpret=True)
    plain, ours = (
        jax.vmap(lambda table, kernel, bias, ids, f=f: f(ids, table, kernel, bias, jnp.bfloat16))
        for f in (twins.embed_and_convolve, kernel)
    )
    assert_twins(plain, ours, weights, ids, dtype=jnp.bfloat16)


@every_precision
def test_one_product_with_the_whole_map_is_a_convolution(dtype):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=x) for x in [(5, 4, 4, 6), (9 * 6, 7), (7,)]]
    arrays[1] /= (9 * 6) ** 0.5
    plain, ours = (
        lambda x, kernel, bias, f=f: f(x.astype(dtype), kernel, bias)
        for f in (glyphs.convolve_padded.__wrapped__, twins.convolve_padded)
    )
    assert_twins(plain, ours, arrays, dtype=dtype)


@every_precision
def test_tables_are_projected_instead_of_embeddings(dtype):
    """For ids outside the tables too, which give nothing."""
    random = np.random.default_rng(0)
    shapes = (20 + 8 + 7 + 6, 5), (5,), (2, 3, 20), (2, 3, 7), (4, 8), (3, 6)
    arrays = [random.normal(size=shape) for shape in shapes]
    arrays[0] /= len(arrays[0]) ** 0.5
    messages, actions = jnp.int32([[-1, 0, 3], [4, 2, 1]]), jnp.int32([[0, 1, 2], [3, -1, 1]])

    def cast(function):
        def of(kernel, bias, of_map, blstats, message_table, action_table):
            parts = of_map.astype(dtype), blstats.astype(dtype)
            tables = (message_table, messages), (action_table, actions)
            return function(kernel, bias, *parts, *tables)

        return of

    plain = cast(glyphs.project_parts.__wrapped__)
    assert_twins(plain, cast(twins.project_parts), arrays, dtype=dtype)
