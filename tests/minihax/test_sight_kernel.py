"""The GPU kernels of the free view, in Pallas' interpreter, against the slow reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_sight

from minihax.level.terrain import HEIGHT, WIDTH
from minihax.sight import kernel as sight_kernel

BATCH = sight_kernel.NEAR_LANES


@pytest.mark.slow  # twenty seconds to compile
def test_the_view_agrees_with_the_reference(monkeypatch):
    """Noise, from dense to none: all rules, near and far, from every side."""
    # Few programs, so that each has several parts of the list of far quadrants.
    monkeypatch.setattr(sight_kernel, "FAR_PROGRAMS", 3)
    random = np.random.default_rng(0)
    free = random.choice([0.3, 0.6, 0.8, 0.95, 0.99, 1.0], (BATCH, 1, 1))
    clear = random.random((BATCH, HEIGHT, WIDTH)) < free
    clear[:, [0, -1]] = clear[:, :, [0, -1]] = False
    y, x = (random.integers(1, n - 1, BATCH, np.int32) for n in (HEIGHT, WIDTH))
    bits = np.packbits(np.pad(clear, ((0, 0), (0, 0), (0, 16))), -1, bitorder="little")
    words = tuple(np.ascontiguousarray(word) for word in bits.view("<u4").transpose(2, 1, 0))
    could_see = functools.partial(sight_kernel.could_see, interpret=True)
    visible = jax.jit(could_see)(jnp.bool_(True), words, y, x)
    visible = np.ascontiguousarray(np.stack(visible).transpose(2, 1, 0)).view(np.uint8)
    fast = np.unpackbits(visible, -1, bitorder="little")
    for k in range(BATCH):
        slow = reference_sight.could_see(clear[k], y[k], x[k])
        # The border is solid and dark: nobody sees whether it is in view.
        np.testing.assert_array_equal(fast[k, :, 1 : WIDTH - 1], slow[:, 1:-1])


def test_the_list_of_far_quadrants():
    lanes, count = sight_kernel._compact_indices(jnp.int32([0, 1, 0, 1, 1, 0]))
    assert int(count[0]) == 3
    np.testing.assert_array_equal(lanes[:3], [1, 3, 4])


def test_only_whole_blocks_fit():
    assert sight_kernel.fits(3 * BATCH)
    assert not sight_kernel.fits(3 * BATCH + 1)
