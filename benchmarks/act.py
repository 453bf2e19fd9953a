"""How long a decision takes, in JAX, in ONNX Runtime and in NumPy: one at a time and in batches.

python benchmarks/act.py --nets mlp gru --out results/bench/act-cpu.json

All on one thread, in turns, so that whatever else the machine does hits all of them.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is imported
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from rich.console import Console
from rich.table import Table

import maskless
from maskless.files import write_json
from maskless.nets import make_net
from maskless.policy import Policy, policy_of
from maskless.policy.export import NEXT, needs_batch, step_function, to_onnx
from maskless.provenance import provenance

RUNTIMES = ("native", "onnx", "numpy")
SHOWN = 0.07
"""The share of an observation's numbers that are not zero: about 90 of Craftax Classic's 1345."""
DIFFERENT = 32
"""Observations: one that stays the same would be a failure, step by step."""
TURN = 0.02
"""Seconds."""
Act = Callable[[], None]


def make_policy(env_id: str, net_name: str) -> Policy:
    """A policy of the paper's size. Its weights are drawn at random: they change no time."""
    env = maskless.make(env_id)
    net = make_net(net_name, num_actions=env.num_actions, encoder=env.encoder)
    zeros = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), env.observation_shapes)
    shapes = jax.eval_shape(
        net.init, jax.random.key(0), net.initial_carry(1), zeros, jnp.ones((1, 1), bool)
    )
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: (0.05 * rng.normal(size=x.shape)).astype(np.float32), shapes)
    return policy_of(net, params, env)


def observe(policy: Policy, batch: int) -> Iterator[dict[str, np.ndarray]]:
    """One observation after the other, for ever: mostly zeros, as Craftax shows them."""
    rng = np.random.default_rng(0)
    shown = [
        {f.name: (rng.random((batch, *f.shape)) < SHOWN).astype(f.dtype) for f in policy.fields}
        for _ in range(DIFFERENT)
    ]
    return itertools.cycle(shown)


def native(policy: Policy, batch: int) -> Act:
    """One call of `act`, until its actions are on the host."""
    observations, key = observe(policy, batch), jax.random.key(0)
    carry = [policy.initial_carry(batch)]

    def act() -> None:
        action, carry[0], _ = policy.act(next(observations), carry[0], key)
        np.asarray(action)

    return act


def in_numpy(policy: Policy, batch: int) -> Act:
    """The same by the NumPy runtime."""
    observations, ours = observe(policy, batch), policy.numpy()
    carry = [ours.initial_carry(batch)]

    def act() -> None:
        _, carry[0], _ = ours.act(next(observations), carry[0])

    return act


def onnx(policy: Policy, batch: int) -> Act:
    """One run of the exported policy, and a draw from its probabilities in NumPy. What failed is
    not compared here, as the others do."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    content = to_onnx(policy, batch if needs_batch(policy) else None)
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    needed = [entry.name for entry in session.get_inputs()]
    step = step_function(policy)
    inputs = {name: np.zeros((batch, *x.shape), x.dtype) for name, x in step.inputs.items()}
    observations = observe(policy, batch)
    inputs["allowed"][:] = True
    outputs = [output.name for output in session.get_outputs()]
    rng = np.random.default_rng(0)

    def act() -> None:
        inputs.update(next(observations))
        found = dict(zip(outputs, session.run(None, {n: inputs[n] for n in needed}), strict=True))
        inputs.update({name: found[NEXT + name] for name in step.carry})
        gumbel = rng.gumbel(size=found["log_probs"].shape)
        np.argmax(found["log_probs"] + gumbel, axis=-1)

    return act


def time_calls(acts: dict[str, Act], budget: float) -> dict[str, np.ndarray]:
    """Seconds of single calls of each, for about `budget` seconds each, in many short turns."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    for act in acts.values():
        for _ in range(3):  # compile, and warm up
            act()
    while min(map(sum, times.values())) < budget:
        for name, act in acts.items():
            started = now = time.perf_counter()
            while now - started < TURN:
                before = now
                act()
                now = time.perf_counter()
                times[name].append(now - before)
    return {name: np.array(seconds) for name, seconds in times.items()}


def measure(policy: Policy, batches: Sequence[int], budget: float) -> dict[str, Any]:
    """Microseconds per call (p50, p90) and actions per second, by batch size and runtime."""
    results: dict[str, Any] = {}
    for batch in batches:
        makers = {"native": native, "onnx": onnx, "numpy": in_numpy}
        times = time_calls({name: make(policy, batch) for name, make in makers.items()}, budget)
        found: dict[str, Any] = {}
        for name, seconds in times.items():
            p50, p90 = np.percentile(seconds, (50, 90))
            found[name] = {"p50 us": 1e6 * p50, "p90 us": 1e6 * p90, "actions/s": batch / p50}
        found["numpy / onnx"] = found["numpy"]["p50 us"] / found["onnx"]["p50 us"]
        results[str(batch)] = found
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="craftax-classic", help="whose observations and actions")
    parser.add_argument("--nets", nargs="+", default=["mlp", "gru"])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 1024])
    parser.add_argument("--out", type=Path, help="also write the numbers here, as JSON")
    arguments = parser.parse_args()
    device = jax.devices()[0].device_kind
    table = Table(
        title=f"microseconds per call (p50, p90), {arguments.env}, one thread of {device}"
    )
    for column in ("network", "batch", "JAX", "ONNX Runtime", "NumPy", "NumPy / ONNX"):
        table.add_column(column, justify="left" if column == "network" else "right", no_wrap=True)
    results = {}
    for name in arguments.nets:
        results[name] = measure(
            make_policy(arguments.env, name), arguments.batches, arguments.seconds
        )
        for batch, found in results[name].items():
            cells = (f"{found[x]['p50 us']:,.0f}  {found[x]['p90 us']:,.0f}" for x in RUNTIMES)
            table.add_row(name, batch, *cells, f"{found['numpy / onnx']:.2f}")
    Console().print(table)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        about = {"env": arguments.env, "provenance": provenance()}
        write_json(arguments.out, {"results": results} | about)
    else:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
