"""How fast levels are generated: `python benchmarks/levels.py [batch]`.

Prints compile time and levels per second for every kind of level, and the ratio to the aim of
2,000 five-room levels per second on two CPU cores.
"""

import sys
import time
from collections.abc import Callable

import jax

from minihax.level.corridors import PAPER_GAME, REAL_GAME, corridor_level
from minihax.level.mazes import MAZES, maze_level
from minihax.level.terrain import Level

AIM = 2_000
REPEATS = 10


def measure(generate: Callable[..., Level], batch: int) -> tuple[float, float]:
    """Seconds to compile, and levels per second over `REPEATS` different batches."""
    keys = [jax.random.split(jax.random.key(seed), batch) for seed in range(REPEATS + 1)]
    begin = time.perf_counter()
    compiled = jax.jit(jax.vmap(generate)).lower(keys[0]).compile()
    compile_seconds = time.perf_counter() - begin
    jax.block_until_ready(compiled(keys[0]))
    begin = time.perf_counter()
    for batch_keys in keys[1:]:
        jax.block_until_ready(compiled(batch_keys))
    return compile_seconds, REPEATS * batch / (time.perf_counter() - begin)


def main() -> None:
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    kinds: dict[str, Callable[..., Level]] = {}
    for rooms in (2, 3, 5):
        kinds[f"minihack-corridor-r{rooms}"] = lambda key, n=rooms: corridor_level(
            key, n, REAL_GAME
        )
        kinds[f"corridor-r{rooms}"] = lambda key, n=rooms: corridor_level(key, n, PAPER_GAME)
    for name, maze in MAZES.items():
        kinds[f"mazewalk-{name}"] = lambda key, m=maze: maze_level(key, m)

    print(f"{jax.devices()[0].platform}, batches of {batch}")
    rates = {}
    for name, generate in kinds.items():
        compile_seconds, rates[name] = measure(generate, batch)
        print(f"{name:22s} compile {compile_seconds:5.1f} s {rates[name]:10,.0f} levels/s")
    print(f"ratio to the aim of {AIM:,}/s: {rates['minihack-corridor-r5'] / AIM:.1f}")


if __name__ == "__main__":
    main()
