"""The paper's largest network: one Transformer-XL layer, then S5 layers."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, PyTree

from maskless.nets.base import Network, check_sequence
from maskless.nets.encoders import Encoded
from maskless.nets.heads import Heads, Outputs
from maskless.nets.layers import Trunk, dense
from maskless.nets.s5 import S5Stack
from maskless.nets.transformer import GatedTransformerXL, Memory, empty_memory

HEADS = 8


@struct.dataclass
class HybridCarry:
    """What the hybrid remembers."""

    memory: Memory
    states: Float[Array, "batch layers width"]
    """Of the S5 layers: real parts, then imaginary parts."""


class Hybrid(Network):
    """Projection, gated Transformer-XL layer, S5 layers; two ReLU layers for actor and critic.

    phi is the output of the last S5 layer, which both read. A sequence has 1 to `window` steps or
    a multiple of `window`; the attention's gradients stay within a window, those of the S5 layers
    reach through the whole sequence.
    """

    width: int = 256
    memory: int = 128
    """How many tokens before its own a token sees."""
    window: int = 64
    s5_layers: int = 5

    width_unit: ClassVar[int] = HEADS
    cpu_width: ClassVar[int] = 64
    rollout_unit: ClassVar[int] = 64
    default_hyperparameters: ClassVar[Mapping[str, Any]] = {
        "rollout": 128,
        "discount": 0.999,
        "entropy": 0.002,
    }

    @nn.nowrap
    def initial_carry(self, batch: int) -> HybridCarry:
        """An empty memory and states of zeros, which every episode starts with."""
        return HybridCarry(
            memory=empty_memory(batch, self.memory, self.width),
            states=jnp.zeros((batch, self.s5_layers, self.width), jnp.float32),
        )

    @nn.compact
    def __call__(
        self, carry: HybridCarry, obs: PyTree[Array], reset: Bool[Array, "time batch"]
    ) -> tuple[HybridCarry, Heads]:
        """The heads of each state, given what came before it in its episode."""
        check_sequence(obs, reset)
        dtype = self.dtype
        x = Encoded(self.encoder, self.num_actions, self.width, name="encoder", dtype=dtype)(obs)
        if not self.encoder.projects:
            x = dense(self.width, gain=1.0, name="project", dtype=dtype)(x)
        # The residual stream is float32; the layers beside it compute in `dtype`.
        x = x.astype(jnp.float32)
        attention = GatedTransformerXL(self.width, HEADS, self.window, dtype, name="attention")
        memory, x = attention(carry.memory, x, reset)
        s5 = S5Stack(self.width, self.s5_layers, dtype, name="s5")
        states, x = s5(carry.states, x, reset)
        trunk = partial(Trunk, self.width, layers=2, activation=nn.relu, dtype=dtype)
        actor, critic = trunk(name="actor")(x), trunk(name="critic")(x)
        heads = Outputs(self.num_actions, self.uncertain, name="heads")(x, actor, critic)
        return HybridCarry(memory, states), self.add_clone(heads, obs)
