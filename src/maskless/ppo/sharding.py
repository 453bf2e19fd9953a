"""How one minibatch is shared by several devices. (`training/devices.py` has the mesh.)"""

import jax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int

ENVS = "envs"
"""The axis of the mesh along which devices share the environments of a run."""


def share_members(members: Int[Array, " some"]) -> Int[Array, " some"]:
    """The same numbers of samples or environments. Inside a program over a mesh, what is done with
    them is done in equal parts by the devices along `envs`."""
    if jax.sharding.get_abstract_mesh().shape.get(ENVS, 1) == 1:
        return members
    return jax.lax.with_sharding_constraint(members, P(ENVS))
