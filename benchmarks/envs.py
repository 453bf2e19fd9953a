"""What masks and resets cost, as ratios measured in one run.

    python benchmarks/envs.py [--envs 256] [--games craftax-classic craftax] [--out FILE.json]

For each game, the same number of environments under uniformly random actions, one step each:

  step           upstream's step, no resets at all: the floor
  + masks        the same and the masks of the new states
  pool           VectorEnv: masks, pool resets and episode statistics; `refresh` once per rollout
  optimistic     upstream's step, masks, and fresh worlds for 1/16 of the environments in every
                 step, which the finished ones share (the scheme of the public Craftax baselines)
  auto-reset     upstream's own auto-reset, and masks: a fresh world per environment and step

Programs take turns, several times; the fastest turn of each counts.
"""

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from craftax.craftax_env import make_craftax_env_from_name
from rich.console import Console
from rich.table import Table

import maskless
from maskless import VectorEnv
from maskless.files import write_json
from maskless.provenance import provenance

UPSTREAM = {"craftax": "Craftax-Symbolic-v1", "craftax-classic": "Craftax-Classic-Symbolic-v1"}
ROLLOUT = 64  # steps between two refreshes of the pool, as in the paper's settings
WARM_UP = 192  # steps played before measuring, so that episodes end at their usual rate
OPTIMISTIC_SHARE = 16
TURNS = 5


