"""How long sight takes: microseconds per environment step, and the ratio to a plain version.

    python benchmarks/sight.py [--batch 1024] [--seconds 2]

The plain version is what one would write first: a Bresenham line to each of the 1680 squares of
the map, gathered square by square. It is slower and, lacking the rules around corners, not exact.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from maskless.envs.corridor.levels import REAL_GAME, corridor_level
from maskless.envs.corridor.sight import in_sight, look, nothing_remembered
from maskless.envs.corridor.terrain import HEIGHT, WIDTH, Level, Terrain


def plain_in_sight(
    terrain: jax.Array, lit: jax.Array, boulders: jax.Array, position: jax.Array
) -> jax.Array:
    """Lit or adjacent, and all squares of the line between are clear."""
    passage = (terrain >= Terrain.FLOOR) & (terrain <= Terrain.OPEN_DOOR)
    clear = passage & (terrain != Terrain.SECRET_CORRIDOR) & ~boulders
    dy = jnp.arange(HEIGHT)[:, None] - position[0]
    dx = jnp.arange(WIDTH)[None, :] - position[1]
    steps = jnp.maximum(jnp.abs(dy), jnp.abs(dx))

    def walk(i: jax.Array, free: jax.Array) -> jax.Array:
        y = position[0] + (2 * i * dy + steps) // jnp.maximum(2 * steps, 1)
        x = position[1] + (2 * i * dx + steps) // jnp.maximum(2 * steps, 1)
        return free & ((i >= steps) | clear.at[y, x].get(mode="clip"))

    free = jax.lax.fori_loop(1, WIDTH, walk, jnp.ones((HEIGHT, WIDTH), bool))
    return free & (lit | (steps <= 1))


def positions_of(level: Level, key: jax.Array) -> jax.Array:
    """A random free square."""
    free = (level.terrain >= Terrain.FLOOR) & (level.terrain <= Terrain.OPEN_DOOR)
    index = jax.random.categorical(key, jnp.where(free & ~level.boulders, 0.0, -jnp.inf).ravel())
    return jnp.stack([index // WIDTH, index % WIDTH]).astype(jnp.int32)


def microseconds(function: Callable, args: tuple, batch: int, seconds: float) -> float:
    """Time per element of the batch: the best of several rounds, since other programs disturb."""
    compiled = jax.jit(jax.vmap(function))
    jax.block_until_ready(compiled(*args))
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        jax.block_until_ready(compiled(*args))
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=2.0, help="per measurement")
    options = parser.parse_args()

    keys = jax.random.split(jax.random.key(0), options.batch)
    level = jax.jit(jax.vmap(lambda key: corridor_level(key, 5, REAL_GAME)))(keys)
    position = jax.jit(jax.vmap(positions_of))(level, keys)
    remembered = jnp.broadcast_to(nothing_remembered(), (options.batch, HEIGHT, WIDTH))
    view = (level.terrain, level.lit, level.boulders, position)
    scene = (remembered, level.terrain, level.lit, level.horizontal, level.boulders, position)

    where = f"{jax.default_backend()} ({jax.devices()[0].device_kind})"
    print(f"sight of {options.batch} maps with five rooms at a time, on {where}")
    plain = microseconds(plain_in_sight, view, options.batch, options.seconds)
    print(f"  plain in_sight  {plain:9.3f} us per environment step")
    for name, function, args in (("in_sight", in_sight, view), ("look", look, scene)):
        ours = microseconds(function, args, options.batch, options.seconds)
        print(f"  {name:14s}  {ours:9.3f} us per environment step, plain / ours {plain / ours:.0f}")


if __name__ == "__main__":
    main()
