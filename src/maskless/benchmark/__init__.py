"""How fast training is: frames per second with learning and diagnostics, against upstream's game.

Each case is the program that `maskless train` runs, compiled and measured by itself; the speed of
upstream's step alone is measured in the same run, so that their ratio is comparable across
machines.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from maskless.benchmark.profiling import profile
from maskless.envs import make
from maskless.errors import UnknownNameError
from maskless.training.program import Program
from maskless.training.request import Request, make_request

CONDITIONS = ("unmasked", "masked", "masked-focal", "masked-kl")
UPSTREAM_GAMES = ("craftax", "craftax-classic")
UPSTREAM_ENVS, UPSTREAM_STEPS = 1024, 32


@dataclasses.dataclass(frozen=True)
class Case:
    """What is trained: with the paper's settings, `runs` runs together."""

    env: str
    net: str
    runs: int
    target: int | None = None
    """Frames per second of all runs together that we want on one H200."""
    preset: str = "paper"

    def request(self, precision: str) -> Request:
        return make_request(
            self.env,
            CONDITIONS[: min(4, self.runs)],
            net=self.net,
            seeds=max(1, self.runs // 4),
            frames=10**9,
            preset_name=self.preset,
            precision=precision,
        )


SUITES: dict[str, tuple[Case, ...]] = {
    "gpu": (
        Case("craftax-classic", "mlp", 1, 350_000),
        Case("craftax-classic", "mlp", 16, 2_000_000),
        Case("craftax", "mlp", 1, 300_000),
        Case("craftax", "mlp", 16, 1_000_000),
        Case("craftax", "gru", 8, 500_000),
        Case("craftax", "hybrid", 4, 200_000),
        Case("corridor-r5", "gru", 16, 2_500_000),
    ),
    "cpu": (
        Case("craftax-classic", "mlp", 1, preset="cpu"),
        Case("corridor-r5", "gru", 1, preset="cpu"),
        Case("staircase", "mlp", 4, preset="cpu"),
    ),
}


def cases(suite: str, only: tuple[str, ...] = ()) -> list[Case]:
    """The cases of a suite; with `only`, those of these environments or networks."""
    if suite not in SUITES:
        raise UnknownNameError("suite", suite, SUITES)
    names = {name for case in SUITES[suite] for name in (case.env, case.net)}
    for name in only:
        if name not in names:
            raise UnknownNameError(f"environment or network of the suite {suite}", name, names)
    return [c for c in SUITES[suite] if not only or {c.env, c.net} & set(only)]


def measure(
    suite: list[Case],
    *,
    seconds: float,
    precision: str,
    on_result: Callable[[dict[str, Any]], None],
) -> list[dict[str, Any]]:
    """Every case, for about `seconds` each, after all have been compiled, side by side."""
    for case in suite:
        case.request(precision)
    workers = max(1, (os.cpu_count() or 1) // 4)
    results = []
    with ThreadPoolExecutor(workers) as pool:
        games = sorted({case.env for case in suite if case.env in UPSTREAM_GAMES})
        steps = {game: pool.submit(_compile_upstream, game) for game in games}
        waiting = [pool.submit(_compile, case, precision) for case in suite]
        # A compiler beside them would slow down programs of thousands of small kernels.
        programs = [program.result() for program in waiting]
        upstream = {game: _upstream_speed(step.result()) for game, step in steps.items()}
    for case, program in zip(suite, programs, strict=True):
        result = _measure(case, *program, seconds)
        if case.env in upstream:
            result["upstream_steps_per_second"] = round(upstream[case.env])
            result["ratio"] = result["frames_per_second"] / upstream[case.env]
        results.append(result)
        on_result(result)
    return results


def _compile(case: Case, precision: str) -> tuple[Program, Any, float]:
    program = Program(case.request(precision), chunk=64)
    started = time.monotonic()
    compiled = program.compile()
    return program, compiled, time.monotonic() - started


def _measure(
    case: Case, program: Program, compiled: Any, compile_seconds: float, seconds: float
) -> dict[str, Any]:
    config = program.learner.config
    states, _ = program.advance(program.start(), 1)
    states, _, first = _timed(program, states, 1)
    updates = int(max(2, min(program.chunk, seconds / first)))
    states, metrics, taken = _timed(program, states, updates)
    memory = compiled.memory_analysis()
    found = {}
    if jax.default_backend() != "cpu":
        found["profile"] = profile(lambda: program.advance(states, 1)[0], compiled.as_text())
    return (
        found
        | dataclasses.asdict(case)
        | {
            "frames_per_second": round(
                updates * config.frames_per_update * len(config.runs) / taken
            ),
            "milliseconds_per_update": 1e3 * taken / updates,
            "updates": updates,
            "compile_seconds": round(compile_seconds, 1),
            "memory_bytes": memory.temp_size_in_bytes + memory.argument_size_in_bytes,
            "host_callbacks": compiled.as_text().count("callback"),
            "precision": config.precision,
            "diagnostics": config.diagnostics,
            "finite": bool(jnp.all(jnp.isfinite(metrics["policy_loss"]))),
        }
    )


def _timed(program: Program, states: Any, updates: int) -> tuple[Any, Any, float]:
    """The metrics come back to the host: everything has been computed by then."""
    started = time.perf_counter()
    states, metrics = program.advance(states, updates)
    jax.block_until_ready(states)
    return states, metrics, time.perf_counter() - started


def _compile_upstream(game: str) -> tuple[Any, Any]:
    """Upstream's own step of random actions: no resets, no masks, no observations."""
    env: Any = make(game, engine="upstream")
    reset = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))

    def play(states: Any, key: Any) -> Any:
        def step(states: Any, key: Any) -> Any:
            keys = jax.random.split(key, UPSTREAM_ENVS)
            actions = jax.random.randint(key, (UPSTREAM_ENVS,), 0, env.num_actions)
            _, states, reward, done, _ = jax.vmap(env.step)(keys, states, actions)
            return states, (reward.sum(), done.sum())

        return jax.lax.scan(step, states, jax.random.split(key, UPSTREAM_STEPS))

    few = reset(jax.random.split(jax.random.key(0), 16))
    states = jax.tree.map(lambda x: jnp.concatenate([x] * (UPSTREAM_ENVS // 16)), few)
    key = jax.random.key(1)
    return jax.jit(play).lower(states, key).compile(), states


def _upstream_speed(compiled: tuple[Any, Any]) -> float:
    """Steps per second, the fastest of three turns."""
    play, states = compiled
    taken = []
    for turn in range(4):  # the first one does not count
        started = time.perf_counter()
        jax.block_until_ready(play(states, jax.random.key(turn)))
        taken.append(time.perf_counter() - started)
    return UPSTREAM_ENVS * UPSTREAM_STEPS / min(taken[1:])
