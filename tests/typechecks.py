"""Shapes in annotations are checked while testing (jaxtyping with beartype).

`check()` before anything of ours is imported. Functions with arrays in their signature are checked,
pytrees are not: JAX rebuilds them with leaves of other shapes inside its transformations.
"""

import typing

import flax.struct
import jaxtyping
from beartype import BeartypeConf, beartype

# An int is a float, as for every type checker.
_BEARTYPE = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function):
    annotations = getattr(function, "__annotations__", {}).values()
    return _BEARTYPE(function) if any(map(_has_array, annotations)) else function


def _has_array(annotation):
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_has_array, typing.get_args(annotation)))


def check():
    make = flax.struct.dataclass

    def dataclass(*arguments, **options):
        made = make(*arguments, **options)
        made.__no_type_check__ = True
        return made

    flax.struct.dataclass = dataclass
    jaxtyping.install_import_hook(["maskless", "minihax"], "typechecks.checked")
