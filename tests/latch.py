"""A world with four rooms in a row, each with another action that leads on; everything else does
nothing. In the last one nothing works at the first four tries. As a JAX and as a Gymnasium
environment, and a network that says what a table says."""

from typing import ClassVar

import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnasium import spaces

from maskless.envs.base import Environment
from maskless.nets import Heads

A, B, C, D = range(4)
LEADS_ON = np.array([A, C, D, B])
TRIES = np.array([1, 1, 1, 5])
LIMIT = 20

# What the network makes of each room. [rooms, actions]
PREFERENCE = np.array([[3, 2, 1, 0], [0, 3, 2, 1], [3, 2, 1, 0], [0, 3, 2, 1]], np.float32)
VALIDITY = np.array(
    [
        [4, -4, -4, -4],  # right
        [-4, 4, 4, -4],  # allows b in vain
        [4, -1, -3, -2],  # allows a in vain; then b looks best, then d
        [-2, 4, -1, -3],  # right, but b works only when all have been tried: c, a, d
    ],
    np.float32,
)
CLONE = np.array([[3, 2, 1, 0], [0, 1, 3, 2], [0, 3, 1, 2], [3, 2, 1, 0]], np.float32)

PREDICTED = [A, B, C, A, B, D, B, C, A, D, B]
"""Greedy, under predicted masks, with the memory."""
FORGETFUL = [A] + [B] * (LIMIT - 1)
CLONED = [A, C, B, D, A, B, C, D, A, B]
"""Greedy, by the clone, with the memory: in the last room from the first to the last, then again;
b is the fifth try only in the second round, at the sixth."""


@struct.dataclass
class LatchState:
    room: jax.Array
    tries: jax.Array  # in this room
    time: jax.Array


class Latch(Environment):
    """The observation is the room, one-hot, and the time, which is a clock."""

    id = "latch"
    action_names = ("a", "b", "c", "d")
    episode_limit = LIMIT

    def __init__(self, clock_fields=("observation[4]",)):
        self.clock_fields = clock_fields

    def reset(self, key, params=None):
        state = LatchState(*jnp.zeros(3, jnp.int32))
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        tries = state.tries + 1
        leads_on = (action == jnp.asarray(LEADS_ON)[state.room]) & (
            tries >= jnp.asarray(TRIES)[state.room]
        )
        state = LatchState(state.room + leads_on, jnp.where(leads_on, 0, tries), state.time + 1)
        free, late = state.room == 4, state.time >= LIMIT
        info = {"truncated": late & ~free}
        return self.observe(state), state, jnp.float32(free), free | late, info

    def observe(self, state):
        return jnp.append(jax.nn.one_hot(state.room, 4), state.time.astype(jnp.float32))

    def validity(self, state, params=None):
        return jnp.arange(4) == jnp.asarray(LEADS_ON)[jnp.minimum(state.room, 3)]


class HostLatch(gymnasium.Env):
    """The same for Gymnasium."""

    action_names = Latch.action_names
    action_space = spaces.Discrete(4)
    observation_space = spaces.Box(0, np.inf, (5,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._room = self._tries = self._time = 0
        return self._look(), {}

    def step(self, action):
        self._tries, self._time = self._tries + 1, self._time + 1
        if action == LEADS_ON[self._room] and self._tries >= TRIES[self._room]:
            self._room, self._tries = self._room + 1, 0
        return self._look(), float(self._room == 4), self._room == 4, False, {}

    def action_masks(self):
        return np.arange(4) == LEADS_ON[self._room]

    def _look(self):
        return np.append(np.arange(4) == self._room, self._time).astype(np.float32)


gymnasium.register("Latch-v0", HostLatch, max_episode_steps=LIMIT)


class Table(nn.Module):
    """A network that reads its answers from a table, by the room."""

    num_actions: int = 4
    recurrent: ClassVar[bool] = False

    def initial_carry(self, batch):
        return ()

    @nn.compact
    def __call__(self, carry, obs, reset):
        rooms = obs[..., :4]
        tables = {"logits": PREFERENCE, "validity": VALIDITY, "clone": CLONE}
        answers = {
            name: rooms @ self.param(name, lambda _, table=table: jnp.asarray(table))
            for name, table in tables.items()
        }
        return carry, Heads(**answers, value=jnp.zeros(reset.shape), features=rooms)


PARAMS = {
    "params": {
        name: np.array(x)
        for name, x in {"logits": PREFERENCE, "validity": VALIDITY, "clone": CLONE}.items()
    }
}
