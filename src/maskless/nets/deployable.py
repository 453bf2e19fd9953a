"""A trained policy with a student beside it, which learns after PPO what is possible.

    net = Deployable.of(policy_net, num_actions)
    params = {"params": {"policy": policy_params["params"], "student": ...}}

The policy stays as it is, so what it earns under the oracle's masks cannot fall. The student reads
the observation with a body of its own, because the features of a policy hold what its actions
need, not what decides whether they are possible.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from maskless.nets.base import Carry, Network, is_recurrent
from maskless.nets.encoders import Encoded, Encoder
from maskless.nets.heads import SMALL_GAIN, Heads, complete
from maskless.nets.layers import Trunk, dense

STUDENT_WIDTH = 256
COMPARISONS_PER_ACTION = 6
MOST_COMPARISONS = 512
SHARPNESS = 4.0
"""How sharply the clone follows what is believed possible: an action of probability 0.1 keeps
1.5e-4 of its weight, one of 0.9 nearly all."""
LARGEST = 10.0
"""Normalised numbers are cut off here: one that never varied while learning may be huge later."""


class Normaliser(nn.Module):
    """(x - mean) * scale, by numbers that were measured once and are kept with the weights."""

    @nn.compact
    def __call__(self, x: Float[Array, "... numbers"]) -> Float[Array, "... numbers"]:
        mean = self.param("mean", nn.initializers.zeros, x.shape[-1:])
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:])
        mean, scale = jax.lax.stop_gradient((mean, scale))
        return jnp.clip((x - mean) * scale, -LARGEST, LARGEST)


class Comparisons(nn.Module):
    """On which side of some bounds the numbers are: the sign of x[first] - x[second] - offset,
    where the number after the last one is 0, and after that come all with the other sign.
    `finish.comparisons` finds the bounds; they are kept with the weights. A slot that compares a
    number with itself is free."""

    slots: int

    @nn.compact
    def __call__(self, x: Float[Array, "... numbers"]) -> Float[Array, "... slots"]:
        first, second, offset = (
            jax.lax.stop_gradient(self.param(name, nn.initializers.zeros, (self.slots,)))
            for name in ("first", "second", "offset")
        )
        x = jnp.concatenate([x, jnp.zeros_like(x[..., :1]), -x], axis=-1)
        # Rounded, because a running average of equal numbers is not exactly that number; and what
        # a damaged file says must not lead outside of the numbers.
        last = x.shape[-1] - 1
        one, other = (
            jnp.clip(jnp.round(index), 0, last).astype(jnp.int32) for index in (first, second)
        )
        return jnp.sign(jnp.take(x, one, axis=-1) - jnp.take(x, other, axis=-1) - offset)


class Student(nn.Module):
    """Validity, and a policy that needs no mask, from the observation and from what the policy
    makes of it."""

    num_actions: int
    encoder: Encoder = Encoder()
    width: int = STUDENT_WIDTH
    comparisons: int = 0
    """How many bounds of the observation's numbers it reads, where it has plain ones."""
    recurrent: bool = False
    """Whether the policy remembers anything that decides what is possible."""

    @nn.compact
    def __call__(
        self,
        obs: PyTree[Array],
        features: Float[Array, "time batch features"],
        logits: Float[Array, "time batch actions"],
    ) -> tuple[Float[Array, "time batch actions"], Float[Array, "time batch actions"]]:
        """The logits of validity and those of the clone. `features`, `logits`: the policy's."""
        numbers = plain_numbers(self.encoder, obs, features, recurrent=self.recurrent)
        x = Normaliser(name="normaliser")(numbers)
        if not is_plain(self.encoder):
            encoded = Encoded(self.encoder, self.num_actions, width=self.width, name="encoder")
            x = jnp.concatenate([encoded(obs), x], axis=-1)
        elif self.comparisons:
            sides = Comparisons(self.comparisons, name="comparisons")
            x = jnp.concatenate([x, sides(observed_numbers(self.encoder, obs))], axis=-1)
        x = Trunk(self.width, layers=2, activation=nn.silu, name="body")(x)
        validity = dense(self.num_actions, SMALL_GAIN, "validity")(x)
        # The clone begins as the policy times what is believed possible: what is left to learn
        # is small, and its loss does not pull at the classifier.
        belief = jax.lax.stop_gradient(_log_sigmoid(SHARPNESS * validity))
        correction = dense(self.num_actions, SMALL_GAIN, "correction")(x)
        return validity, logits + belief + correction


