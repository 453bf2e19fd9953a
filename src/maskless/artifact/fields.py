"""What a policy observes: named arrays, so that observations can be checked and rules can refer to
them."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from maskless.errors import MasklessError, require
from maskless.files import Size, check_type

WHOLE = "observation"
"""The name of the only field, when the observation is one array."""
_LARGEST_FIELD = 2**28


@dataclasses.dataclass(frozen=True)
class Field:
    """One array of an observation, without batch axis."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @functools.cached_property
    def numpy_dtype(self) -> np.dtype:
        return np.dtype(self.dtype)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}

    @staticmethod
    def from_json(entry: Any) -> "Field":
        """The field that `to_json` wrote; refuses anything else."""
        try:
            field = check_type(entry, _StoredField)
        except MasklessError as error:
            raise MasklessError(f"A field of its observation: {error}.") from error
        name, shape = field["name"], tuple(field["shape"])
        sensible = math.prod(shape) <= _LARGEST_FIELD
        require(sensible, f"Its observation {name!r} has no sensible shape.")
        return Field(name or WHOLE, shape, field["dtype"])


class _StoredField(TypedDict):
    name: str
    shape: list[Size]
    dtype: Literal[
        "bool", "float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32"
    ]


def match_named(
    named: Mapping[str, Any],
    fields: Sequence[Field],
    *,
    as_array: Callable[[Any], Any] = np.asarray,
    is_at_hand: Callable[[Any], bool] = lambda array: True,
) -> tuple[list[Any], bool]:
    """The arrays in the order of the fields, with a batch axis, and whether they had one.

    `as_array`: makes an array of what is none. `is_at_hand`: whether its numbers can be looked at.
    """
    if len(fields) == 1 and len(named) == 1:
        named = {fields[0].name: next(iter(named.values()))}
    elif named.keys() != (expected := {field.name for field in fields}):
        differences = {"missing": expected - named.keys(), "unknown": named.keys() - expected}
        lists = [f"{kind}: {', '.join(sorted(x))}" for kind, x in differences.items() if x]
        raise MasklessError(
            f"The observation does not have the policy's fields: {'; '.join(lists)}."
        )
    arrays = [as_array(named[field.name]) for field in fields]
    batched = arrays[0].ndim > len(fields[0].shape)
    leaves = []
    for field, array in zip(fields, arrays, strict=True):
        _check_shape(field, array, batched)
        known = is_at_hand(array)
        array = _as_type(field, array, known=known)
        if known and np.issubdtype(field.numpy_dtype, np.floating):  # an action would still come
            finite = np.isfinite(np.asarray(array)).all()
            require(finite, f"The observation {field.name!r} has numbers that are NaN or infinite.")
        leaves.append(array if batched else array[None])
    if len(fields) > 1 and len(sizes := {leaf.shape[0] for leaf in leaves}) > 1:
        raise MasklessError(
            f"The fields of the observation have different batch sizes: {sorted(sizes)}."
        )
    return leaves, batched


def _check_shape(field: Field, array: Any, batched: bool) -> None:
    """Refuses other shapes than the field's, behind the axis of a batch."""
    if array.shape[int(batched) :] != field.shape:
        raise MasklessError(
            f"The observation {field.name!r} must have the shape {list(field.shape)}, or one more"
            f" axis in front for a batch; got {list(array.shape)}."
        )
    require(not batched or array.shape[0] > 0, "The batch of observations is empty.")


def _as_type(field: Field, array: Any, known: bool) -> Any:
    """Numbers of the same kind are converted, as long as that changes no integer."""
    target = field.numpy_dtype
    if array.dtype == target:
        return array
    same_kind = np.can_cast(array.dtype, target, "same_kind")
    name = field.name
    require(same_kind, f"The observation {name!r} must hold {field.dtype}, not {array.dtype}.")
    converted = array.astype(target)
    if np.issubdtype(target, np.integer) and known:
        same = np.array_equal(np.asarray(converted), np.asarray(array))
        require(same, f"The observation {name!r} has numbers that do not fit into {field.dtype}.")
    return converted
