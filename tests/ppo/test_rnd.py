"""Novelty is computed in the precision of the run."""

import jax
import jax.numpy as jnp
import pytest

from maskless.hyperparameters import Hyperparameters
from maskless.nets import PRECISIONS, RandomNetworkDistillation
from maskless.ppo import rnd

from toys import Tower


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_bonus_is_computed_in_the_precision_of_the_network(precision):
    env = Tower()
    net = RandomNetworkDistillation(env.encoder, dtype=PRECISIONS[precision])
    seen = jax.tree.map(lambda x: jnp.zeros((2, 3, *x.shape), x.dtype), env.observation_shapes)
    novelty = jax.eval_shape(lambda: rnd.init(Hyperparameters(), net, jax.random.key(0), seen))
    assert {x.dtype for x in jax.tree.leaves(novelty.params)} == {jnp.dtype("float32")}
    program = jax.make_jaxpr(lambda params: rnd._bonus(net, params, seen))(novelty.params)
    assert program.out_avals[0].dtype == jnp.float32
    assert ("bf16" in str(program)) == (precision == "bfloat16")
