"""Labelled states, the newest ones, in the host's memory."""

from typing import Any

import jax
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, PyTree

BYTES = 2**30
"""About so much is kept at most."""
STATES = 2**19


@struct.dataclass
class Labelled:
    """States as the frozen policy sees them, and what the oracle says of them. [..., ...]"""

    observation: PyTree[Array]
    """As `Environment.record` gives it."""
    features: Float[Array, "... features"]
    logits: Float[Array, "... actions"]
    valid: Bool[Array, "... actions"]


class Memory:
    """A ring: what comes last takes the place of the oldest."""

    def __init__(self, like: Labelled):
        """`like`: some states, for their shapes and types. [states, ...]"""
        of_one = sum(x[0].nbytes for x in jax.tree.leaves(like))
        self.capacity = max(1024, min(STATES, BYTES // of_one))
        self._ring = jax.tree.map(lambda x: np.zeros((self.capacity, *x.shape[1:]), x.dtype), like)
        self._next, self.size = 0, 0

    def add(self, states: Labelled) -> None:
        """[states, ...]"""
        count = len(states.valid)
        places = (self._next + np.arange(count)) % self.capacity

        def write(ring: np.ndarray, new: Any) -> None:
            ring[places] = new

        jax.tree.map(write, self._ring, states)
        self._next = (self._next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> Labelled:
        """States drawn at random, with replacement. [*shape, ...]"""
        members = random.integers(self.size, size=shape)
        return jax.tree.map(lambda ring: ring[members], self._ring)
