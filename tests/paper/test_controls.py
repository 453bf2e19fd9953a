"""The controls do what they say to the loss and to its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.conditions import condition
from maskless.errors import MasklessError
from maskless.losses import focal_loss, kl_weights
from maskless.nets import make_net
from maskless.ppo.update import classification_loss, validity_logits

VALID = jnp.array([[True, False, True], [True, True, False]])
RIGHT = jnp.where(VALID, 4.0, -4.0)
WRONG = RIGHT.at[0, 1].set(4.0)  # one mistake, in the first state
POLICY = jnp.array([[0.3, -0.2, 0.1], [0.0, 1.0, -1.0]])


def test_without_the_fallback_states_in_which_the_masks_agree_teach_nothing():
    weights = kl_weights(WRONG, VALID, POLICY, uniform_fallback=False)
    np.testing.assert_array_equal(weights[1], 0.0)
    np.testing.assert_array_equal(weights[0], kl_weights(WRONG, VALID, POLICY)[0])
    np.testing.assert_allclose(kl_weights(WRONG, VALID, POLICY)[1], 1 / 3)
    loss = classification_loss(condition("masked-kl:uniform_fallback=0"), RIGHT, VALID, POLICY)
    assert loss == 0.0


def test_the_literal_kl_does_not_mind_what_is_wrongly_allowed():
    """Its weight is the oracle's probability, which is zero there: hence "everything is valid"."""
    wrongly_allowed = kl_weights(WRONG, VALID, POLICY)[0, 1]
    assert wrongly_allowed > 0.5
    assert kl_weights(WRONG, VALID, POLICY, literal=True)[0, 1] < 1e-6


@pytest.mark.parametrize("name", ["masked-focal", "masked-kl"])
def test_a_detached_classifier_shapes_its_own_head_only(name):
    net = make_net("mlp", num_actions=3, width=8)
    observation = jax.random.normal(jax.random.key(0), (1, 2, 5))
    reset = jnp.zeros((1, 2), bool)
    params = jax.jit(net.init)(jax.random.key(1), (), observation, reset)

    @jax.jit
    @jax.value_and_grad
    def loss(params, how):
        _, heads = net.apply(params, (), observation, reset)
        logits = validity_logits(how, heads, params)
        policy = jax.lax.stop_gradient(heads.logits)
        return classification_loss(how, logits, VALID[None], policy)

    value, free = loss(params, condition(name))
    same, bound = loss(params, condition(f"{name}:detached=1"))
    assert value == same
    head = free["params"]["heads"]["validity"]
    for part in ("kernel", "bias"):
        assert jnp.abs(head[part]).max() > 0
        mine = bound["params"]["heads"]["validity"][part]
        np.testing.assert_allclose(mine, head[part], rtol=1e-5, atol=1e-8)
    actor = (grads["params"]["actor"] for grads in (free, bound))
    sizes = [sum(jnp.abs(x).sum() for x in jax.tree.leaves(part)) for part in actor]
    assert sizes[0] > 0
    assert sizes[1] == 0


def test_what_controls_leave_alone_stays_the_same():
    plain = classification_loss(condition("masked-focal"), WRONG, VALID, POLICY)
    assert plain == focal_loss(WRONG, VALID)


@pytest.mark.parametrize(
    "wrong", ["masked-kl:literal=0.5", "masked:entropy_factor=-1", "masked-kl:detached=2"]
)
def test_impossible_controls_are_refused(wrong):
    with pytest.raises(MasklessError, match="must be"):
        condition(wrong)
