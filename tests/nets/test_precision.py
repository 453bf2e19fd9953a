"""bfloat16 is a faster way to compute the same network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.errors import MasklessError
from maskless.nets import make_net

from nets.parameters import random_parameters

BATCH = 6


@pytest.mark.parametrize("name", ["mlp", "gru", "hybrid"])
def test_bfloat16_approximates_float32(name):
    """Outputs within its precision of 1/256, gradients in nearly the same direction; weights,
    memory and outputs stay float32; features are given as they were computed."""
    random = np.random.default_rng(1)
    obs = jnp.float32(random.normal(size=(8, BATCH, 7)))
    reset = jnp.asarray(random.random((8, BATCH)) < 0.2)
    exact, fast = (
        make_net(name, num_actions=4, width=32, precision=p) for p in ("float32", "bfloat16")
    )
    carry = exact.initial_carry(BATCH)
    params = random_parameters(exact, carry, obs, reset)

    def total(net):
        def of(params):
            after, heads = net.apply(params, carry, obs, reset)
            return jnp.mean(heads.logits[..., 0] + heads.value**2), (after, heads)

        return jax.jit(jax.value_and_grad(of, has_aux=True))(params)

    (_, (carry_32, heads_32)), grads_32 = total(exact)
    (_, (carry_16, heads_16)), grads_16 = total(fast)
    for a, b in zip(
        jax.tree.leaves((carry_32, heads_32)), jax.tree.leaves((carry_16, heads_16)), strict=True
    ):
        assert b.dtype in (a.dtype, jnp.bfloat16)
        if a.dtype == jnp.float32:
            scale = max(1.0, np.abs(a).max())
            np.testing.assert_allclose(a / scale, b / scale, atol=0.03)
    assert np.any(heads_32.logits != heads_16.logits)
    said = heads_16.logits, heads_16.value, heads_16.validity, heads_16.intrinsic_value
    kept = jax.tree.leaves((grads_16, said))
    assert {x.dtype for x in kept} == {jnp.dtype("float32")}
    assert all(x.dtype != jnp.bfloat16 for x in jax.tree.leaves(carry_16))
    flat_32, flat_16 = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(g)])
                        for g in (grads_32, grads_16))  # fmt: skip
    cosine = flat_32 @ flat_16 / np.linalg.norm(flat_32) / np.linalg.norm(flat_16)
    assert cosine > 0.995


def test_an_unknown_precision_is_refused():
    with pytest.raises(MasklessError, match="float16"):
        make_net("mlp", num_actions=3, precision="float16")
