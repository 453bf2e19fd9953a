"""A second policy beside the first, for acting without any mask."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from maskless.nets.encoders import Encoded, Encoder
from maskless.nets.heads import Heads
from maskless.nets.layers import Trunk, dense


class Clone(nn.Module):
    """The logits of a policy that begins as the one it reads and learns what to leave out.

    It adds a correction to the policy's logits, from the observation by layers of its own and from
    the policy's features. No gradient reaches what it reads of the policy: whatever a clone learns,
    the policy stays the same. (Layers of its own, because the features that suit a masked policy
    need not tell what is valid: in 2048 a clone that read nothing else stayed 0.34 in total
    variation away from its model.)
    """

    num_actions: int
    encoder: Encoder
    width: int
    dtype: Any = None

    @nn.compact
    def __call__(self, obs: PyTree[Array], heads: Heads) -> Float[Array, "time batch actions"]:
        """`heads`: those of the policy."""
        encode = Encoded(self.encoder, self.num_actions, dtype=self.dtype, name="encoder")
        reads = [heads.features]
        if heads.hidden is not heads.features:
            reads.append(heads.hidden)
        logits, *reads = jax.lax.stop_gradient([heads.logits, *reads])
        x = jnp.concatenate(
            [encode(obs), *(x.astype(self.dtype or jnp.float32) for x in reads)], -1
        )
        x = Trunk(self.width, layers=2, activation=nn.relu, dtype=self.dtype, name="trunk")(x)
        correction = dense(self.num_actions, gain=0.0, name="logits")(x.astype(jnp.float32))
        return logits + correction
