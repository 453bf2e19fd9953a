"""What a policy observes: named fields, so that observations can be checked and rules can name
them, whatever class they came in."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from maskless.envs.base import Environment
from maskless.errors import MasklessError
from maskless.nets.encoders import Encoder

WHOLE = "observation"
"""The name of the only field, when the observation is one array."""
_DTYPES = ("bool", "float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")
_LARGEST_FIELD = 2**28


@dataclasses.dataclass(frozen=True)
class Field:
    """One array of an observation, without batch axis."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}

    @staticmethod
    def from_json(entry: Any) -> "Field":
        """The field that `to_json` wrote; refuses anything else."""
        if not isinstance(entry, dict):
            raise MasklessError("A field of its observation is no entry with a name.")
        name, shape, dtype = entry.get("name"), entry.get("shape"), entry.get("dtype")
        if not isinstance(name, str) or not isinstance(shape, list) or not _are_sizes(shape):
            raise MasklessError("A field of its observation has no name or no sensible shape.")
        if dtype not in _DTYPES:
            raise MasklessError(f"Its observation {name!r} has the type {dtype!r}.")
        return Field(name or WHOLE, tuple(shape), dtype)


def _are_sizes(shape: list[Any]) -> bool:
    whole = all(type(size) is int and size >= 0 for size in shape)
    return whole and math.prod(shape) <= _LARGEST_FIELD


def describe_fields(observation: PyTree) -> list[Field]:
    """The fields of one observation (or its `jax.eval_shape`), in the order of its leaves."""
    return [Field(name, tuple(x.shape), str(x.dtype)) for name, x in _named(observation).items()]


def fields_of(env: Environment) -> list[Field]:
    """What an environment shows. One that is not played inside JAX says so itself."""
    shapes = getattr(env, "observation_shapes", None)
    if shapes is None:
        shapes, _ = jax.eval_shape(env.reset, jax.random.key(0))
    return describe_fields(shapes)


def rebuild(encoder: Encoder, fields: Sequence[Field], leaves: Sequence[Any]) -> PyTree:
    """The leaves, in the order of the fields, as the encoder wants them."""
    return encoder.rebuild({field.name: leaf for field, leaf in zip(fields, leaves, strict=True)})


def match(observation: PyTree, fields: Sequence[Field]) -> tuple[list[Any], bool]:
    """The arrays of an observation in the order of the fields, with a batch axis, and whether
    they had one. A mapping with the fields' names serves as well as the environment's own class.
    """
    named = _named(observation)
    expected = {field.name for field in fields}
    if len(fields) == 1 and len(named) == 1:
        named = {fields[0].name: next(iter(named.values()))}
    if named.keys() != expected:
        missing, unknown = sorted(expected - named.keys()), sorted(named.keys() - expected)
        raise MasklessError(
            "The observation does not have the policy's fields: "
            + "; ".join(
                f"{what}: {', '.join(names)}"
                for what, names in (("missing", missing), ("unknown", unknown))
                if names
            )
            + "."
        )
    first = fields[0]
    batched = np.ndim(named[first.name]) > len(first.shape)
    leaves = [_check(field, named[field.name], batched) for field in fields]
    sizes = {leaf.shape[0] for leaf in leaves}
    if len(sizes) > 1:
        raise MasklessError(
            f"The fields of the observation have different batch sizes: {sorted(sizes)}."
        )
    return leaves, batched


def _check(field: Field, value: Any, batched: bool) -> Array | np.ndarray:
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    if (
        array.shape[1 if batched else 0 :] != field.shape
        or array.ndim != len(field.shape) + batched
    ):
        raise MasklessError(
            f"The observation {field.name!r} must have the shape {list(field.shape)}, or one more"
            f" axis in front for a batch; got {list(array.shape)}."
        )
    if batched and array.shape[0] == 0:
        raise MasklessError("The batch of observations is empty.")
    array = _as_type(field, array)
    return array if batched else array[None]


def _as_type(field: Field, array: Any) -> Array | np.ndarray:
    """Numbers of the same kind are converted, as long as that changes no integer."""
    if array.dtype == field.dtype:
        return array
    target = np.dtype(field.dtype)
    if not np.can_cast(array.dtype, target, "same_kind"):
        raise MasklessError(
            f"The observation {field.name!r} must hold {field.dtype}, not {array.dtype}."
        )
    converted = array.astype(target)
    seen = np.issubdtype(target, np.integer) and not isinstance(array, jax.core.Tracer)
    if seen and not np.array_equal(np.asarray(converted), np.asarray(array)):
        raise MasklessError(
            f"The observation {field.name!r} has numbers that do not fit into {field.dtype}."
        )
    return converted


def _named(observation: PyTree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(observation)
    if not leaves:
        raise MasklessError("The observation has no arrays.")
    keystr = jax.tree_util.keystr
    return {keystr(path, simple=True, separator=".") or WHOLE: leaf for path, leaf in leaves}
