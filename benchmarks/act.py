"""Actions per second of one policy, native and as ONNX, one at a time and in batches.

python benchmarks/act.py --nets mlp gru --out results/bench/act.json
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import maskless
from maskless.files import write_json
from maskless.nets import make_net
from maskless.policy import Policy, policy_of
from maskless.policy.export import NEXT, needs_batch, onnx_runner, step_function, to_onnx
from maskless.provenance import provenance

BATCHES = (1, 1024)
TURNS = 5


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


def native(policy: Policy, batch: int) -> Callable[[], None]:
    """One call of `act`, until its actions are on the host."""
    observation = {f.name: np.zeros((batch, *f.shape), f.dtype) for f in policy.fields}
    key = jax.random.key(0)
    carry = [policy.initial_carry(batch)]

    def act() -> None:
        action, carry[0], _ = policy.act(observation, carry[0], key)
        np.asarray(action)

    return act


def onnx(policy: Policy, batch: int) -> Callable[[], None]:
    """One run of the exported policy, and a draw from its probabilities in NumPy."""
    run = onnx_runner(to_onnx(policy, batch if needs_batch(policy) else None))
    step = step_function(policy)
    inputs = {name: np.zeros((batch, *x.shape), x.dtype) for name, x in step.inputs.items()}
    rng = np.random.default_rng(0)

    def act() -> None:
        outputs = run(inputs)
        inputs.update({name: outputs[NEXT + name] for name in step.carry})
        gumbel = rng.gumbel(size=outputs["log_probs"].shape)
        np.argmax(outputs["log_probs"] + gumbel, axis=-1)

    return act


def fastest(acts: dict[str, Callable[[], None]], budget: float) -> dict[str, float]:
    """Seconds per call of each, the fastest of several turns of about `budget` seconds. They take
    turns, so that whatever else the machine does hits all of them."""
    calls, best = {}, dict.fromkeys(acts, float("inf"))
    for name, act in acts.items():
        for _ in range(3):  # compile, and warm up
            act()
        started = time.perf_counter()
        act()
        calls[name] = max(1, int(budget / (time.perf_counter() - started)))
    for _ in range(TURNS):
        for name, act in acts.items():
            started = time.perf_counter()
            for _ in range(calls[name]):
                act()
            best[name] = min(best[name], (time.perf_counter() - started) / calls[name])
    return best


def measure(policy: Policy, budget: float) -> dict[str, Any]:
    """Actions per second, by batch size and runtime."""
    results: dict[str, Any] = {}
    for batch in BATCHES:
        times = fastest({"native": native(policy, batch), "onnx": onnx(policy, batch)}, budget)
        rates = {name: batch / seconds for name, seconds in times.items()}
        results[str(batch)] = rates | {"onnx / native": rates["onnx"] / rates["native"]}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="craftax-classic", help="whose observations and actions")
    parser.add_argument("--nets", nargs="+", default=["mlp", "gru"])
    parser.add_argument("--seconds", type=float, default=0.5, help="of each turn")
    parser.add_argument("--out", type=Path, help="also write the numbers here, as JSON")
    arguments = parser.parse_args()
    device = jax.devices()[0].device_kind
    table = Table(title=f"actions per second, {arguments.env}, on {device}")
    for column in ("network", "batch", "native", "ONNX (CPU)", "ONNX / native"):
        table.add_column(column, justify="left" if column == "network" else "right", no_wrap=True)
    results = {}
    for name in arguments.nets:
        results[name] = measure(make_policy(arguments.env, name), arguments.seconds)
        for batch, rates in results[name].items():
            numbers = (f"{rates[x]:,.0f}" for x in ("native", "onnx"))
            table.add_row(name, batch, *numbers, f"{rates['onnx / native']:.2f}")
    Console().print(table)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        about = {"env": arguments.env, "provenance": provenance()}
        write_json(arguments.out, {"results": results} | about)
    else:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
