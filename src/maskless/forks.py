"""Whether JAX can run in this process: not where it was forked from one in which JAX ran, for its
threads stay behind, and what waits for them waits for ever."""

import os
import sys

jax_was_left_behind = False
"""Set in the forked process itself."""


def _note() -> None:
    global jax_was_left_behind
    if getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None):
        jax_was_left_behind = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note)
