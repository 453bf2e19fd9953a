"""What a policy observes: named arrays, so that observations can be checked and rules can refer to
them."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from maskless.errors import MasklessError, require
from maskless.files import Number, Size, Whole, check_type

WHOLE = "observation"
"""The name of the only field, when the observation is one array."""
_LARGEST_FIELD, _MOST_AXES = 2**28, 32
_HOW_TO = ": policy.encode(observation) makes that of what the environment shows."


@dataclasses.dataclass(frozen=True)
class Field:
    """One array of an observation, without batch axis."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    one_hot: tuple[tuple[int, int], ...] = dataclasses.field(default=(), compare=False)
    """It stands for numbers from closed lists: the first number and the length of each list."""
    divided_by: float | None = dataclasses.field(default=None, compare=False)
    """It stands for an image, whose numbers were divided by this."""

    @functools.cached_property
    def numpy_dtype(self) -> np.dtype:
        return np.dtype(self.dtype)

    def to_json(self) -> dict[str, Any]:
        entry = {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}
        return entry | self.encoding

    @property
    def encoding(self) -> dict[str, Any]:
        """How it was made of what the environment shows; empty: it is shown so."""
        encoding: dict[str, Any] = {}
        if self.one_hot:
            encoding["one_hot"] = [list(numbers) for numbers in self.one_hot]
        if self.divided_by is not None:
            encoding["divided_by"] = self.divided_by
        return encoding

    def encode(self, shown: Any) -> np.ndarray:
        """This array, from what the environment shows."""
        array = np.asarray(shown)
        if self.divided_by is not None:
            return array.astype(np.float32) / np.float32(self.divided_by)
        if not self.one_hot:
            return array
        first, sizes = np.array(self.one_hot).T
        whole = array.size == len(sizes) and array.dtype.kind in "iub"
        require(whole, f"The observation {self.name!r} must be {len(sizes)} whole numbers.")
        numbers = array.ravel() - first
        known = ((numbers >= 0) & (numbers < sizes)).all()
        require(known, f"The observation {self.name!r} is {shown}, which is not on its lists.")
        encoded = np.zeros(sizes.sum(), np.float32)
        encoded[np.cumsum(sizes) - sizes + numbers] = 1.0
        return encoded

    @staticmethod
    def from_json(entry: Any) -> "Field":
        """The field that `to_json` wrote; refuses anything else."""
        try:
            field = check_type(entry, _StoredField)
        except MasklessError as error:
            raise MasklessError(f"A field of its observation: {error}.") from error
        name, shape = field["name"], tuple(field["shape"])
        sensible = len(shape) <= _MOST_AXES and math.prod(shape) <= _LARGEST_FIELD
        require(sensible, f"Its observation {name!r} has no sensible shape.")
        one_hot, divided_by = tuple(field.get("one_hot", ())), field.get("divided_by")
        sizes = [size for _, size in one_hot]
        fits = not one_hot or (all(sizes) and (sum(sizes),) == shape)
        fits = fits and (divided_by is None or divided_by > 0)
        require(fits, f"Its observation {name!r} is not made as its shape says.")
        return Field(name or WHOLE, shape, field["dtype"], one_hot, divided_by)


class _StoredField(TypedDict):
    name: str
    shape: list[Size]
    dtype: Literal[
        "bool", "float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32"
    ]
    one_hot: NotRequired[list[tuple[Whole, Size]]]
    divided_by: NotRequired[Number]


def encode(shown: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, np.ndarray]:
    """One observation as an environment shows it, as a policy reads it. `shown`: by name; what is
    not one of the fields, such as a mask, is left out."""
    missing = sorted({field.name for field in fields} - shown.keys())
    require(not missing, f"The observation has no {', '.join(missing)}.")
    return {field.name: field.encode(shown[field.name]) for field in fields}


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
        advice = _HOW_TO if field.encoding else "."
        raise MasklessError(
            f"The observation {field.name!r} must have the shape {list(field.shape)}, or one more"
            f" axis in front for a batch; got {list(array.shape)}{advice}"
        )
    require(not batched or array.shape[0] > 0, "The batch of observations is empty.")


def _as_type(field: Field, array: Any, known: bool) -> Any:
    """Numbers of the same kind are converted, as long as that changes no integer."""
    target = field.numpy_dtype
    if array.dtype == target:
        return array
    same_kind = np.can_cast(array.dtype, target, "same_kind")
    name = field.name
    raw = field.divided_by is not None and array.dtype == np.uint8
    require(not raw, f"The observation {name!r} was trained on as float32{_HOW_TO}")
    require(same_kind, f"The observation {name!r} must hold {field.dtype}, not {array.dtype}.")
    converted = array.astype(target)
    if np.issubdtype(target, np.integer) and known:
        same = np.array_equal(np.asarray(converted), np.asarray(array))
        require(same, f"The observation {name!r} has numbers that do not fit into {field.dtype}.")
    return converted
