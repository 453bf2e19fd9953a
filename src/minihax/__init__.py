"""NetHack's corridors and mazes in JAX: the real game, and the paper's simplified one."""

from minihax.env import Corridor, make_corridor
from minihax.look.observation import Observation, from_nle

__all__ = ["Corridor", "Observation", "from_nle", "make_corridor"]
