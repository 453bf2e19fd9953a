"""What a policy observes: named fields, so that observations can be checked and rules can name
them, whatever class they came in."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array, PyTree

from maskless.artifact.fields import WHOLE, Field, encode, match_named
from maskless.errors import require
from maskless.nets.encoders import Encoder

__all__ = [
    "WHOLE",
    "Field",
    "NamedObservation",
    "PolicyEnvironment",
    "encode_shown",
    "fields_of",
    "match",
    "rebuild",
]


class PolicyEnvironment(Protocol):
    """As much of an environment as a policy has to know."""

    id: str
    action_names: tuple[str, ...]

    @property
    def observation_shapes(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and types of one observation."""


def fields_of(env: PolicyEnvironment) -> list[Field]:
    """What an environment shows, in the order of the leaves of its observation."""
    named = _by_name(env.observation_shapes)
    encodings = getattr(env, "encodings", {})
    return [
        Field(name, tuple(x.shape), str(x.dtype), **encodings.get(name, {}))
        for name, x in named.items()
    ]


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


def encode_shown(observation: PyTree, fields: Sequence[Field]) -> dict[str, np.ndarray]:
    """One observation as an environment shows it, as a policy with these fields reads it."""
    return encode(_by_name(observation), fields)


def match(observation: PyTree, fields: Sequence[Field]) -> tuple[list[Any], bool]:
    """The arrays of an observation in the order of the fields, with a batch axis, and whether
    they had one. A mapping with the fields' names serves as well as the environment's own class.
    """
    return match_named(_by_name(observation), fields, as_array=_as_array, is_at_hand=_is_at_hand)


def _as_array(value: Any) -> Array | np.ndarray:
    return value if isinstance(value, jax.Array) else np.asarray(value)


def _is_at_hand(array: Any) -> bool:
    """What is on an accelerator is not looked at: that would wait for it."""
    if not isinstance(array, jax.Array):
        return True
    traced = isinstance(array, jax.core.Tracer)
    return not traced and all(device.platform == "cpu" for device in array.devices())


def _by_name(observation: PyTree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(observation)
    require(bool(leaves), "The observation has no arrays.")
    keystr = jax.tree_util.keystr
    return {keystr(path, simple=True, separator=".") or WHOLE: leaf for path, leaf in leaves}