def _log_sigmoid(x: Array) -> Array:
    """Flax's becomes ONNX Runtime's Softplus, which is infinite from 89 on."""
    return jnp.minimum(x, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(x)))


def plain_numbers(
    encoder: Encoder,
    obs: PyTree[Array],
    features: Float[Array, "time batch features"],
    *,
    recurrent: bool,
) -> Float[Array, "time batch numbers"]:
    """What is normalised before the student reads it: the observation, where its encoder has no
    layers of its own, and the features of a policy that remembers. (Those of one that does not
    know nothing more than the observation, and the student learned less with them.)"""
    parts = [features.astype(jnp.float32)] if recurrent else []
    if is_plain(encoder):
        parts.append(observed_numbers(encoder, obs))
    nothing = jnp.zeros((*features.shape[:-1], 0))
    return jnp.concatenate([nothing, *parts], axis=-1)


def observed_numbers(encoder: Encoder, obs: PyTree[Array]) -> Float[Array, "time batch numbers"]:
    """Of an observation whose encoder has no layers of its own."""
    return encoder(obs, num_actions=0, width=0, dtype=jnp.float32)


def is_plain(encoder: Encoder) -> bool:
    """Whether a policy reads the observation's numbers as they are, whatever was recorded of it."""
    return type(encoder.for_policy()) is Encoder


class Deployable(Network):
    """The policy's heads, with the student's validity and clone in their places."""

    policy: Any = None
    """The network that PPO has trained: one of ours, or any that keeps the contract."""
    student_width: int = STUDENT_WIDTH
    comparisons: int = 0
    """Of the student."""

    @staticmethod
    def of(
        policy: Any, num_actions: int, *, width: int = STUDENT_WIDTH, comparisons: int | None = None
    ) -> "Deployable":
        """A student beside this network; it reads observations with an encoder of the same kind.
        `comparisons`: None: as many as its actions may need, where it reads plain numbers."""
        encoder: Any = getattr(policy, "encoder", None)  # None: a network of the user's own
        if comparisons is None:
            enough = min(MOST_COMPARISONS, COMPARISONS_PER_ACTION * num_actions)
            comparisons = enough if is_plain(encoder or Encoder()) else 0
        return Deployable(
            num_actions=num_actions,
            encoder=encoder,
            policy=policy,
            student_width=width,
            comparisons=comparisons,
        )

    @property
    def recurrent(self) -> bool:  # type: ignore[override]
        """Whether the policy remembers anything."""
        return is_recurrent(self.policy)

    @nn.nowrap
    def initial_carry(self, batch: int) -> Carry:
        """The policy's."""
        return self.policy.initial_carry(batch)

    @nn.nowrap
    def student(self) -> Student:
        """The student by itself, for its training."""
        encoder = self.encoder or Encoder()
        return Student(
            self.num_actions, encoder, self.student_width, self.comparisons, self.recurrent
        )

    @nn.compact
    def __call__(
        self, carry: Carry, obs: PyTree[Array], reset: Bool[Array, "time batch"]
    ) -> tuple[Carry, Heads]:
        """The policy's memory and heads."""
        carry, heads = self.policy(carry, obs, reset)
        heads = complete(heads)
        student = self.student().copy(name="student")
        validity, clone = student(obs, heads.features, heads.logits)
        return carry, dataclasses.replace(heads, validity=validity, clone=clone)
