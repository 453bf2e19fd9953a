"""A network without memory: separate actor and critic."""

from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Bool, PyTree

from maskless.nets.base import Network, check_sequence
from maskless.nets.encoders import Encoded
from maskless.nets.heads import Heads, Outputs
from maskless.nets.layers import Trunk


class MLP(Network):
    """Three tanh layers for the actor, three for the critic, each with its own encoder.

    phi is the actor's last layer: the classifier must shape the features of the policy.
    """

    recurrent: ClassVar[bool] = False

    @nn.nowrap
    def initial_carry(self, batch: int) -> tuple[()]:
        """Nothing is remembered."""
        return ()

    @nn.compact
    def __call__(
        self, carry: tuple[()], obs: PyTree[Array], reset: Bool[Array, "time batch"]
    ) -> tuple[tuple[()], Heads]:
        """The heads of each state by itself; `reset` changes nothing."""
        check_sequence(obs, reset)
        actor = self._trunk("actor", obs)
        critic = self._trunk("critic", obs)
        heads = Outputs(self.num_actions, self.uncertain, name="heads")(actor, actor, critic)
        return carry, self.add_clone(heads, obs)

    def _trunk(self, name: str, obs: PyTree[Array]) -> Array:
        encoder = Encoded(self.encoder, self.num_actions, dtype=self.dtype, name=f"{name}_encoder")
        trunk = Trunk(self.width, layers=3, activation=nn.tanh, dtype=self.dtype, name=name)
        features: Array = trunk(encoder(obs))
        return features
