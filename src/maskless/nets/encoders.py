"""From an observation to a vector. An environment brings its encoder; the default is to flatten.

An encoder is a plain value, not a module: a network makes as many copies of it as it needs, each
with its own parameters (`Encoded`). Wrap a Flax module of your own in `ModuleEncoder`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from maskless.errors import MasklessError


@dataclasses.dataclass(frozen=True)
class Encoder:
    """How a network reads observations [time, batch, ...]: all their numbers side by side."""

    name: ClassVar[str] = "flat"
    """In a policy artifact."""
    projects: ClassVar[bool] = False
    """Whether the features come from a layer that is as wide as the network."""

    def __call__(
        self, obs: PyTree[Array], *, num_actions: int, width: int, dtype: Any
    ) -> Float[Array, "time batch features"]:
        """The features. Called inside a Flax module, which owns the layers that are made here."""
        return flatten(obs, dtype)

    def novelty_view(
        self, obs: PyTree[Array], dtype: Any = None
    ) -> Float[Array, "time batch numbers"]:
        """What can make a state new, for random network distillation."""
        return flatten(obs, dtype)

    def for_policy(self) -> "Encoder":
        """The encoder of a policy, which reads observations and nothing that was recorded of
        them."""
        return self

    def rebuild(self, fields: Mapping[str, Any]) -> PyTree:
        """The observation from its arrays by name, in the order of its leaves."""
        return tuple(fields.values())


@dataclasses.dataclass(frozen=True)
class ModuleEncoder(Encoder):
    """A Flax module of your own: module(observation [time, batch, ...]) -> [time, batch, n]."""

    name: ClassVar[str] = "custom"
    module: nn.Module

    def __call__(
        self, obs: PyTree[Array], *, num_actions: int, width: int, dtype: Any
    ) -> Float[Array, "time batch features"]:
        # A copy that belongs to the Flax module in whose call we are, as any module made here does.
        features = self.module.copy(name="module")(obs)
        sequence = jax.tree.leaves(obs)[0].shape[:2]
        if not isinstance(features, jax.Array) or features.shape[:-1] != sequence:
            raise MasklessError(
                f"An encoder must give one array [time, batch, features], here {list(sequence)} and"
                f" a number of features; {type(self.module).__name__} gives"
                f" {jax.tree.map(jnp.shape, features)}."
            )
        return features.astype(dtype or jnp.float32)


class Encoded(nn.Module):
    """One copy of an encoder, with parameters of its own."""

    encoder: Encoder
    num_actions: int
    width: int = 256
    dtype: Any = None

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float[Array, "time batch features"]:
        return self.encoder(obs, num_actions=self.num_actions, width=self.width, dtype=self.dtype)


def flatten(obs: PyTree[Array], dtype: Any = None) -> Float[Array, "time batch features"]:
    """All numbers of each observation side by side, as they are (or rounded to `dtype`)."""
    dtype = dtype or jnp.float32
    leaves = [x.reshape(*x.shape[:2], -1).astype(dtype) for x in jax.tree.leaves(obs)]
    if not leaves:
        raise MasklessError("The observation has no arrays, so there is nothing to encode.")
    return jnp.concatenate(leaves, axis=-1)
