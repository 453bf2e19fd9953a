"""Trains the same runs on one device and on two, and writes down what came out.

Run by test_devices.py in a process of its own, since the number of devices is fixed when JAX
starts: `python on_two_devices.py FOLDER`, with
XLA_FLAGS=--xla_force_host_platform_device_count=2.
"""

import dataclasses
import sys

import jax
import numpy as np

from maskless.config import Config
from maskless.hyperparameters import Hyperparameters
from maskless.training.leaves import to_stored

from programs import program_of

UPDATES = 10
PPO = Hyperparameters(
    num_envs=8, rollout=8, minibatches=2, epochs=1, learning_rate=1e-3, anneal=False
)
CONFIG = Config(
    env="toys:Tower", width=8, conditions=("masked-kl",), seeds=2, frames=24 * 64, ppo=PPO,
    diagnostics=False,
)  # fmt: skip


def results(program, states):
    """The state of each run, by leaf."""
    runs = [program.fetch_run(states, run) for run in range(len(program.learner.config.runs))]
    return [to_stored(state)[0] for state in runs]


def train(net, path):
    both_runs = dataclasses.replace(CONFIG, net=net)
    one_run = dataclasses.replace(both_runs, seeds=1)
    alone = program_of(both_runs, chunk=UPDATES, devices_at_most=1)
    split_runs = program_of(both_runs, chunk=UPDATES)
    split_envs = program_of(one_run, chunk=UPDATES)
    begun = [alone.fetch_run(alone.start(), run) for run in range(2)]
    found = {}
    for name, program, first in (
        ("alone", alone, begun),
        ("split_runs", split_runs, begun),
        ("split_envs", split_envs, begun[:1]),
    ):
        states, metrics = program.advance(program.start_from(first), UPDATES)
        found[name] = results(program, states), metrics, program.mesh

        # The same in two parts, by way of what a checkpoint holds.
        states, _ = program.advance(program.start_from(first), 4)
        saved = [program.fetch_run(states, run) for run in range(len(first))]
        states, _ = program.advance(program.start_from(saved), UPDATES - 4)
        found[f"{name}_resumed"] = results(program, states), {}, program.mesh
    arrays = {}
    for name, (runs, metrics, mesh) in found.items():
        arrays[f"{name}|mesh"] = np.array([1, 1] if mesh is None else list(mesh.shape.values()))
        for run, leaves in enumerate(runs):
            arrays |= {f"{name}|{run}|{leaf}": value for leaf, value in leaves.items()}
            arrays |= {f"{name}|{run}|metrics/{key}": x[:, run] for key, x in metrics.items()}
    np.savez(path, **arrays)


if __name__ == "__main__":
    assert jax.device_count() == 2
    for net in ("mlp", "gru"):
        train(net, f"{sys.argv[1]}/{net}.npz")