def programs(game: str, envs: int) -> dict[str, tuple[Callable[..., Any], int]]:
    """name -> (one step of (key, state) -> (state, outputs), steps per measurement)."""
    env = maskless.make(game, rules="exact")
    upstream = make_craftax_env_from_name(UPSTREAM[game], auto_reset=False)
    auto_reset = make_craftax_env_from_name(UPSTREAM[game], auto_reset=True)
    params = upstream.default_params
    step_all = jax.vmap(upstream.step_env, in_axes=(0, 0, 0, None))
    masks = jax.vmap(env.validity)

    def actions(key: Any) -> Any:
        return jax.random.randint(key, (envs,), 0, env.num_actions)

    def plain(key: Any, state: Any) -> Any:
        obs, state, reward, done, _ = step_all(
            jax.random.split(key, envs), state, actions(key), params
        )
        return state, (obs, reward, done)

    def with_masks(key: Any, state: Any) -> Any:
        state, outputs = plain(key, state)
        return state, (*outputs, masks(state))

    def optimistic(key: Any, state: Any) -> Any:
        obs, state, reward, done, _ = step_all(
            jax.random.split(key, envs), state, actions(key), params
        )
        fresh = max(1, envs // OPTIMISTIC_SHARE)
        new_obs, new = jax.vmap(upstream.reset_env, in_axes=(0, None))(
            jax.random.split(key, fresh), params
        )
        which = jnp.cumsum(done) % fresh

        def choose(new: Any, old: Any) -> Any:
            return jnp.where(done.reshape(-1, *[1] * (old.ndim - 1)), new[which], old)

        state = jax.tree.map(choose, new, state)
        return state, (choose(new_obs, obs), reward, done, masks(state))

    def auto(key: Any, state: Any) -> Any:
        obs, state, reward, done, _ = jax.vmap(auto_reset.step, in_axes=(0, 0, 0, None))(
            jax.random.split(key, envs), state, actions(key), params
        )
        return state, (obs, reward, done, masks(state))

    return {
        "step": (plain, 20),
        "+ masks": (with_masks, 20),
        "optimistic": (optimistic, 8),
        "auto-reset": (auto, 1),
    }


def measure(game: str, envs: int) -> dict[str, Any]:
    """Milliseconds per step of each program, the fastest of several turns."""
    venv = VectorEnv(maskless.make(game, rules="exact"), envs)

    @functools.partial(jax.jit, donate_argnums=1)
    def rollout(key: Any, state: Any) -> Any:
        def one(state: Any, key: Any) -> Any:
            actions = jax.random.randint(key, (envs,), 0, venv.env.num_actions)
            state, out = venv.step(key, state, actions)
            return state, (out.done.sum(), out.observation.sum(), out.mask.sum(), out.reward.sum())

        state, outputs = jax.lax.scan(one, state, jax.random.split(key, ROLLOUT))
        return venv.refresh(key, state), outputs[0].sum()

    pool_state, _ = jax.jit(venv.reset)(jax.random.key(0))
    for turn in range(WARM_UP // ROLLOUT):
        pool_state, ended = rollout(jax.random.fold_in(jax.random.key(1), turn), pool_state)
    warm = jax.tree.map(jnp.copy, pool_state.states)

    compiled = {}
    for name, (step, steps) in programs(game, envs).items():

        def repeat(key: Any, state: Any, step: Any = step, steps: int = steps) -> Any:
            def one(state: Any, key: Any) -> Any:
                state, outputs = step(key, state)
                return state, [x.sum() for x in outputs]

            return jax.lax.scan(one, state, jax.random.split(key, steps))

        compiled[name] = (jax.jit(repeat), steps)
        jax.block_until_ready(compiled[name][0](jax.random.key(2), warm))

    best: dict[str, float] = {}
    for turn in range(TURNS):
        key = jax.random.fold_in(jax.random.key(3), turn)
        started = time.perf_counter()
        pool_state, ended = jax.block_until_ready(rollout(key, pool_state))
        best["pool"] = min(best.get("pool", jnp.inf), (time.perf_counter() - started) / ROLLOUT)
        for name, (program, steps) in compiled.items():
            started = time.perf_counter()
            jax.block_until_ready(program(key, warm))
            best[name] = min(best.get(name, jnp.inf), (time.perf_counter() - started) / steps)
    milliseconds = {
        name: 1e3 * best[name] for name in ("step", "+ masks", "pool", "optimistic", "auto-reset")
    }
    return {
        "environments": envs,
        "episodes_ended_per_step": float(ended) / ROLLOUT,
        "ms_per_step": milliseconds,
        "masks / step": milliseconds["+ masks"] / milliseconds["step"],
        "optimistic / pool": milliseconds["optimistic"] / milliseconds["pool"],
        "auto-reset / pool": milliseconds["auto-reset"] / milliseconds["pool"],
        "pool / + masks": milliseconds["pool"] / milliseconds["+ masks"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=256, help="environments at once")
    parser.add_argument("--games", nargs="+", default=list(UPSTREAM), choices=list(UPSTREAM))
    parser.add_argument("--out", type=Path, help="also write the numbers here, as JSON")
    arguments = parser.parse_args()
    results = {}
    table = Table(
        title=f"one step of {arguments.envs} environments on {jax.devices()[0].device_kind}"
    )
    for column in ("game", "program", "ms", "steps/s", "/ step", "/ pool"):
        text = column in ("game", "program")
        table.add_column(column, justify="left" if text else "right", no_wrap=True)
    for game in arguments.games:
        results[game] = measure(game, arguments.envs)
        times = results[game]["ms_per_step"]
        for name, ms in times.items():
            table.add_row(
                game,
                name,
                f"{ms:.2f}",
                f"{1e3 * arguments.envs / ms:,.0f}",
                f"{ms / times['step']:.2f}",
                f"{ms / times['pool']:.2f}",
            )
        table.add_section()
    console = Console()
    console.print(table)
    for game, result in results.items():
        cost = 100 * (result["masks / step"] - 1)
        console.print(
            f"{game}: masks cost {cost:+.1f} % of a step (target: at most 10 %); a pool step is"
            f" {result['optimistic / pool']:.1f} times as fast as optimistic resets and"
            f" {result['auto-reset / pool']:.0f} times as fast as auto-reset"
        )
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.out, {"results": results, "provenance": provenance()})
    else:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
