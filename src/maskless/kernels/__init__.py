"""Faster twins of single functions, and the one place where they are chosen.

The plain function, in `nets` or `envs`, is the one to read. Its twin here has the same name and the
same signature; tests/kernels compares values and gradients.

    @kernels.dispatch
    def gru(...):       # in nets/gru.py: the textbook's loop; calls go to kernels/gru.py

docs/performance.md says what each twin saves.
"""

import functools
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")

ENVIRONMENT_VARIABLE = "MASKLESS_KERNELS"


def pallas_requested() -> bool:
    """Whether the user has set MASKLESS_KERNELS=1."""
    return os.environ.get(ENVIRONMENT_VARIABLE) == "1"


def pallas_enabled() -> bool:
    """Whether a program that is being traced uses Pallas kernels: MASKLESS_KERNELS=1, on one GPU
    (or inside `shard_map`: XLA cannot partition a kernel that it has not written).

    Off by default: Pallas for Triton is deprecated and differs between versions of JAX.
    """
    if not pallas_requested() or jax.default_backend() != "gpu":
        return False
    mesh = jax.sharding.get_abstract_mesh()
    return bool(mesh.empty or mesh.size == 1 or mesh.are_all_axes_manual)


def always() -> bool:
    return True


class Twin(NamedTuple):
    """Where a twin is and when it is used."""

    module: str
    """A file of this folder, with a function of the same name as the plain one. If it has a
    function `fits`, it is called with the same arguments and must return True as well."""
    enabled: Callable[[], bool] = always


TWINS: dict[str, tuple[Twin, ...]] = {
    "dot_general": (Twin("layers"),),
    "linear": (Twin("layers"),),
    "linear_relu": (Twin("layers"),),
    "two_values": (Twin("layers"),),
    "gru": (Twin("gru"),),
    "gru_forward": (Twin("gru_steps", pallas_enabled),),
    "gru_backward": (Twin("gru_steps", pallas_enabled),),
    "embed_and_convolve": (Twin("glyph_rows", pallas_enabled), Twin("glyphs")),
    "convolve_padded": (Twin("glyphs"),),
    "project_parts": (Twin("glyphs"),),
    "restart": (Twin("restarts", pallas_enabled),),
}
"""By the name of the plain function; the first twin that is enabled and fits is used."""

_plain_only = False


def dispatch(plain: Callable[P, R]) -> Callable[P, R]:
    """Calls of the decorated function go to its twin, if `TWINS` has one that is to be used."""
    name = plain.__name__
    twins = TWINS[name]

    @functools.wraps(plain)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for twin in () if _plain_only else twins:
            if twin.enabled():
                # Only now: Pallas takes a while to import.
                module = importlib.import_module(f"{__name__}.{twin.module}")
                if getattr(module, "fits", _fits_everything)(*args, **kwargs):
                    outputs: R = getattr(module, name)(*args, **kwargs)
                    return outputs
        return plain(*args, **kwargs)

    return call


def _fits_everything(*args: object, **kwargs: object) -> bool:
    return True


@contextmanager
def plain_only() -> Iterator[None]:
    """What is traced inside uses no twins: the reference that they are compared with."""
    global _plain_only
    before, _plain_only = _plain_only, True
    try:
        yield
    finally:
        _plain_only = before
