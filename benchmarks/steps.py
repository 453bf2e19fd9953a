"""One step of many Craftax worlds: as upstream writes it, and without loops (`loopless.py`).

    python benchmarks/steps.py [--envs 1024 16384] [--games craftax-classic craftax] [--out FILE]

Random actions; no resets, masks or observations. `select N`: writes to one place of an array of at
most N elements are selections over the array; `all`: of any array, as the library does it.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import maskless
from maskless.benchmark.profiling import profile
from maskless.envs.craftax.loopless import loopless
from maskless.files import write_json
from maskless.provenance import provenance

VARIANTS: dict[str, int | None] = {
    "upstream": None,
    "no loops": 0,
    "no loops, select 600": 600,
    "no loops, select 5000": 5000,
    "no loops, select all": 1 << 30,
}
STEPS, TURNS, WORLDS = 16, 4, 16


def compile_play(game: str, variant: str, envs: int, worlds: Any) -> Any:
    """STEPS steps of `envs` worlds; the states are given up."""
    env: Any = maskless.make(game)
    params = env.default_params

    def play_one(key: Any, state: Any, action: Any) -> Any:
        return env._upstream.step_env(key, state, action, params)[1:4]

    below = VARIANTS[variant]
    step = jax.vmap(play_one if below is None else loopless(play_one, select_below=below))

    def play(states: Any, key: Any) -> Any:
        def one(states: Any, key: Any) -> Any:
            actions = jax.random.randint(key, (envs,), 0, env.num_actions)
            states, reward, done = step(jax.random.split(key, envs), states, actions)
            return states, (reward.sum(), done.sum())

        return jax.lax.scan(one, states, jax.random.split(key, STEPS))

    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((envs, *x.shape[1:]), x.dtype), worlds)
    started = time.monotonic()
    compiled = jax.jit(play, donate_argnums=0).lower(shapes, jax.random.key(0)).compile()
    return compiled, time.monotonic() - started


def measure(play: Any, worlds: Any, envs: int) -> dict[str, Any]:
    """Milliseconds per step, the fastest of several turns, and the kernels of a step."""
    states = jax.tree.map(lambda x: jnp.concatenate([x] * (envs // WORLDS)), worlds)
    taken = []
    for turn in range(TURNS):
        started = time.perf_counter()
        states, _ = jax.block_until_ready(play(states, jax.random.key(turn)))
        taken.append(time.perf_counter() - started)
    found: dict[str, Any] = {"milliseconds_per_step": 1e3 * min(taken) / STEPS}
    if jax.default_backend() != "cpu":
        kernels = profile(lambda: play(states, jax.random.key(0))[1], play.as_text())
        found["kernels_per_step"] = kernels["kernels"] / STEPS
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, nargs="+", default=[1024, 16384])
    parser.add_argument("--games", nargs="+", default=["craftax-classic", "craftax"])
    parser.add_argument("--out", type=Path, help="also write the numbers here, as JSON")
    arguments = parser.parse_args()
    results = []
    table = Table(title=f"one step on {jax.devices()[0].device_kind}")
    for column in ("game", "worlds", "step", "ms", "kernels", "compiled in"):
        table.add_column(column, justify="left" if column in ("game", "step") else "right")
    for game in arguments.games:
        env = maskless.make(game)
        reset = jax.jit(jax.vmap(lambda key, env=env: env.reset(key)[1]))
        worlds = reset(jax.random.split(jax.random.key(0), WORLDS))
        cases = [(variant, envs) for envs in arguments.envs for variant in VARIANTS]
        with ThreadPoolExecutor(max_workers=4) as pool:
            plays = [pool.submit(compile_play, game, *case, worlds) for case in cases]
            # All of them before the first measurement: compiling would disturb it.
            compiled = [play.result() for play in plays]
        for (variant, envs), (play, seconds) in zip(cases, compiled, strict=True):
            found = measure(play, worlds, envs)
            results.append({"game": game, "envs": envs, "step": variant} | found)
            kernels = found.get("kernels_per_step")
            table.add_row(
                game,
                str(envs),
                variant,
                f"{found['milliseconds_per_step']:.3f}",
                f"{kernels:.0f}" if kernels else "",
                f"{seconds:.0f} s",
            )
        table.add_section()
    Console().print(table)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.out, provenance() | {"results": results})


if __name__ == "__main__":
    main()
