"""More than one device: which of them does what.

The devices form a mesh with two axes. Along `runs` every device has runs of its own and hears
nothing of the others. Along `envs` devices share the environments of their runs: each holds a part
of the worlds and does its part of the acting and learning, and XLA adds the communication.

    mesh = mesh_for(runs=16, envs=1024)     # 8 devices: 8 x 1; for 2 runs: 2 x 4; one device: None
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from maskless.errors import MasklessError
from maskless.ppo.sharding import ENVS

RUNS = "runs"


def mesh_for(runs: int, envs: int, *, at_most: int | None = None) -> Mesh | None:
    """The mesh that trains `runs` runs of `envs` environments; None when that is one device.

    Runs are divided among as many devices as they can be, in equal parts; what devices are left
    divide the environments. Those that fit neither way stay idle, the same number in every process.
    `at_most`: so many devices of each process, by default all.
    """
    here: dict[int, list[Any]] = {}
    for device in jax.devices():
        here.setdefault(device.process_index, []).append(device)
    most = min(len(devices) for devices in here.values())
    most = most if at_most is None else min(most, at_most)
    shape = divide(runs, envs, len(here), most)
    if shape is None:
        fitting = [n for n in range(1, len(here)) if divide(runs, envs, n, most)]
        raise MasklessError(
            f"{len(here)} processes cannot share {runs} runs of {envs} environments in equal parts:"
            f" start {_either(fitting)} of them, or choose a number of runs or --num-envs that"
            f" {len(here)} divides."
        )
    if shape == (1, 1):
        return None
    each = shape[0] * shape[1] // len(here)
    chosen = [device for process in sorted(here) for device in here[process][:each]]
    return Mesh(np.array(chosen).reshape(shape), (RUNS, ENVS), axis_types=(AxisType.Auto,) * 2)


def divide(runs: int, envs: int, processes: int, most: int) -> tuple[int, int] | None:
    """How many devices along each axis, if so many processes with at most `most` devices each can
    all take part."""
    devices = processes * most
    by_runs = [n for n in range(1, min(runs, devices) + 1) if runs % n == 0]
    by_envs = [n for n in range(1, min(envs, devices) + 1) if envs % n == 0]
    fitting = [
        (a, b)
        for a, b in itertools.product(by_runs, by_envs)
        if a * b % processes == 0 and a * b <= devices
    ]
    return max(fitting, default=None)


def _either(numbers: list[int]) -> str:
    *some, last = map(str, numbers)
    return f"{', '.join(some)} or {last}" if some else last


def state_shardings(mesh: Mesh, like: Any) -> Any:
    """Where each leaf of the training states of all runs [runs, ...] lies. `like`: one run's
    (`TrainState`). All that its actor holds is one for each environment, or for each level that
    waits for one, but for a few counts."""

    def of_actor(leaf: Any) -> NamedSharding:
        divisible = leaf.ndim > 0 and leaf.shape[0] % mesh.shape[ENVS] == 0
        return NamedSharding(mesh, P(RUNS, ENVS) if divisible else P(RUNS))

    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, P(RUNS)), like)
    return shardings.replace(actor=jax.tree.map(of_actor, like.actor))


def split_runs(mesh: Mesh, function: Callable, in_specs: Any, out_specs: Any) -> Callable:
    """A function of runs that nothing passes between, for `jit` over the mesh."""
    if mesh.shape[ENVS] > 1:
        return function  # XLA's partitioner divides all of it
    # Without the partitioner the loops of one device do not wait for those of another.
    return jax.shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def place(tree: PyTree, shardings: PyTree) -> PyTree:
    """What this process has in its memory, and all others too, on the devices."""

    def one(leaf: Any, sharding: NamedSharding) -> jax.Array:
        if _is_key(leaf):
            data = one(jax.random.key_data(leaf), sharding)
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(one, tree, shardings)


def fetch(tree: PyTree) -> PyTree:
    """What is whole on every device, in this process's memory: NumPy arrays, and keys of JAX that
    no other process shares. All processes must ask for it."""

    def one(leaf: Any) -> Any:
        if _is_key(leaf):
            data = jnp.asarray(np.asarray(jax.random.key_data(leaf)))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        return np.asarray(leaf)

    return jax.tree.map(one, tree)


def describe(mesh: Mesh | None) -> dict[str, int]:
    """How many devices there are along each axis, and in how many processes they are."""
    shape = {RUNS: 1, ENVS: 1} if mesh is None else dict(mesh.shape)
    return shape | {"processes": jax.process_count()}


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
