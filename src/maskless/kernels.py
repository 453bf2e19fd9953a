"""Whether GPU kernels of our own are used where a program is being traced."""

import os
from typing import Any

import jax
import jax.numpy as jnp

SWITCH = "MASKLESS_KERNELS"


def wanted(dtype: Any) -> bool:
    """On one GPU (or on each of many for itself), with MASKLESS_KERNELS=1; those of the networks
    in bfloat16 only.

    They are written with a part of JAX that is deprecated and differs from version to version, so
    nothing uses them unasked. docs/performance.md says what they save.
    """
    if os.environ.get(SWITCH) != "1" or jax.default_backend() != "gpu" or dtype != jnp.bfloat16:
        return False
    mesh = jax.sharding.get_abstract_mesh()
    # XLA cannot divide a kernel that it has not written.
    return bool(mesh.empty or mesh.size == 1 or mesh.are_all_axes_manual)
