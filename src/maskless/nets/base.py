"""The contract that every network follows, so that learner, evaluation and deployment are
written once.

    net = make_net("gru", num_actions=17)
    carry = net.initial_carry(batch)
    params = net.init(key, carry, obs, reset)
    carry, heads = net.apply(params, carry, obs, reset)      # obs and reset: [time, batch, ...]

Stepping one by one and applying a whole sequence give the same numbers. `reset[t]` True means that
a new episode starts at t, and nothing from before may matter.

A network of your own is any Flax module with these two methods:

    class Linear(nn.Module):
        num_actions: int

        @nn.nowrap
        def initial_carry(self, batch):
            return ()                                        # nothing is remembered

        @nn.compact
        def __call__(self, carry, obs, reset):
            x = nn.relu(nn.Dense(64)(obs))
            return carry, Heads(
                logits=nn.Dense(self.num_actions)(x),
                value=nn.Dense(1)(x)[..., 0],
                validity=nn.Dense(self.num_actions)(x),
                features=x,
            )

A carry is a pytree whose leaves all begin with the batch axis. `nets.check_network` says in a
sentence what does not fit.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from maskless.errors import MasklessError
from maskless.nets.clone import Clone
from maskless.nets.encoders import Encoder
from maskless.nets.heads import Heads, complete

PRECISIONS = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
AnyNetwork = Any
"""A `Network`, or any other Flax module that keeps its contract."""
Carry = Any


class Network(nn.Module):
    """What maskless's own networks have in common; every field is a plain value."""

    num_actions: int
    encoder: Encoder = Encoder()
    width: int = 512
    precision: str = "float32"
    """What the layers compute in. Weights, memories and outputs are float32 always."""
    cloned: bool = False
    """Whether there is a second policy head that needs no mask (`Heads.clone`)."""
    uncertain: bool = False
    """Whether the validity logits are raised where the classifier is not sure."""

    recurrent: ClassVar[bool] = True
    """False: nothing is remembered, so that samples may be shuffled in time."""
    width_unit: ClassVar[int] = 1
    """`width` must be a multiple of this."""
    cpu_width: ClassVar[int] = 128
    """The width of the preset for two CPU cores."""
    rollout_unit: ClassVar[int] = 1
    """The length of a rollout must be a multiple of this."""
    default_hyperparameters: ClassVar[Mapping[str, Any]] = {}
    """Where the paper's numbers for this network differ from those for its MLP."""

    @property
    def dtype(self) -> Any:
        return PRECISIONS[self.precision]

    def initial_carry(self, batch: int) -> Carry:
        """What the network remembers before it has seen anything. Needs no parameters."""
        raise NotImplementedError

    def __call__(
        self, carry: Carry, obs: PyTree[Array], reset: Bool[Array, "time batch"]
    ) -> tuple[Carry, Heads]:
        """`reset[t]` True: a new episode starts at t, and nothing from before matters."""
        raise NotImplementedError

    def add_clone(self, heads: Heads, obs: PyTree[Array]) -> Heads:
        """The heads with those of a clone, if there is one. Called inside `__call__`."""
        if not self.cloned:
            return heads
        clone = Clone(self.num_actions, self.encoder, self.width, self.dtype, name="clone")
        return dataclasses.replace(heads, clone=clone(obs, heads))


def is_recurrent(net: Any) -> bool:
    """Whether the network remembers anything: what it says itself, or whether it has a carry."""
    carry = jax.eval_shape(lambda: net.initial_carry(1))
    return bool(getattr(net, "recurrent", jax.tree.leaves(carry)))


def check_sequence(obs: PyTree[Array], reset: Bool[Array, "time batch"]) -> None:
    """Refuses observations that are not [time, batch, ...] for the time and batch of `reset`."""
    if reset.ndim != 2:
        raise MasklessError(
            f"A network reads [time, batch] sequences; `reset` has the shape {reset.shape}:"
            " add the missing axes."
        )
    shapes = [leaf.shape for leaf in jax.tree.leaves(obs) if leaf.shape[:2] != reset.shape]
    if shapes:
        raise MasklessError(
            f"Observations must begin with the axes [time, batch] of `reset`, {reset.shape};"
            f" got the shape {shapes[0]}."
        )


def apply(
    net: Any, params: Any, carry: Carry, obs: PyTree[Array], reset: Bool[Array, "time batch"]
) -> tuple[Carry, Heads]:
    """Any network on sequences [time, batch, ...], with all of its heads."""
    outputs: Any = net.apply(params, carry, obs, reset)
    return outputs[0], complete(outputs[1])
