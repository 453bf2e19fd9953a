"""The same function without its short loops, for accelerators.

A GPU starts every iteration of a loop, and every write to a single element, as a kernel of its
own: a game step written with a dozen of each spends its time starting kernels. `loopless(step)`
traces the function and evaluates the trace again with

- loops whose iterations are independent of each other as one vectorised call,
- other loops unrolled,
- writes to one index of an array as a `where` over the array, which the compiler can fuse with
  its neighbours (`select_below`: only for arrays of at most so many elements),
- writes to one index of a large array buffered until the end (buffered_writes.py).

Each of these gives the same bits: nothing is reordered, only where it is computed changes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from maskless.envs.craftax.buffered_writes import BufferedWrites, select

MAX_UNROLLED = 32
"""Longer loops stay loops."""
LARGE = 10_000
"""Arrays with at least so many elements have their writes buffered."""


def loopless(function: Callable[..., Any], *, select_below: int = 1 << 30) -> Callable[..., Any]:
    """`function` without its short loops. May be jitted, vmapped and scanned like it."""

    @functools.wraps(function)
    def without_loops(*args: Any) -> Any:
        trace, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        outputs = _Evaluation(select_below).run(trace.jaxpr, trace.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shape), _flush(outputs))

    return without_loops


class _Evaluation:
    """Evaluates a trace, equation by equation."""

    def __init__(self, select_below: int):
        self.select_below = select_below

    def run(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

        def read(variable: Any) -> Any:
            return variable.val if isinstance(variable, core.Literal) else values[variable]

        for equation in jaxpr.eqns:
            outputs = self._equation(equation, [read(v) for v in equation.invars])
            values.update(zip(equation.outvars, outputs, strict=True))
        return [read(v) for v in jaxpr.outvars]  # some perhaps with buffered writes

    def _equation(self, equation: Any, inputs: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name in ("jit", "pjit"):
            return self.run(params["jaxpr"].jaxpr, params["jaxpr"].consts, inputs)
        if name == "scan" and params["length"] <= MAX_UNROLLED:
            return self._scan(params, inputs)
        if name in ("scatter", "scatter-add") and _writes_one_index(equation, self.select_below):
            if name == "scatter" and equation.invars[0].aval.size >= LARGE:
                return [_buffer_write(equation, *inputs)]
            return [_scatter_as_where(equation, *_flush(inputs))]
        if any(isinstance(x, BufferedWrites) for x in inputs):
            output = _without_flush(equation, inputs)
            if output is not None:
                return [output]
            inputs = _flush(inputs)
        if name == "custom_jvp_call":  # its own derivative is not needed: games have none
            return self.run(params["call_jaxpr"].jaxpr, params["call_jaxpr"].consts, inputs)
        outputs = equation.primitive.bind(*inputs, **params)
        return list(outputs) if equation.primitive.multiple_results else [outputs]

    def _scan(self, params: Any, inputs: list[Any]) -> list[Any]:
        body = params["jaxpr"]
        num_consts, num_carry = _counts(params)
        consts, carry = inputs[:num_consts], inputs[num_consts : num_consts + num_carry]
        rows = inputs[num_consts + num_carry :]

        def step(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            outputs = self.run(body.jaxpr, body.consts, [*consts, *carry, *row])
            return outputs[:num_carry], outputs[num_carry:]

        if not num_carry:
            return jax.vmap(lambda row: _flush(step([], row)[1]))(_flush(rows))
        order, rows = range(params["length"]), _flush(rows)
        row_outputs = []
        for number in reversed(order) if params["reverse"] else order:
            carry, row = step(carry, [x[number] for x in rows])
            row_outputs.append(row)
        if params["reverse"]:
            row_outputs.reverse()
        return carry + [jnp.stack(_flush(column)) for column in zip(*row_outputs, strict=True)]


def _flush(values: Sequence[Any]) -> list[Any]:
    return [x.flush() if isinstance(x, BufferedWrites) else x for x in values]


def _buffer_write(equation: Any, operand: Any, indices: Any, updates: Any) -> BufferedWrites:
    """The scatter, as one more buffered write."""
    axes = equation.params["dimension_numbers"].scatter_dims_to_operand_dims
    array = operand if isinstance(operand, BufferedWrites) else BufferedWrites(operand)
    return array.write({axis: indices[n] for n, axis in enumerate(axes)}, updates)


def _without_flush(equation: Any, inputs: list[Any]) -> Any:
    """The output of an operation that need not read the whole array; None where it must."""
    name, params, array = equation.primitive.name, equation.params, inputs[0]
    if name == "stop_gradient":
        return array
    if name == "dynamic_slice":
        return _read(array, inputs[1:], params["slice_sizes"])
    if name == "slice" and params["strides"] is None:
        start, limit = params["start_indices"], params["limit_indices"]
        return _read(array, start, [b - a for a, b in zip(start, limit, strict=True)])
    if name == "select_n" and len(inputs) == 3 and jnp.ndim(inputs[0]) == 0:
        condition, *cases = inputs
        no, yes = (x if isinstance(x, BufferedWrites) else BufferedWrites(x) for x in cases)
        return select(condition, no, yes)
    return None


def _read(array: BufferedWrites, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """A slice of single elements and whole axes; others need the array."""
    shape = array.base.shape
    if any(size not in (1, whole) for size, whole in zip(sizes, shape, strict=True)):
        return None
    # A slice that would reach over the edge is moved inside, as JAX does.
    return array.read(
        {
            axis: jnp.clip(starts[axis], 0, shape[axis] - 1)
            for axis, size in enumerate(sizes)
            if size != shape[axis]
        }
    )


def _counts(params: Any) -> tuple[int, int]:
    """How many of a scan's inputs are constants, and how many its carry."""
    if "ft_in" in params:  # JAX 0.11
        consts, carry, _ = (len(part) for part in params["ft_in"].unpack())
        return consts, carry
    return params["num_consts"], params["num_carry"]


def _writes_one_index(equation: Any, at_most: int) -> bool:
    """Whether a scatter writes one element, or whole rows at one index, of a small array."""
    operand, indices = (v.aval for v in equation.invars[:2])
    numbers, mode = equation.params["dimension_numbers"], equation.params["mode"]
    return (
        operand.size <= at_most
        and indices.ndim == 1
        and not numbers.operand_batching_dims
        and numbers.inserted_window_dims == tuple(sorted(numbers.scatter_dims_to_operand_dims))
        and mode is jax.lax.GatherScatterMode.FILL_OR_DROP
    )


def _scatter_as_where(equation: Any, operand: Any, indices: Any, updates: Any) -> Any:
    """What the scatter gives: the update where every index matches, the old value elsewhere."""
    shape = equation.outvars[0].aval.shape
    axes = equation.params["dimension_numbers"].scatter_dims_to_operand_dims
    matches = [
        jax.lax.broadcasted_iota(indices.dtype, shape, axis) == indices[number]
        for number, axis in enumerate(axes)
    ]
    here = functools.reduce(jnp.logical_and, matches, jnp.ones(shape, bool))
    windows = [axis for axis in range(len(shape)) if axis not in axes]
    new = jax.lax.broadcast_in_dim(updates, shape, windows)
    if equation.primitive.name == "scatter-add":
        new = operand + new
    return jnp.where(here, new, operand)
