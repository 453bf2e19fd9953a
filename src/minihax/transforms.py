"""What the game needs of JAX beyond `vmap` and `scan`: control over batching and over fusion."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool


def flat_vmap(function: Callable) -> Callable:
    """A decorator: `jax.vmap` of a function of batches becomes one call on one larger batch.

    So `function` itself decides how the batch lies in memory and which elements need more work.
    It is compiled even where the caller is not.
    """
    wrapped = custom_vmap(jax.jit(function))

    @wrapped.def_vmap
    def flatten(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        def flat(x: Any, batched: bool) -> Any:
            full = x if batched else jnp.broadcast_to(x, (axis_size, *x.shape))
            return full.reshape(-1, *full.shape[2:])

        outputs = wrapped(*jax.tree.map(flat, args, tuple(in_batched)))
        split = jax.tree.map(lambda o: o.reshape(axis_size, -1, *o.shape[1:]), outputs)
        return split, jax.tree.map(lambda _: True, split)

    return functools.wraps(function)(wrapped)


def materialise(opaque_true: Bool[Array, ""], function: Callable, *args: Any) -> Any:
    """`function(*args)`, computed once and stored.

    XLA fuses a cheap computation into every use of its result and so repeats it: a word is used
    for each of its 32 bits, and chained stages multiply. An optimisation barrier prevents that,
    but XLA's CPU compiler removes barriers before it fuses. There the computation is put into a
    `cond` whose predicate the compiler cannot fold: `opaque_true` is always True, but depends on
    the data. Not for use under vmap, which would turn the `cond` into a select.
    """

    def on_cpu(opaque_true: Bool[Array, ""], *args: Any) -> Any:
        shapes = jax.eval_shape(function, *args)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        return jax.lax.cond(opaque_true, function, lambda *_: zeros, *args)

    def elsewhere(_: Bool[Array, ""], *args: Any) -> Any:
        return jax.lax.optimization_barrier(function(*args))

    return jax.lax.platform_dependent(opaque_true, *args, cpu=on_cpu, default=elsewhere)


def scan(step: Callable, start: Any, inputs: Any) -> Any:
    """`jax.lax.scan`, unrolled on accelerators, where each iteration of a loop costs as much time
    as the work of thousands of maps. CPUs keep the loop: their compiler is slow with long code."""

    def loop(start: Any, inputs: Any) -> Any:
        return jax.lax.scan(step, start, inputs)

    def unrolled(start: Any, inputs: Any) -> Any:
        return jax.lax.scan(step, start, inputs, unroll=True)

    return jax.lax.platform_dependent(start, inputs, cpu=loop, default=unrolled)
