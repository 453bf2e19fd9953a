"""What a policy observes: named fields, so that observations can be checked and rules can name
them, whatever class they came in."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array, PyTree

from maskless.errors import MasklessError, require
from maskless.nets.encoders import Encoder

WHOLE = "observation"
"""The name of the only field, when the observation is one array."""
_DTYPES = ("bool", "float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")
_LARGEST_FIELD = 2**28


class PolicyEnvironment(Protocol):
    """As much of an environment as a policy has to know."""

    id: str
    action_names: tuple[str, ...]

    @property
    def observation_shapes(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and types of one observation."""


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
        is_entry = isinstance(entry, dict)
        require(is_entry, "A field of its observation is no entry with a name.")
        name, shape, dtype = entry.get("name"), entry.get("shape"), entry.get("dtype")
        sensible = (
            isinstance(name, str)
            and isinstance(shape, list)
            and all(type(size) is int and size >= 0 for size in shape)
            and math.prod(shape) <= _LARGEST_FIELD
        )
        require(sensible, "A field of its observation has no name or no sensible shape.")
        require(dtype in _DTYPES, f"Its observation {name!r} has the type {dtype!r}.")
        return Field(name or WHOLE, tuple(shape), dtype)


def fields_of(env: PolicyEnvironment) -> list[Field]:
    """What an environment shows, in the order of the leaves of its observation."""
    named = _by_name(env.observation_shapes)
    return [Field(name, tuple(x.shape), str(x.dtype)) for name, x in named.items()]


@jax.tree_util.register_pytree_with_keys_class
class NamedObservation(dict[str, Any]):
    """An observation for a network of the user's own: `obs["speed"]` and `obs.speed` both work,
    whatever class the environment uses. Its leaves are in the order of the fields."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The observation has no {name!r}.") from None

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        return [(jax.tree_util.DictKey(name), x) for name, x in self.items()], tuple(self)

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Sequence[Any]) -> "NamedObservation":
        return cls(zip(names, values, strict=True))


def rebuild(encoder: Encoder | None, fields: Sequence[Field], leaves: Sequence[Any]) -> PyTree:
    """The leaves, in the order of the fields, as the network reads them: what the encoder's own
    `rebuild` makes of them, otherwise one array, a tuple or a `NamedObservation`."""
    named = {field.name: leaf for field, leaf in zip(fields, leaves, strict=True)}
    if type(encoder) is Encoder or (
        encoder is not None and type(encoder).rebuild is not Encoder.rebuild
    ):
        return encoder.rebuild(named)
    return named[WHOLE] if list(named) == [WHOLE] else _nested(named)


def _nested(named: Mapping[str, Any]) -> PyTree:
    """The tree whose leaves have these names, with dots between its levels."""
    tree = NamedObservation()
    for name, leaf in named.items():
        first, dot, rest = name.partition(".")
        if dot:
            tree.setdefault(first, {})[rest] = leaf
        else:
            tree[first] = leaf
    for name, branch in tree.items():
        if type(branch) is dict:
            tree[name] = _nested(branch)
    return tuple(tree.values()) if list(tree) == [str(n) for n in range(len(tree))] else tree


def match(observation: PyTree, fields: Sequence[Field]) -> tuple[list[Any], bool]:
    """The arrays of an observation in the order of the fields, with a batch axis, and whether
    they had one. A mapping with the fields' names serves as well as the environment's own class.
    """
    named = _by_name(observation)
    expected = {field.name for field in fields}
    if len(fields) == 1 and len(named) == 1:
        named = {fields[0].name: next(iter(named.values()))}
    if named.keys() != expected:
        differences = {"missing": expected - named.keys(), "unknown": named.keys() - expected}
        lists = [f"{kind}: {', '.join(sorted(x))}" for kind, x in differences.items() if x]
        raise MasklessError(
            f"The observation does not have the policy's fields: {'; '.join(lists)}."
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
    """The array of a field with a batch axis, if it has the field's shape and type."""
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    if array.shape[int(batched) :] != field.shape or array.ndim != len(field.shape) + batched:
        raise MasklessError(
            f"The observation {field.name!r} must have the shape {list(field.shape)}, or one more"
            f" axis in front for a batch; got {list(array.shape)}."
        )
    require(not batched or array.shape[0] > 0, "The batch of observations is empty.")
    array = _as_type(field, array)
    return array if batched else array[None]


def _as_type(field: Field, array: Any) -> Array | np.ndarray:
    """Numbers of the same kind are converted, as long as that changes no integer."""
    if array.dtype == field.dtype:
        return array
    target = np.dtype(field.dtype)
    same_kind = np.can_cast(array.dtype, target, "same_kind")
    name = field.name
    require(same_kind, f"The observation {name!r} must hold {field.dtype}, not {array.dtype}.")
    converted = array.astype(target)
    if np.issubdtype(target, np.integer) and not isinstance(array, jax.core.Tracer):
        same = np.array_equal(np.asarray(converted), np.asarray(array))
        require(same, f"The observation {name!r} has numbers that do not fit into {field.dtype}.")
    return converted


def _by_name(observation: PyTree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(observation)
    require(bool(leaves), "The observation has no arrays.")
    keystr = jax.tree_util.keystr
    return {keystr(path, simple=True, separator=".") or WHOLE: leaf for path, leaf in leaves}
