"""Small policies with random weights, for tests that need no trained one."""

import jax
import jax.numpy as jnp
import numpy as np

from maskless.nets import make_net
from maskless.nets.glyphs import GlyphEncoder
from maskless.policy import save_policy
from minihax.look.observation import Observation

from nets.parameters import random_parameters
from toys import Tower


def make_policy(folder, name="mlp", env=None, width=16, **options):
    """Writes an artifact of a network with random weights. The folder."""
    env = Tower() if env is None else env
    net = make_net(name, num_actions=env.num_actions, encoder=env.encoder, width=width)
    zeros = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), env.observation_shapes)
    params = random_parameters(net, net.initial_carry(1), zeros, jnp.ones((1, 1), bool))
    return save_policy(folder, net, params, env, **options)


class CorridorLike:
    """As much of a corridor as a policy needs: names, and what is observed."""

    id = "corridor-like"
    action_names = tuple(f"action {n}" for n in range(11))
    num_actions = 11
    encoder = GlyphEncoder()

    def reset(self, key):
        return Observation(
            glyphs=jnp.ones((9, 9), jnp.int8),
            blstats=jnp.ones(27, jnp.int32),
            message=jnp.int32(1),
            previous_action=jnp.int32(1),
        ), None

    @property
    def observation_shapes(self):
        return jax.eval_shape(self.reset, jax.random.key(0))[0]


def tower_observations(count, seed=0):
    """Observations as the tower shows them, with levels small enough for random weights."""
    dice = np.random.default_rng(seed)
    return np.stack([dice.integers(0, n, count) for n in (4, 5, 10)], -1).astype(np.int32)
