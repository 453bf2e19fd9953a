"""A world whose states of one episode resemble each other, as states of real episodes do."""

import jax
import jax.numpy as jnp
from flax import struct

from maskless.envs.base import Environment


@struct.dataclass
class DriftState:
    place: jax.Array
    kind: jax.Array  # what stays the same during an episode
    time: jax.Array


class Drift(Environment):
    """A random walk on a plane; `left` is valid on one side of it, `up` on another. Each episode
    has a kind of its own, which is seen but does not matter, and ends at random."""

    id = "drift"
    action_names = ("stay", "left", "up")
    episode_limit = 30

    def reset(self, key, params=None):
        keys = jax.random.split(key)
        kind = jax.random.normal(keys[0], (2,))
        state = DriftState(jax.random.normal(keys[1], (2,)), kind, jnp.int32(0))
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        walk_key, end_key = jax.random.split(key)
        pull = jnp.array([[0.0, 0.0], [-0.2, 0.0], [0.0, 0.2]])[action]
        place = state.place + pull + 0.3 * jax.random.normal(walk_key, (2,))
        state = DriftState(place, state.kind, state.time + 1)
        out_of_time = state.time >= self.episode_limit
        done = out_of_time | (jax.random.uniform(end_key) < 0.1)
        return self.observe(state), state, jnp.float32(0.0), done, {"truncated": out_of_time}

    def observe(self, state):
        return {"kind": state.kind, "place": state.place}

    def validity(self, state, params=None):
        return jnp.stack([jnp.bool_(True), state.place[0] > -0.5, state.place[1] < 1.0])
