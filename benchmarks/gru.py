"""One minibatch through the GRU layer, forward and backward, all runs side by side:

python benchmarks/gru.py                       # 16 runs of 64 steps x 128 environments, width 512
MASKLESS_KERNELS=1 python benchmarks/gru.py    # on a GPU: with a kernel of our own per step
python benchmarks/gru.py --runs 2 --width 64   # for a CPU
python benchmarks/gru.py --plain               # the textbook's loop under JAX's own derivative

Only the layer, its product with the inputs and its loops: no encoder, no heads. The fastest of 20
turns, after one that does not count.
"""

import argparse
import time
from contextlib import nullcontext
from pathlib import Path

import jax
import jax.numpy as jnp

from maskless import kernels
from maskless.files import write_json
from maskless.nets.gru import gru
from maskless.provenance import provenance

STEPS, ENVS, TURNS = 64, 128, 20


def total(*args: jax.Array) -> jax.Array:
    return jnp.sum(gru(*args)[1].astype(jnp.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    width, keys = chosen.width, jax.random.split(jax.random.key(0), 7)
    weights = (width, 3 * width), (3 * width,), (width, 3 * width), (width,)
    shapes = *weights, (ENVS, width), (STEPS, ENVS, width)
    weights, bias, kernel, candidate_bias, state, inputs = (
        jax.random.normal(key, (chosen.runs, *shape)) * width**-0.5
        for key, shape in zip(keys, shapes, strict=False)
    )
    reset = jax.random.bernoulli(keys[6], 0.02, (chosen.runs, STEPS, ENVS))
    kernel, inputs = kernel.astype(jnp.bfloat16), inputs.astype(jnp.bfloat16)
    arguments = weights, bias, kernel, candidate_bias, state, inputs, reset
    milliseconds = {}
    for name, function in (
        ("forward", jax.vmap(gru)),
        ("forward and backward", jax.vmap(jax.grad(total, argnums=tuple(range(6))))),
    ):
        with kernels.plain_only() if chosen.plain else nullcontext():
            compiled = jax.jit(function).lower(*arguments).compile()
        taken = []
        for _ in range(TURNS + 1):
            started = time.perf_counter()
            jax.block_until_ready(compiled(*arguments))
            taken.append(time.perf_counter() - started)
        milliseconds[name] = round(1e3 * min(taken[1:]), 3)
        print(f"{name}: {milliseconds[name]:.2f} ms")
    if chosen.out:
        sizes = {"runs": chosen.runs, "width": width}
        write_json(chosen.out, provenance() | sizes | {"milliseconds": milliseconds})


if __name__ == "__main__":
    main()
