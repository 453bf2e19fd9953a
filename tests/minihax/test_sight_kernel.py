"""The GPU kernels of the free view, run in NumPy, against the slow reference.

JAX can interpret kernels too, but takes twenty seconds to compile these.
"""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import reference_sight

from minihax.level.terrain import HEIGHT, WIDTH
from minihax.sight import bitmaps, free_view
from minihax.sight import kernel as sight_kernel

BATCH = sight_kernel.NEAR_LANES


class Memory(np.ndarray):
    """An array of a kernel; `at` gives a place in it."""

    @property
    def at(self):
        array = self

        class Places:
            def __getitem__(self, index):
                return array, index

        return Places()


@pytest.fixture
def in_numpy(monkeypatch):
    """Replaces what the kernels use of JAX. Programs run one after the other."""
    running = {}

    def pallas_call(kernel, *, out_shape, grid, input_output_aliases=(), **_):
        shapes = out_shape if isinstance(out_shape, list) else [out_shape]

        def call(*arrays):
            given = [np.array(a).view(Memory) for a in arrays]
            outcomes = [np.full(s.shape, 7, s.dtype).view(Memory) for s in shapes]
            for k, out in dict(input_output_aliases).items():
                outcomes[out] = given[k]
            for program in itertools.product(*map(range, grid)):
                running.update(program=program, grid=grid)
                kernel(*given, *outcomes)
            plain = [np.asarray(o) for o in outcomes]
            return plain if isinstance(out_shape, list) else plain[0]

        return call

    def store(place, value, *, mask):
        array, index = place
        array[tuple(np.broadcast_to(i, mask.shape)[mask] for i in index)] = value[mask]

    def fori_loop(first, end, body, state):
        for k in range(int(first), int(end)):
            state = body(np.int32(k), state)
        return state

    for module in (sight_kernel, bitmaps, free_view):
        monkeypatch.setattr(module, "jnp", np)
    monkeypatch.setattr(sight_kernel.pl, "pallas_call", pallas_call)
    monkeypatch.setattr(sight_kernel.pl, "program_id", lambda axis: running["program"][axis])
    monkeypatch.setattr(sight_kernel.pl, "num_programs", lambda axis: running["grid"][axis])
    monkeypatch.setattr(sight_kernel.triton, "store", store)
    monkeypatch.setattr(sight_kernel.jax.lax, "fori_loop", fori_loop)
    # Outside of kernels, and NumPy knows no `.at`.
    monkeypatch.setattr(sight_kernel, "_compact_indices", listed)
    # Few programs, so that each has several parts of the list.
    monkeypatch.setattr(sight_kernel, "FAR_PROGRAMS", 3)


def listed(farther):
    numbers = np.flatnonzero(farther)
    return np.resize(numbers, farther.size), np.int32([numbers.size])


def test_the_view_agrees_with_the_reference(in_numpy):
    """Noise, from dense to none: all rules, near and far, from every side."""
    random = np.random.default_rng(0)
    free = random.choice([0.3, 0.6, 0.8, 0.95, 0.99, 1.0], (BATCH, 1, 1))
    clear = random.random((BATCH, HEIGHT, WIDTH)) < free
    clear[:, [0, -1]] = clear[:, :, [0, -1]] = False
    y, x = (random.integers(1, n - 1, BATCH, np.int32) for n in (HEIGHT, WIDTH))
    bits = np.packbits(np.pad(clear, ((0, 0), (0, 0), (0, 16))), -1, bitorder="little")
    words = tuple(np.ascontiguousarray(word) for word in bits.view("<u4").transpose(2, 1, 0))
    seen = np.stack(sight_kernel.could_see(None, words, y, x)).transpose(2, 1, 0)
    fast = np.unpackbits(np.ascontiguousarray(seen).view(np.uint8), -1, bitorder="little")
    for k in range(BATCH):
        slow = reference_sight.could_see(clear[k], y[k], x[k])
        np.testing.assert_array_equal(fast[k, :, :WIDTH], slow)


def test_the_list_of_far_quadrants():
    lanes, count = sight_kernel._compact_indices(jnp.int32([0, 1, 0, 1, 1, 0]))
    assert int(count[0]) == 3
    np.testing.assert_array_equal(lanes[:3], [1, 3, 4])


def test_only_whole_blocks_fit():
    assert sight_kernel.fits(3 * BATCH)
    assert not sight_kernel.fits(3 * BATCH + 1)
