"""The corridor's free view: our kernels against XLA, bit for bit, and how long each takes.

python benchmarks/sight.py --batch 16384
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from minihax.level.terrain import HEIGHT, WIDTH
from minihax.sight import bitmaps, free_view
from minihax.sight import kernel as sight_kernel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--times", type=int, default=100)
    options = parser.parse_args()
    ways = {"XLA": free_view.could_see, "kernels": sight_kernel.could_see}
    # From crowded maps, where nothing is far, to empty ones, where all is.
    for free in (0.3, 0.8, 0.95, 1.0):
        given = maps(jax.random.key(0), options.batch, free)
        seen = {name: run(name, way, given, options.times) for name, way in ways.items()}
        same = jax.tree.map(lambda a, b: bool((a == b).all()), *seen.values())
        print(f"free {free}: equal {all(same)}")


def maps(key: jax.Array, batch: int, free: float) -> tuple:
    """Noise with a solid border, and a hero somewhere on it."""
    squares, rows, columns = jax.random.split(key, 3)
    clear = jax.random.bernoulli(squares, free, (batch, HEIGHT, WIDTH))
    inside = jnp.zeros((HEIGHT, WIDTH), bool).at[1:-1, 1:-1].set(True)
    (words,) = bitmaps.pack(jnp.bool_(True), (clear & inside).astype(jnp.uint8), 1)
    y = jax.random.randint(rows, (batch,), 1, HEIGHT - 1)
    return words, y, jax.random.randint(columns, (batch,), 1, WIDTH - 1)


def run(name: str, way: Callable, given: tuple, times: int) -> Any:
    see = jax.jit(lambda words, y, x: way(y[0] >= 0, words, y, x))
    seen = jax.block_until_ready(see(*given))
    started = time.perf_counter()
    for _ in range(times):
        seen = see(*given)
    jax.block_until_ready(seen)
    print(f"  {name}: {(time.perf_counter() - started) / times * 1e6:.0f} us")
    return seen


if __name__ == "__main__":
    main()
