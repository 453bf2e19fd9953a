"""Whether GPU kernels of our own are used where a program is being traced."""

import os

import jax

SWITCH = "MASKLESS_KERNELS"


def asked_for() -> bool:
    return os.environ.get(SWITCH) == "1"


def wanted() -> bool:
    """On one GPU (or on each of many for itself), with MASKLESS_KERNELS=1.

    They are written with a part of JAX that is deprecated and differs from version to version, so
    nothing uses them unasked. docs/performance.md says what they save.
    """
    if not asked_for() or jax.default_backend() != "gpu":
        return False
    mesh = jax.sharding.get_abstract_mesh()
    # XLA cannot divide a kernel that it has not written.
    return bool(mesh.empty or mesh.size == 1 or mesh.are_all_axes_manual)
