"""Are our GPU kernels right on this GPU? Everything they replace, with them and without:

    python benchmarks/kernels.py [--game corridor-r5] [--steps 1088]

Play must be the same bit for bit: observations, masks, rewards, ends and the last states. What a
GRU in bfloat16 says of that play, and its derivatives, may differ by rounding. Ends with 1 if they
differ by more. (On a CPU both are the same program.)
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskless import VectorEnv, make
from maskless.kernels import ENVIRONMENT_VARIABLE
from maskless.nets import make_net

RUNS, ENVS, ROLLOUT, SEEN = 2, 1024, 64, 128
ROUNDING = 0.05
"""Of the largest number, after 64 steps of a GRU that rounds to 1/256."""


def with_and_without(function: Callable, *args: Any) -> tuple[Any, Any]:
    """What `function` gives with our kernels and without; compiled anew for each."""
    outputs = []
    for switch in ("1", "0"):
        os.environ[ENVIRONMENT_VARIABLE] = switch
        outputs.append(jax.device_get(jax.jit(lambda *args: function(*args))(*args)))
    return outputs[0], outputs[1]


def pairs(ours: Any, plain: Any) -> Iterator[tuple[Any, Any]]:
    return zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True)


def digest(tree: Any) -> jax.Array:
    """A number for each array: other numbers in it, or in another order, give another."""

    def one(x: jax.Array) -> jax.Array:
        if jnp.issubdtype(x.dtype, jax.dtypes.extended):
            x = jax.random.key_data(x)
        if x.dtype == jnp.float32:
            x = jax.lax.bitcast_convert_type(x, jnp.uint32)
        x = x.astype(jnp.uint32).reshape(-1)
        weights = jnp.arange(x.size, dtype=jnp.uint32) * jnp.uint32(2654435761) | jnp.uint32(1)
        return (x * weights).sum(dtype=jnp.uint32)

    return jnp.stack([one(x) for x in jax.tree.leaves(tree)])


def play(venv: VectorEnv, steps: int, key: jax.Array) -> tuple[Any, Any]:
    """Random valid actions: digests of every step and of the last states; what some have seen."""
    start, loop = jax.random.split(key)
    state, first = venv.reset(start)

    def step(carry: Any, key: jax.Array) -> Any:
        state, mask = carry
        choose, go = jax.random.split(key)
        action = jax.random.categorical(choose, jnp.where(mask, 0.0, -1e9))
        state, seen = venv.step(go, state, action)
        some = jax.tree.map(lambda x: x[:SEEN], (seen.observation, seen.done))
        facts = digest((seen.observation, seen.mask, seen.reward, seen.done)), seen.done.sum()
        return (state, seen.mask), (facts, some)

    def rollout(carry: Any, key: jax.Array) -> Any:
        go, make_levels = jax.random.split(key)
        (state, mask), (facts, some) = jax.lax.scan(step, carry, jax.random.split(go, ROLLOUT))
        return (venv.refresh(make_levels, state), mask), (facts, some)

    keys = jax.random.split(loop, steps // ROLLOUT)
    (state, _), (facts, some) = jax.lax.scan(rollout, (state, first.mask), keys)
    return (facts, digest(state)), jax.tree.map(lambda x: x[-1], some)


def learn(net: Any, params: Any, seen: Any) -> Any:
    """What the network says of a rollout, and the derivatives of a sum of it."""
    observations, reset = seen
    carry = net.initial_carry(SEEN)

    def total(params: Any) -> tuple[jax.Array, Any]:
        _, heads = net.apply(params, carry, observations, reset)
        return jnp.mean(heads.logits**2 + heads.validity) + jnp.mean(heads.value), heads

    return jax.value_and_grad(total, has_aux=True)(params)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="corridor-r5")
    parser.add_argument("--steps", type=int, default=17 * ROLLOUT)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    env = make(options.game)
    venv = VectorEnv(env, ENVS)
    keys = jax.random.split(jax.random.key(0), RUNS)
    ours, plain = with_and_without(jax.vmap(lambda key: play(venv, options.steps, key)), keys)
    same = all(np.array_equal(a, b) for a, b in pairs(ours, plain))
    ended = int(plain[0][0][1].sum())
    print(f"{RUNS * ENVS} environments, {options.steps} steps, {ended} ends: equal {same}")

    seen = jax.tree.map(jnp.asarray, plain[1])
    net = make_net(
        "gru",
        num_actions=env.num_actions,
        encoder=env.encoder,
        width=options.width,
        precision="bfloat16",
    )
    one = jax.tree.map(lambda x: x[0], seen)
    init = jax.vmap(lambda key: net.init(key, net.initial_carry(SEEN), *one))
    ours, plain = with_and_without(jax.vmap(lambda p, s: learn(net, p, s)), init(keys), seen)
    off = max(
        float(np.abs(np.float32(a) - np.float32(b)).max() / max(np.abs(np.float32(b)).max(), 1e-30))
        for a, b in pairs(ours, plain)
    )
    print(f"{net.__class__.__name__}: off by at most {off:.4f} of the largest number of an array")
    sys.exit(0 if same and off < ROUNDING else 1)


if __name__ == "__main__":
    main()
