"""Steps per second of the corridor games, next to one real NLE process in the same run.

    python benchmarks/corridor.py                       # all games, 1024 environments
    python benchmarks/corridor.py --envs 4096 --out results/corridor.json

"play" is what a learner pays for: step, sight, observation, mask, statistics, and fresh levels
from the pool, `--rollout` steps between two refreshes. "engine" is the game alone, without sight.
The real game steps with uniformly random actions as well, resets included.
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

from maskless.envs.minihack import Corridor, make_corridor
from maskless.envs.vector import VectorEnv
from maskless.files import write_json
from maskless.provenance import provenance
from minihax.game import step as game

GAMES = (
    "minihack-corridor-r2",
    "minihack-corridor-r3",
    "minihack-corridor-r5",
    "corridor-r5",
    "mazewalk-45x19",
)


def main() -> None:
    options = _options()
    rows = []
    for id in options.games:
        env = make_corridor(id)
        row: dict[str, Any] = {"game": id, "envs": options.envs}
        row |= measure_play(env, options.envs, options.rollout, options.repeats)
        row["engine"] = measure_engine(env, options.envs, options.rollout, options.repeats)
        row["levels"] = measure_levels(env, options.envs, options.repeats)
        row["real"] = measure_real(id, options.real_steps)
        row["ratio"] = row["play"] / row["real"] if row["real"] else None
        rows.append(row)
        print_row(row, header=len(rows) == 1)
    report = {"rollout": options.rollout, "steps_per_second": rows, "provenance": provenance()}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.out, report)
    else:
        print(json.dumps(report))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--envs", type=int, default=1024, help="environments stepped at once")
    parser.add_argument("--rollout", type=int, default=128, help="steps between two refreshes")
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--real-steps", type=int, default=10_000, help="0: no real game")
    parser.add_argument("--games", nargs="+", default=GAMES, metavar="ID")
    parser.add_argument("--out", type=Path, help="write the JSON here instead of printing it")
    return parser.parse_args()


def best_time(run: Callable[..., Any], repeats: int, *arguments: Any) -> float:
    """Seconds of the fastest call of `run(key, *arguments)`, after one that compiles. (Arguments,
    not captured values: the compiler would take those for constants and study them at length.)"""
    jax.block_until_ready(run(jax.random.key(0), *arguments))
    times = []
    for number in range(repeats):
        key = jax.block_until_ready(jax.random.key(number + 1))
        start = time.perf_counter()
        jax.block_until_ready(run(key, *arguments))
        times.append(time.perf_counter() - start)
    return min(times)


def measure_play(env: Corridor, envs: int, rollout: int, repeats: int) -> dict[str, float]:
    """Steps per second with everything, and the share of it that fresh levels take."""
    venv = VectorEnv(env, envs)
    state, _ = jax.jit(venv.reset)(jax.random.key(0))

    def step(carry: Any, key: Any) -> tuple[Any, Any]:
        state, total = carry
        action_key, step_key = jax.random.split(key)
        actions = jax.random.randint(action_key, (envs,), 0, env.num_actions)
        state, outcome = venv.step(step_key, state, actions)
        # Everything that a learner would read is read, so that none of it is optimised away.
        used = [outcome.observation.glyphs, outcome.observation.blstats, outcome.mask]
        total += outcome.reward.sum() + sum(x.sum(dtype=jnp.float32) for x in used)
        return (state, total), None

    def play(key: Any, state: Any, refreshed: bool) -> Any:
        play_key, fresh_key = jax.random.split(key)
        (after, total), _ = jax.lax.scan(
            step, (state, jnp.float32(0)), jax.random.split(play_key, rollout)
        )
        return (venv.refresh(fresh_key, after) if refreshed else after), total

    steps = envs * rollout
    whole = best_time(jax.jit(functools.partial(play, refreshed=True)), repeats, state)
    bare = best_time(jax.jit(functools.partial(play, refreshed=False)), repeats, state)
    return {"play": steps / whole, "play_without_refresh": steps / bare}


def measure_engine(env: Corridor, envs: int, rollout: int, repeats: int) -> float:
    """Steps per second of the game alone."""
    rules = env.game_rules
    _, states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), envs))

    def step(states: game.State, key: Any) -> tuple[game.State, None]:
        action_key, step_key = jax.random.split(key)
        actions = jax.random.randint(action_key, (envs,), 0, env.num_actions)
        keys = jax.random.split(step_key, envs)
        one = lambda key, state, action: game.step(rules, key, state, action)[0]  # noqa: E731
        return jax.vmap(one)(keys, states, actions), None

    @jax.jit
    def run(key: Any, states: game.State) -> game.State:
        return jax.lax.scan(step, states, jax.random.split(key, rollout))[0]

    return envs * rollout / best_time(run, repeats, states)


def measure_levels(env: Corridor, envs: int, repeats: int) -> float:
    """Fresh levels per second, `envs` at a time."""
    run = jax.jit(lambda key: jax.vmap(env.reset)(jax.random.split(key, envs)))
    return envs / best_time(run, repeats)


def measure_real(id: str, steps: int) -> float | None:
    """Steps per second of one real NLE process, None when it is not installed."""
    try:
        import gymnasium
        import minihack  # noqa: F401
    except ImportError:
        return None
    if not steps:
        return None
    name = id.removeprefix("minihack-").replace("corridor-r", "Corridor-R")
    if id.endswith("-mapped"):
        name = name.replace("mazewalk-", "MazeWalk-Mapped-").removesuffix("-mapped")
    name = name.replace("mazewalk", "MazeWalk")
    env = gymnasium.make(f"MiniHack-{name}-v0")
    env.action_space.seed(0)
    env.reset()
    start = time.perf_counter()
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    seconds = time.perf_counter() - start
    env.close()
    return steps / seconds


def print_row(row: dict[str, Any], header: bool) -> None:
    columns = ("play", "play_without_refresh", "engine", "levels", "real", "ratio")
    if header:
        print(f"{'game':<22}" + "".join(f"{name:>22}" for name in columns))
    cells = [f"{row[name]:,.0f}" if row[name] else "-" for name in columns]
    print(f"{row['game']:<22}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
