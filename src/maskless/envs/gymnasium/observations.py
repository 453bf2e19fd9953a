"""What a Gymnasium environment shows, as arrays that a network reads."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Float, PyTree

from maskless.artifact.fields import WHOLE
from maskless.errors import MasklessError

MASK = "action_mask"
"""The key of the mask in `info` or in a dict observation."""
Observation = PyTree[np.ndarray]


def arrays(space: spaces.Space, value: Any, name: str = "the observation") -> Observation:
    """An element of `space` as arrays: float32, numbers from closed lists one-hot, images (all
    that is uint8) divided by the largest number their space allows, without an `action_mask`.

    What does not belong to the space, by shape or kind of number, is refused; `name` is what it is
    called then."""
    match space:
        case spaces.Dict():
            parts = {key: part for key, part in space.items() if key != MASK}
            _check_keys(parts, value, name)
            return {
                key: arrays(part, value[key], f"{name}[{key!r}]") for key, part in parts.items()
            }
        case spaces.Tuple():
            if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                raise MasklessError(f"{name} is not a tuple of {len(space.spaces)} parts.")
            pairs = zip(space.spaces, value, strict=True)
            return tuple(arrays(part, v, f"{name}[{n}]") for n, (part, v) in enumerate(pairs))
        case spaces.Discrete():
            return _one_hot(_number(value, name) - int(space.start), int(space.n), name)
        case spaces.MultiDiscrete():
            whole = _element(space, value, name)
            numbers, sizes = (whole - space.start).ravel(), space.nvec.ravel()
            return np.concatenate(
                [_one_hot(int(n), int(size), name) for n, size in zip(numbers, sizes, strict=True)]
            )
        case spaces.Box() if space.dtype == np.uint8:
            scale = np.float32(max(space.high.max(), 1))
            return np.asarray(_element(space, value, name), np.float32) / scale
        case spaces.Box() | spaces.MultiBinary():
            return np.asarray(_element(space, value, name), np.float32)
    raise MasklessError(
        f"An observation of the kind {type(space).__name__} is not understood: wrap the environment"
        " so that it shows arrays, numbers, or dicts and tuples of them."
    )


def encodings(space: spaces.Space, name: str = "") -> dict[str, dict[str, Any]]:
    """How `arrays` makes the fields of an observation (`artifact.fields.Field`), by name; without
    those that are shown as they are."""
    match space:
        case spaces.Dict() | spaces.Tuple():
            parts = space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
            inside = (
                encodings(part, f"{name}.{key}" if name else str(key))
                for key, part in parts
                if key != MASK
            )
            return {field: how for found in inside for field, how in found.items()}
        case spaces.Discrete():
            return {name or WHOLE: {"one_hot": ((int(space.start), int(space.n)),)}}
        case spaces.MultiDiscrete():
            lists = zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True)
            return {name or WHOLE: {"one_hot": tuple(lists)}}
        case spaces.Box() if space.dtype == np.uint8:
            return {name or WHOLE: {"divided_by": float(max(space.high.max(), 1))}}
    return {}


def check_finite(observation: Observation) -> None:
    """Refuses NaN and infinity, and says where they are."""
    if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(observation)):
        return
    for path, leaf in jax.tree.leaves_with_path(observation):
        if not np.isfinite(leaf).all():
            odd = leaf[~np.isfinite(leaf)][0]
            raise MasklessError(
                f"the observation{jax.tree_util.keystr(path)} holds {odd}: networks cannot read NaN"
                " or infinity."
            )


def _check_keys(parts: Mapping[str, Any], value: Any, name: str) -> None:
    if not isinstance(value, Mapping):
        raise MasklessError(f"{name} is {type(value).__name__}, but its space is a Dict.")
    missing = [key for key in parts if key not in value]
    if missing:
        raise MasklessError(f"{name} has no {missing[0]!r}, which its space has.")


def _element(space: spaces.Space, value: Any, name: str) -> np.ndarray:
    """`value`, whose shape and kind of number must be those of the space."""
    array = np.asarray(value)
    if array.shape != space.shape:
        raise MasklessError(
            f"{name} has the shape {array.shape}, but its space says {space.shape}."
        )
    whole = space.dtype is None or space.dtype.kind in "iub"
    if array.dtype.kind not in ("iub" if whole else "iubf"):
        raise MasklessError(
            f"{name} is {array.dtype}, but its space says {space.dtype}: give the environment the"
            " space that it shows."
        )
    return array


def _number(value: Any, name: str) -> int:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iub":
        raise MasklessError(f"{name} is {value!r}, but its space says one whole number.")
    return int(array.reshape(()))


def _one_hot(number: int, size: int, name: str) -> Float[np.ndarray, " size"]:
    if not 0 <= number < size:
        raise MasklessError(
            f"{name} is number {number} of a list of {size}, counted from 0: its space does not"
            " contain it."
        )
    row = np.zeros(size, np.float32)
    row[number] = 1.0
    return row
