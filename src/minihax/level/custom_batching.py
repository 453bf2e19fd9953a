"""Functions that see the whole batch where they are vmapped."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap


def merging_batches(function: Callable) -> Callable:
    """Makes `jax.vmap` of a function of batches one call on a larger batch.

    So `function` itself decides how the batch lies in memory and which elements need more work.
    It is compiled even where the caller is not.
    """
    wrapped = custom_vmap(jax.jit(function))

    @wrapped.def_vmap
    def merge(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        def merged(x: Any, batched: bool) -> Any:
            full = x if batched else jnp.broadcast_to(x, (axis_size, *x.shape))
            return full.reshape(-1, *full.shape[2:])

        outputs = wrapped(*jax.tree.map(merged, args, tuple(in_batched)))
        split = jax.tree.map(lambda o: o.reshape(axis_size, -1, *o.shape[1:]), outputs)
        return split, jax.tree.map(lambda _: True, split)

    return functools.wraps(function)(wrapped)
