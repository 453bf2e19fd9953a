"""Gymnasium's environments: described here, played in worker processes.

`arrays(env.observation_space, observation)` is what networks and policies read of an observation.
`Numbered(env)` gives an environment with `MultiDiscrete` or `MultiBinary` actions numbered ones.
"""

from maskless.envs.gymnasium.numbered import Numbered
from maskless.envs.gymnasium.observations import arrays

__all__ = ["Numbered", "arrays"]
