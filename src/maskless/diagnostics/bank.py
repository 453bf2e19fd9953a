"""A bank of fixed states in which each action is valid, the rare ones too: what does a policy make
of them, at every line of the log, also before it has ever met them?

    probe = Probe(env, net, states_per_action=16)
    metrics = probe(params)                  # {name: [actions]}

A rollout shows an action's probability where the policy happens to be, which is another place in
every update and under every condition, and for rare actions often nowhere. The bank is the same
for all runs of an environment. `docs/metrics.md` explains each number.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from maskless import masking
from maskless.diagnostics.suppression import probabilities
from maskless.envs import Environment, VectorEnv
from maskless.errors import MasklessError
from maskless.nets import AnyNetwork, apply

BATCH = 64
"""Environments that are played for it."""
STEPS = 16
"""Of random valid play between two looks."""
LOOKS = 64
"""At most: what is valid more rarely than in these has fewer states, or none."""


@struct.dataclass
class Bank:
    """Fixed states. [states, ...]"""

    observation: PyTree[Array]
    """As `Environment.record` gives it."""
    valid: Bool[Array, "states actions"]


def collect(env: Environment, states_per_action: int, *, seed: int = 0) -> Bank:
    """At least so many states in which each action is valid, from random valid play and from what
    `Environment.perturb` makes of it; fewer where these lead to fewer."""
    if env.runs_on_host or not env.has_masks:
        raise MasklessError(
            f"{env.id} has no bank of states to probe: that takes an environment inside JAX with"
            " action masks."
        )
    venv = VectorEnv(env, BATCH, observe=env.record)
    look = jax.jit(partial(_look, venv))
    key = jax.random.key(seed)
    worlds, _ = jax.jit(venv.reset)(jax.random.fold_in(key, LOOKS))
    counts, parts = np.zeros(env.num_actions, int), []
    for number in range(LOOKS):
        worlds, seen = look(jax.random.fold_in(key, number), worlds)
        seen = jax.device_get(seen)
        chosen = []
        for state, valid in enumerate(seen.valid):
            if np.any(valid & (counts < states_per_action)):
                chosen.append(state)
                counts += valid
        parts.append(jax.tree.map(lambda x, chosen=chosen: x[chosen], seen))
        if (counts >= states_per_action).all():
            break
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def _look(venv: VectorEnv, key: PRNGKeyArray, worlds: Any) -> tuple[Any, Bank]:
    """The worlds after some steps of random valid play; and all that is there to be seen."""
    env = venv.env

    def step(worlds: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        action_key, step_key = jax.random.split(key)
        valid = jax.vmap(env.validity)(worlds.states)
        actions = masking.sample(action_key, jnp.where(valid, 0.0, masking.INVALID))
        return venv.step(step_key, worlds, actions)[0], None

    key, edit_key, refresh_key = jax.random.split(key, 3)
    worlds, _ = jax.lax.scan(step, worlds, jax.random.split(key, STEPS))
    states = worlds.states
    edited = jax.vmap(env.perturb)(jax.random.split(edit_key, venv.num_envs), states)
    if edited is not None:
        states = jax.tree.map(lambda *x: jnp.concatenate(x), states, edited)
    bank = Bank(jax.vmap(env.record)(states), jax.vmap(env.validity)(states))
    return venv.refresh(refresh_key, worlds), bank


def measure(net: AnyNetwork, params: Any, bank: Bank) -> dict[str, Array]:
    """What the policy does in these states, under the oracle's mask and without one. [actions]

    A network with a memory sees each of them as the first of an episode.
    """
    states = bank.valid.shape[0]
    sequence = jax.tree.map(lambda x: x[None], (bank.observation, jnp.ones(states, bool)))
    _, heads = apply(net, params, net.initial_carry(states), *sequence)
    masked = probabilities("", masking.masked_log_softmax(heads.logits[0], bank.valid), bank.valid)
    raw = probabilities("", jax.nn.log_softmax(heads.logits[0]), bank.valid)
    of_valid = {f"bank_{name}": x for name, x in masked.items() if "invalid" not in name}
    return (
        {"bank_states": jnp.sum(bank.valid, axis=0)}
        | of_valid
        | {f"bank_raw_{name}": x for name, x in raw.items()}
    )


class Probe:
    """A bank, and the program that looks what a policy makes of it."""

    def __init__(self, env: Environment, net: AnyNetwork, states_per_action: int, seed: int = 0):
        self.bank = collect(env, states_per_action, seed=seed)
        self._measure = jax.jit(partial(measure, net))

    def __call__(self, params: Any) -> dict[str, np.ndarray]:
        """`measure` with the parameters of one run."""
        return jax.device_get(self._measure(params, self.bank))
