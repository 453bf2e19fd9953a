"""Leaves of a pytree as what a safetensors file can hold, and back, bit for bit.

Integers are stored in the smallest type that holds them (game maps are int32 with values below 64,
and are most of a state). Types that safetensors' NumPy side does not know (bfloat16, ...) are
stored as their bytes, typed PRNG keys as their data.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, Shaped

from maskless.errors import MasklessError

_SMALLER = tuple(np.dtype(name) for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32"))
_PLAIN = {
    np.dtype(name)
    for name in ("bool", "int64", "uint64", "float16", "float32", "float64", "complex64")
} | set(_SMALLER)


def leaf_names(tree: PyTree) -> list[str]:
    """The path of each leaf, such as `params/Dense_0/kernel`, in the order of `jax.tree.leaves`.

    Whether a part is a dict, a tuple or a dataclass does not matter, so that a checkpoint can be
    read without the classes that made it.
    """
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path in paths]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise MasklessError(f"Two leaves of the state have the path {twice!r}: rename one.")
    return names


def describe(tree: PyTree) -> dict[str, dict[str, Any]]:
    """Shape and dtype of each leaf (arrays or `jax.eval_shape`'s results), by name."""
    described = {}
    for name, leaf in zip(leaf_names(tree), jax.tree.leaves(tree), strict=True):
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            raise MasklessError(
                f"{name!r} of the state is {leaf!r}: a checkpoint holds arrays, so wrap it in"
                " jnp.asarray."
            )
        if not _is_key(leaf) and (np.dtype(leaf.dtype).hasobject or np.dtype(leaf.dtype).names):
            raise MasklessError(f"{name!r} of the state holds {leaf.dtype}, not plain numbers.")
        described[name] = {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}
    return described


def to_stored(tree: PyTree) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
    """The arrays to be written, by name, and what `from_stored` must know about each."""
    about = describe(tree)
    leaves = jax.tree.leaves(tree)
    for name, leaf in zip(about, leaves, strict=True):
        if _is_key(leaf):
            about[name]["key_implementation"] = str(jax.random.key_impl(leaf))
    # All transfers from the device at once.
    on_host = jax.device_get([jax.random.key_data(x) if _is_key(x) else x for x in leaves])
    return {name: _compact(np.asarray(x)) for name, x in zip(about, on_host, strict=True)}, about


def from_stored(
    stored: Shaped[np.ndarray, "..."], about: Mapping[str, Any]
) -> Shaped[np.ndarray, "..."] | Key[Array, "..."]:
    """One leaf as it was. ValueError, TypeError or KeyError when the two do not fit."""
    shape = tuple(about["shape"])
    if "key_implementation" in about:
        keys = jax.random.wrap_key_data(
            jnp.asarray(stored, jnp.uint32), impl=about["key_implementation"]
        )
        if keys.shape != shape or str(keys.dtype) != about["dtype"]:
            raise ValueError(f"keys of {keys.dtype}{keys.shape} instead of {about}")
        return keys
    dtype = np.dtype(about["dtype"])
    if dtype not in _PLAIN:
        stored = stored.view(dtype)
    if stored.size != math.prod(shape):
        raise ValueError(f"{stored.size} numbers for the shape {shape}")
    return stored.astype(dtype, casting="safe", copy=False).reshape(shape)


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _compact(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, order="C")
    if array.dtype not in _PLAIN:
        return array.reshape(-1).view(np.uint8)
    if array.dtype.kind not in "iu" or array.size == 0:
        return array
    least, most = array.min(), array.max()
    for dtype in _SMALLER:
        limits = np.iinfo(dtype)
        if dtype.itemsize < array.itemsize and limits.min <= least and most <= limits.max:
            return array.astype(dtype)
    return array
