"""Small policies with random weights, for tests that need no trained one."""

import jax
import jax.numpy as jnp
from nets.parameters import random_parameters

from maskless.deploy.artifact import save_policy
from maskless.envs import make
from maskless.nets import encoder_for, make_net

from toys import Tower


def make_policy(folder, name="mlp", env=None, width=16, **options):
    """Writes an artifact of a network with random weights. The folder."""
    env = Tower() if env is None else env
    observation, _ = jax.eval_shape(env.reset, jax.random.key(0))
    encoder = encoder_for(observation)
    net = make_net(name, num_actions=env.num_actions, encoder=encoder, width=width)
    zeros = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), observation)
    params = random_parameters(net, net.initial_carry(1), zeros, jnp.ones((1, 1), bool))
    return save_policy(folder, net, params, env, **options)


def corridor():
    return make("corridor-r2")


def tower_observations(count, seed=0):
    """Observations as the tower shows them, with levels small enough for random weights."""
    keys = jax.random.split(jax.random.key(seed), 3)
    limits = (4, 5, 10)
    numbers = [jax.random.randint(key, (count,), 0, n) for key, n in zip(keys, limits, strict=True)]
    return jnp.stack(numbers, -1)
