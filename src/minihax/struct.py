"""Frozen dataclasses whose fields are arrays: what travels through `jit`, `vmap` and `scan`."""

import dataclasses
from typing import Any, dataclass_transform

import jax


@dataclass_transform(frozen_default=True)
def dataclass(cls: type) -> Any:
    """A frozen dataclass that JAX takes apart field by field, with a method `replace`."""

    def replace(self: Any, **changes: Any) -> Any:
        return dataclasses.replace(self, **changes)

    # JAX rebuilds them with leaves of other shapes: their annotations hold for one game only.
    cls.__no_type_check__ = True  # type: ignore[attr-defined]
    cls.replace = replace  # type: ignore[attr-defined]
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))
