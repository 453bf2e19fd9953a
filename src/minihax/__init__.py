"""NetHack's corridors and mazes in JAX: the game as MiniHack plays it, and a simplified one.

    import jax, minihax
    env = minihax.make_corridor("minihack-corridor-r2")  # `minihax.IDS` has all names
    observation, state = jax.jit(env.reset)(jax.random.key(0))
    valid = env.validity(state)  # bool[11], True = valid
    observation, state, reward, done, info = jax.jit(env.step)(jax.random.key(1), state, 0)

All are pure functions of one game: batch them with `jax.vmap`. A step needs a new key; it does not
reset. `from_nle` turns observations of the real game into the same `Observation`, so a policy
trained here plays there.
"""

from minihax.env import IDS, Corridor, make_corridor
from minihax.look.observation import Observation, from_nle

__all__ = ["IDS", "Corridor", "Observation", "from_nle", "make_corridor"]
