"""Annotations are checked while testing: types by beartype, shapes by jaxtyping.

`check()` before anything of ours is imported. Functions are checked, pytrees are not: JAX rebuilds
them with leaves of other shapes inside its transformations.
"""

import flax.struct
import jaxtyping
from beartype import BeartypeConf, beartype

# An int is a float, as for every type checker.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check():
    make = flax.struct.dataclass

    def dataclass(*arguments, **options):
        made = make(*arguments, **options)
        made.__no_type_check__ = True
        return made

    flax.struct.dataclass = dataclass
    jaxtyping.install_import_hook(["maskless", "minihax"], "typechecks.checked")
