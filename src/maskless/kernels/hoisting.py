"""What a step computes from the parameters alone, computed once before the loop over the steps.

Networks round their weights, pad them or put them together anew whenever they are applied, and XLA
leaves all of that inside a loop.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core

GROWS = ("broadcast_in_dim",)
"""Cheap to repeat, and large to keep."""


def hoist(function: Callable[..., Any], params: Any, *args: Any) -> Callable[..., Any]:
    """function(params, ...) with these parameters, for arguments of the same shapes as `args`.

    The result must not be differentiated: custom derivatives inside `function` are forgotten.
    """
    trace, shape = jax.make_jaxpr(function, return_shape=True)(params, *args)
    jaxpr, count = trace.jaxpr, len(jax.tree.leaves(params))
    known = dict(zip(jaxpr.constvars, trace.consts, strict=True))
    known.update(zip(jaxpr.invars[:count], jax.tree.leaves(params), strict=True))
    later = []
    for equation in jaxpr.eqns:
        if _depends_only_on(known, equation):
            _evaluate(equation, known)
        else:
            later.append(equation)

    def rest(*args: Any) -> Any:
        values = known | dict(zip(jaxpr.invars[count:], jax.tree.leaves(args), strict=True))
        for equation in later:
            _evaluate(equation, values)
        outputs = [_read(v, values) for v in jaxpr.outvars]
        return jax.tree.unflatten(jax.tree.structure(shape), outputs)

    return rest


def _depends_only_on(known: dict[Any, Any], equation: Any) -> bool:
    variables = [v for v in equation.invars if not isinstance(v, core.Literal)]
    growing = equation.primitive.name in GROWS
    return bool(variables) and all(v in known for v in variables) and not growing


def _evaluate(equation: Any, values: dict[Any, Any]) -> None:
    """Adds what the equation gives to the values, under the names it was traced with."""
    inputs = [_read(v, values) for v in equation.invars]
    with jax.named_scope(str(equation.source_info.name_stack)):
        values.update(zip(equation.outvars, _bind(equation, inputs), strict=True))


def _bind(equation: Any, inputs: list[Any]) -> Sequence[Any]:
    if equation.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
        outputs: Sequence[Any] = core.jaxpr_as_fun(equation.params["call_jaxpr"])(*inputs)
        return outputs
    outputs = equation.primitive.bind(*inputs, **equation.params)
    return outputs if equation.primitive.multiple_results else [outputs]


def _read(variable: Any, values: dict[Any, Any]) -> Any:
    return variable.val if isinstance(variable, core.Literal) else values[variable]
