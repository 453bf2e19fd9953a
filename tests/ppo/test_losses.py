"""PPO's losses against the float64 reference, and the whole loss of a minibatch under masks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import losses, masking

import reference

RNG = np.random.default_rng(0)
OLD = RNG.normal(-2, 1, 200)
NEW = OLD + RNG.normal(0, 0.3, 200)
NEW[:3], OLD[:3] = [-1e-3, -40.0, 0.0], [-40.0, -1e-3, 0.0]  # ratios huge, tiny, one
NEW[3] = OLD[3]
ADVANTAGES = RNG.normal(0, 2, 200)
ADVANTAGES[0] = -1e-15  # times e^40
OLD_VALUES = RNG.normal(0, 1, 200)
VALUES = OLD_VALUES + RNG.normal(0, 0.4, 200)
TARGETS = RNG.normal(0, 1, 200)


@pytest.mark.parametrize("clip", [0.2, 0.05, 1.0])
def test_the_policy_loss_equals_the_reference(clip):
    new, old, advantages = (jnp.float32(x) for x in (NEW, OLD, ADVANTAGES))
    ours = losses.clipped_policy_loss(new, old, advantages, clip=clip)
    exact = (np.asarray(x, np.float64) for x in (new, old, advantages))
    np.testing.assert_allclose(ours, reference.clipped_policy_loss(*exact, clip), rtol=1e-5)


@pytest.mark.parametrize("clip", [0.2, 0.05, 1.0])
def test_the_value_loss_equals_the_reference(clip):
    ours = losses.clipped_value_loss(
        jnp.float32(VALUES), jnp.float32(OLD_VALUES), jnp.float32(TARGETS), clip=clip
    )
    expected = reference.clipped_value_loss(VALUES, OLD_VALUES, TARGETS, clip)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def finite_differences(function, x, step=1e-6):
    slopes = np.zeros_like(x)
    for i in range(x.size):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        slopes[i] = (function(up) - function(down)) / (2 * step)
    return slopes


def test_gradients_equal_finite_differences():
    new, old, advantages = NEW[4:40], OLD[4:40], ADVANTAGES[4:40]
    ours = jax.grad(losses.clipped_policy_loss)(
        jnp.float32(new), jnp.float32(old), jnp.float32(advantages)
    )
    slopes = finite_differences(
        lambda x: reference.clipped_policy_loss(x, old, advantages, 0.2), new
    )
    np.testing.assert_allclose(ours, slopes, atol=1e-5)
    ours = jax.grad(losses.clipped_value_loss)(
        jnp.float32(VALUES), jnp.float32(OLD_VALUES), jnp.float32(TARGETS)
    )
    slopes = finite_differences(
        lambda x: reference.clipped_value_loss(x, OLD_VALUES, TARGETS, 0.2), VALUES
    )
    np.testing.assert_allclose(ours, slopes, atol=1e-5)


def test_ppo_under_a_mask_gives_invalid_logits_no_gradient():
    logits = jnp.float32(RNG.normal(0, 3, (50, 6)))
    valid = RNG.random((50, 6)) < 0.5
    valid[:, 0] |= ~valid.any(-1)
    action = jnp.array([RNG.choice(np.flatnonzero(row)) for row in valid])

    def loss(logits):
        log_probs = masking.masked_log_softmax(logits, jnp.array(valid))
        chosen = jnp.take_along_axis(log_probs, action[:, None], axis=-1)[:, 0]
        policy = losses.clipped_policy_loss(
            chosen, jnp.float32(OLD[:50]), jnp.float32(ADVANTAGES[:50])
        )
        return policy - 0.01 * masking.entropy(log_probs).mean()

    slopes = np.asarray(jax.grad(loss)(logits))
    assert (slopes[~valid] == 0.0).all()
    assert (slopes[valid] != 0.0).any()
