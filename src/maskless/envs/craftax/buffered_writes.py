"""A large array with a buffer of writes: reads apply the buffer to what they read, and the array
itself is written once, in one pass, when it leaves the game step.

A step of Craftax reads and writes single squares of nine floors' maps, a hundred times in turn.
Applied one by one, each write would read and write the whole array. A read of one square only has
to compare its index with those of the writes before it.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Write:
    """`array[index] = value` where `index` fixes some of the axes; only if `condition`."""

    index: dict[int, Any]
    """Axis -> scalar. Where it lies outside the array, nothing is written."""
    value: Any
    """An array over the other axes, in their order."""
    condition: Any = True


@dataclasses.dataclass(frozen=True)
class BufferedWrites:
    """The array `base` after these writes, in this order."""

    base: Any
    writes: tuple[Write, ...] = ()

    def write(self, index: dict[int, Any], value: Any) -> "BufferedWrites":
        return BufferedWrites(self.base, (*self.writes, Write(index, value)))

    def read(self, index: dict[int, Any]) -> Any:
        """The part at this index (inside the array); indexed axes stay, with one element."""
        shape = self.base.shape
        starts = [index.get(axis, 0) for axis in range(len(shape))]
        sizes = [1 if axis in index else size for axis, size in enumerate(shape)]
        return self._apply(jax.lax.dynamic_slice(self.base, starts, sizes), index)

    def flush(self) -> Any:
        """The array with all writes applied."""
        return self._apply(self.base, {})

    def _apply(self, part: Any, index: dict[int, Any]) -> Any:
        """`part`, which is `base` at this index, after all writes."""
        for write in self.writes:
            here, value = self._overlap(write, index, part.shape)
            part = jnp.where(here, value, part)
        return part

    def _overlap(
        self, write: Write, index: dict[int, Any], shape: tuple[int, ...]
    ) -> tuple[Any, Any]:
        """Which elements of the part at `index`, of this shape, the write sets, and to what."""
        here = write.condition & _same_elements(write.index, index, self.base.shape, shape)
        value, axes = write.value, [a for a in range(len(shape)) if a not in write.index]
        for position, axis in enumerate(axes):
            if axis in index:
                value = jax.lax.dynamic_slice_in_dim(value, index[axis], 1, position)
        return here, jax.lax.broadcast_in_dim(value, shape, axes)


def select(condition: Any, no: BufferedWrites, yes: BufferedWrites) -> BufferedWrites | None:
    """`yes` if `condition`, else `no`; None if neither's writes begin with those of the other.

    The writes that only one of them has become conditional.
    """
    if no.base is not yes.base:
        return None
    longer, taken = (yes, condition) if len(yes.writes) >= len(no.writes) else (no, ~condition)
    common = min(len(yes.writes), len(no.writes))
    if any(a is not b for a, b in zip(yes.writes[:common], no.writes[:common], strict=True)):
        return None
    rest = (
        dataclasses.replace(write, condition=write.condition & taken)
        for write in longer.writes[common:]
    )
    return BufferedWrites(yes.base, (*longer.writes[:common], *rest))


def _same_elements(
    written: dict[int, Any], read: dict[int, Any], whole: tuple[int, ...], shape: tuple[int, ...]
) -> Any:
    """Which elements of a part, `shape`, at index `read` are those at index `written`.

    Compared as one number each, not axis by axis: every element of the array asks this of every
    write.
    """
    inside = [(index >= 0) & (index < whole[axis]) for axis, index in written.items()]
    strides = {axis: math.prod(whole[a] for a in written if a > axis) for axis in written}
    element = sum(index * strides[axis] for axis, index in written.items())
    element = jnp.where(jnp.stack(inside).all(), element, -1)

    def position(axis: int) -> Any:
        if axis in read:
            return read[axis]
        return jax.lax.broadcasted_iota(element.dtype, shape, axis)

    return jnp.broadcast_to(sum(position(a) * strides[a] for a in written) == element, shape)
