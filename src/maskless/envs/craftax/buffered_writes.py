"""A large array with writes that are waiting: reads look through them, and only what leaves the
game step is written out, in one pass.

A step of Craftax reads and writes single squares of nine floors' maps, a hundred times in turn.
Written out each time, or just twice, that is the whole game's memory read and written again; a
read of one square needs to know no more than where the writes since went.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Write:
    """`array[index] = value` at some axes, for all of the others; only if `condition`."""

    index: dict[int, Any]
    """Axis -> scalar. A place outside the array is no place: nothing is written."""
    value: Any
    """Over the other axes, in their order."""
    condition: Any = True


@dataclasses.dataclass(frozen=True)
class Pending:
    """What `base` is after these writes, one after the other."""

    base: Any
    writes: tuple[Write, ...] = ()

    def write(self, index: dict[int, Any], value: Any) -> "Pending":
        return Pending(self.base, (*self.writes, Write(index, value)))

    def read(self, index: dict[int, Any]) -> Any:
        """The part at this index (inside the array), with axes of one element in its place."""
        shape = self.base.shape
        starts = [index.get(axis, 0) for axis in range(len(shape))]
        sizes = [1 if axis in index else size for axis, size in enumerate(shape)]
        return self._after_writes(jax.lax.dynamic_slice(self.base, starts, sizes), index)

    def written_out(self) -> Any:
        """The array."""
        return self._after_writes(self.base, {})

    def _after_writes(self, found: Any, index: dict[int, Any]) -> Any:
        """What has become of the part of `base` at this index."""
        for write in self.writes:
            here, value = self._there(write, index, found.shape)
            found = jnp.where(here, value, found)
        return found

    def _there(
        self, write: Write, index: dict[int, Any], shape: tuple[int, ...]
    ) -> tuple[Any, Any]:
        """Of the part at `index`, which has this shape: where the write goes, and what it says."""
        here = write.condition & _same_place(write.index, index, self.base.shape, shape)
        value, axes = write.value, [a for a in range(len(shape)) if a not in write.index]
        for position, axis in enumerate(axes):
            if axis in index:
                value = jax.lax.dynamic_slice_in_dim(value, index[axis], 1, position)
        return here, jax.lax.broadcast_in_dim(value, shape, axes)


def chosen(choice: Any, no: Pending, yes: Pending) -> Pending | None:
    """The second array where `choice`, else the first; None when neither continues the other."""
    if no.base is not yes.base:
        return None
    longer, taken = (yes, choice) if len(yes.writes) >= len(no.writes) else (no, ~choice)
    common = min(len(yes.writes), len(no.writes))
    if any(a is not b for a, b in zip(yes.writes[:common], no.writes[:common], strict=True)):
        return None
    rest = (
        dataclasses.replace(write, condition=write.condition & taken)
        for write in longer.writes[common:]
    )
    return Pending(yes.base, (*longer.writes[:common], *rest))


def _same_place(
    written: dict[int, Any], read: dict[int, Any], whole: tuple[int, ...], shape: tuple[int, ...]
) -> Any:
    """Which elements of a part, `shape`, at index `read` are those at index `written`.

    Compared as one number each, not axis by axis: every element of the array asks this of every
    write.
    """
    inside = [(index >= 0) & (index < whole[axis]) for axis, index in written.items()]
    strides = {axis: math.prod(whole[a] for a in written if a > axis) for axis in written}
    place = sum(index * strides[axis] for axis, index in written.items())
    place = jnp.where(jnp.stack(inside).all(), place, -1)

    def position(axis: int) -> Any:
        if axis in read:
            return read[axis]
        return jax.lax.broadcasted_iota(place.dtype, shape, axis)

    return jnp.broadcast_to(sum(position(a) * strides[a] for a in written) == place, shape)
