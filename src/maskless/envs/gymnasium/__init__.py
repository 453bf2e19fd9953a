"""Gymnasium's environments: described here, played in worker processes.

`arrays(env.observation_space, observation)` is what networks and policies read of an observation.
"""

from maskless.envs.gymnasium.observations import arrays

__all__ = ["arrays"]
