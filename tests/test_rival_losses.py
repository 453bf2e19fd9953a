"""The losses of the rivals and of the clone, against NumPy's float64 and what is known of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import losses

import reference

ACTIONS = 6


def rows():
    """Random rows, and every edge: one valid action, all, huge logits on either side."""
    random = np.random.default_rng(1)
    policy, other = random.normal(0, 2, (2, 50, ACTIONS))
    valid = random.random((50, ACTIONS)) < 0.5
    valid[~valid.any(-1), 0] = True
    valid[0], valid[1] = np.arange(ACTIONS) == 2, True
    policy[2, 3], valid[2, 3] = 1e4, False
    policy[3, 1], valid[3] = -1e4, np.arange(ACTIONS) == 1
    policy[4] *= 1e4
    other[5:8] *= 1e4
    return np.float32(policy), np.float32(other), valid


POLICY, OTHER, VALID = rows()
ROWS = list(zip(POLICY.astype(np.float64), OTHER.astype(np.float64), VALID, strict=True))
POLICY, OTHER, VALID = jnp.array(POLICY), jnp.array(OTHER), jnp.array(VALID)
FINITE = slice(8, None)
"""Rows without huge logits."""


def log_z(logits, valid):
    """log of the probability of valid actions."""
    return np.logaddexp.reduce(logits[valid]) - np.logaddexp.reduce(logits)


def test_distillation_is_minus_the_logarithm_of_the_valid_mass():
    ours = losses.masked_distillation_loss(POLICY, VALID)
    np.testing.assert_allclose(ours, np.mean([-log_z(z, m) for z, _, m in ROWS]), rtol=1e-5)


def test_so_is_its_gradient():
    def direct(logits):
        of_valid = jax.nn.logsumexp(jnp.where(VALID[FINITE], logits, -jnp.inf), axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - of_valid)

    ours = jax.grad(lambda z: losses.masked_distillation_loss(z, VALID[FINITE]))(POLICY[FINITE])
    np.testing.assert_allclose(ours, jax.grad(direct)(POLICY[FINITE]), atol=1e-6)
    assert np.isfinite(jax.grad(losses.masked_distillation_loss)(POLICY, VALID)).all()


def test_the_protecting_form_counts_improbable_valid_actions_only():
    expected = []
    for z, _, m in ROWS:
        log_pi, log_masked = reference.log_softmax(z), reference.masked_log_softmax(z, m)
        counts = m & (np.exp(log_pi) <= 0.1)
        expected.append((np.exp(log_masked) * (log_masked - log_pi))[counts].sum())
    ours = losses.masked_distillation_loss(POLICY, VALID, below=0.1)
    np.testing.assert_allclose(ours, np.mean(expected), rtol=1e-4)
    assert 0 < ours < losses.masked_distillation_loss(POLICY, VALID)


def test_the_invalid_mass():
    expected = [np.exp(reference.log_softmax(z))[~m].sum() for z, _, m in ROWS]
    ours = losses.invalid_mass_loss(POLICY, VALID)
    np.testing.assert_allclose(ours, np.mean(expected), rtol=1e-5)


def test_the_squared_error_of_the_validity():
    sigmoid = 1 / (1 + np.exp(-np.clip(np.float64(OTHER), -700, 700)))
    ours = losses.squared_validity_loss(OTHER, VALID)
    np.testing.assert_allclose(ours, np.mean((sigmoid - VALID) ** 2), rtol=1e-5)


def test_cloning_is_cross_entropy_and_leaves_its_model_alone():
    expected = [
        -(np.exp(reference.masked_log_softmax(z, m)) * reference.log_softmax(o)).sum()
        for z, o, m in ROWS
    ]
    np.testing.assert_allclose(
        losses.cloning_loss(OTHER, POLICY, VALID), np.mean(expected), rtol=1e-5
    )
    of_clone, of_model = jax.grad(losses.cloning_loss, argnums=(0, 1))(OTHER, POLICY, VALID)
    assert (np.asarray(of_model) == 0).all()
    masked = np.stack([np.exp(reference.masked_log_softmax(z, m)) for z, _, m in ROWS])
    own = np.stack([np.exp(reference.log_softmax(o)) for _, o, _ in ROWS])
    np.testing.assert_allclose(of_clone, (own - masked) / len(ROWS), atol=1e-6)


@pytest.mark.parametrize("loss", [losses.focal_loss, losses.squared_validity_loss])
def test_label_weights_count_known_labels_only(loss):
    weights = jnp.float32(np.random.default_rng(2).random(VALID.shape) < 0.3)
    other_labels = jnp.where(weights > 0, VALID, ~VALID)
    ours = loss(OTHER[FINITE], VALID[FINITE], label_weights=weights[FINITE])
    same = loss(OTHER[FINITE], other_labels[FINITE], label_weights=weights[FINITE])
    assert ours == same != loss(OTHER[FINITE], VALID[FINITE])
    everything = loss(OTHER, VALID, label_weights=jnp.full(VALID.shape, 3.0))
    np.testing.assert_allclose(everything, loss(OTHER, VALID), rtol=1e-6)


def test_steps_that_do_not_count_have_no_gradient():
    where = jnp.arange(20) % 3 == 0
    new, old, advantages = jnp.float32(np.random.default_rng(3).normal(0, 0.1, (3, 20)))
    for loss in (losses.clipped_policy_loss, losses.clipped_value_loss):
        some = jax.value_and_grad(lambda x, f=loss: f(x, old, advantages, where=where))(new)
        alone = loss(new[where], old[where], advantages[where])
        np.testing.assert_allclose(some[0], alone, rtol=1e-5)
        assert (np.asarray(some[1])[~where] == 0).all()
        assert np.asarray(some[1]).any()
