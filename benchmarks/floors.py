"""The arithmetic of one update: all matrix products of the program, counted, not measured.

    python benchmarks/floors.py [--out FILE]

For each kind of training of `maskless bench --suite gpu`, 16 runs: the products that its traced
program asks for, and how long an H200 would need for them if it did nothing else. Nothing is
compiled or run, so any machine gives the same numbers.
"""

import argparse
import math
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.interpreters.partial_eval import dce_jaxpr
from rich.console import Console
from rich.table import Table

from maskless.benchmark import SUITES, Case
from maskless.files import write_json
from maskless.provenance import provenance
from maskless.training.program import Program

RUNS = 16
TERAFLOPS = {"TF32": 494, "bfloat16": 989}
"""Of the H200's tensor cores, by its data sheet."""


def products(jaxpr: core.Jaxpr) -> Counter:
    """Operations (a multiplication and an addition are two) of all products, by scope: a loop of
    known length counts so often, one of unknown length once, a condition by its costliest branch.
    """
    total: Counter = Counter()
    # What nobody reads (such as the derivative by an observation) no compiler computes.
    used, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    for equation in used.eqns:
        if equation.primitive.name == "dot_general":
            total[_scope(equation)] += _of_dot(equation)
            continue
        inner = [products(found) for found in _inside(equation)]
        if equation.primitive.name == "cond":
            inner = [max(inner, key=lambda counted: counted.total())]
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        for counted in inner:
            for scope, number in counted.items():
                total[_scope(equation) or scope] += times * number
    return total


def _of_dot(equation: Any) -> int:
    left, right = (x.aval.shape for x in equation.invars)
    (contracted, _), (batched, _) = equation.params["dimension_numbers"]
    shared = math.prod(left[axis] for axis in (*contracted, *batched))
    summed = math.prod(left[axis] for axis in contracted)
    rows, columns = math.prod(left) // shared, math.prod(right) // shared
    return 2 * math.prod(left[axis] for axis in batched) * rows * columns * summed


def _scope(equation: Any) -> str:
    """The part of an update that asks for it: network (acting), learning, novelty, diagnostics."""
    names = str(equation.source_info.name_stack)
    parts = ("learning", "network", "novelty", "diagnostics", "environment")
    return next((part for part in parts if part in names), "")


def _inside(equation: Any) -> list[core.Jaxpr]:
    """The programs that are this operation's parameters."""
    found = []
    for value in equation.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, core.ClosedJaxpr):
                found.append(one.jaxpr)
            elif isinstance(one, core.Jaxpr):
                found.append(one)
    return found


def count(case: Case) -> dict[str, Any]:
    program = Program(Case(case.env, case.net, RUNS).request("bfloat16"), chunk=64)
    states = jax.eval_shape(program._start, program.seeds)
    traced = jax.make_jaxpr(program._updates)(
        states, program.conditions, program.numbers, np.int32(1)
    )
    found = products(traced.jaxpr)
    return {
        "env": case.env,
        "net": case.net,
        "runs": RUNS,
        "teraflop": round(found.total() / 1e12, 1),
        "parts": {scope or "other": round(n / 1e12, 2) for scope, n in found.most_common()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    for case in {(case.env, case.net): case for case in SUITES["gpu"]}.values():
        found.append(count(case))
        print(found[-1], flush=True)
    shown = Table(title=f"one update of {RUNS} runs")
    for column in ("environment", "network", "TFLOP", *(f"ms in {name}" for name in TERAFLOPS)):
        shown.add_column(column)
    for row in found:
        times = (f"{1e3 * row['teraflop'] / speed:.0f}" for speed in TERAFLOPS.values())
        shown.add_row(row["env"], row["net"], f"{row['teraflop']:.0f}", *times)
    Console().print(shown)
    if options.out:
        write_json(options.out, provenance() | {"teraflops": TERAFLOPS, "results": found})


if __name__ == "__main__":
    main()
