"""Masks and losses against the slow float64 reference, finite differences, and edge rows."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special
import scipy.stats

from maskless import losses, masking

import reference

ACTIONS = 7


def rows():
    """Random rows, and every edge: none, one, all valid; huge logits; at the threshold; masks
    that agree."""
    random = np.random.default_rng(0)
    policy = random.normal(0, 2, (60, ACTIONS))
    validity = random.normal(0, 3, (60, ACTIONS))
    valid = random.random((60, ACTIONS)) < 0.4
    valid[0], valid[1], valid[2] = False, np.arange(ACTIONS) == 3, True
    policy[3:6] *= 1e4
    policy[6, 2], valid[6, 2] = 1e4, False
    policy[7, 2], valid[7, 2] = -1e4, True
    validity[8:11] *= 1e4
    validity[11] = 0.0  # exactly at the threshold: not valid
    validity[12] = np.where(valid[12], 5.0, -5.0)  # the masks agree
    validity[13], valid[13] = -8.0, True  # everything predicted invalid
    validity[14], valid[14] = 8.0, np.arange(ACTIONS) == 0  # everything predicted valid
    return policy, validity, valid


POLICY, VALIDITY, VALID = rows()
policy, validity = jnp.float32(POLICY), jnp.float32(VALIDITY)
valid = jnp.array(VALID)
# What float32 makes of the inputs is what the reference should see.
POLICY, VALIDITY = np.asarray(policy, np.float64), np.asarray(validity, np.float64)
EACH_ROW = list(zip(POLICY, VALID, strict=True))


def test_masked_log_softmax_equals_the_reference():
    ours = masking.masked_log_softmax(policy, valid)
    expected = np.stack([reference.masked_log_softmax(p, m) for p, m in EACH_ROW])
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    assert np.isfinite(ours).all()
    np.testing.assert_allclose(np.exp(ours).sum(-1), 1, rtol=1e-5)
    assert (np.exp(ours)[VALID.any(-1)][~VALID[VALID.any(-1)]] == 0).all()


def test_entropy_counts_valid_actions_only():
    ours = masking.entropy(masking.masked_log_softmax(policy, valid))
    expected = [reference.entropy(p, m) for p, m in EACH_ROW]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    flat = masking.masked_log_softmax(jnp.zeros((3, ACTIONS)), jnp.arange(ACTIONS) < 4)
    np.testing.assert_allclose(masking.entropy(flat), np.log(4), rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda log_p: log_p[..., 3].sum(),
        lambda log_p: masking.entropy(log_p).sum(),
        lambda log_p: masking.kl_divergence(log_p, jnp.roll(log_p, 1, 0)).sum(),
    ],
    ids=["log-probability", "entropy", "KL"],
)
def test_the_gradient_of_invalid_logits_is_exactly_zero(function):
    some = VALID.any(-1)
    gradient = jax.grad(lambda z: function(masking.masked_log_softmax(z, valid[some])))(
        policy[some]
    )
    assert np.isfinite(gradient).all()
    assert (np.asarray(gradient)[~VALID[some]] == 0).all()
    assert (np.asarray(gradient)[VALID[some]] != 0).any()


def test_sampling_follows_the_policy_and_never_takes_an_invalid_action():
    log_p = masking.masked_log_softmax(policy[20], valid[20])
    drawn = masking.sample(jax.random.key(0), jnp.broadcast_to(log_p, (20_000, ACTIONS)))
    counts = np.bincount(drawn, minlength=ACTIONS)
    assert (counts[~VALID[20]] == 0).all()
    expected = np.exp(np.asarray(log_p, np.float64))[VALID[20]]
    assert (
        scipy.stats.chisquare(counts[VALID[20]], 20_000 * expected / expected.sum()).pvalue > 1e-3
    )


def test_a_row_without_a_valid_action_is_the_unmasked_policy_and_can_be_counted():
    np.testing.assert_array_equal(masking.falls_back(valid), ~VALID.any(-1))
    np.testing.assert_allclose(
        masking.masked_log_softmax(policy[0], valid[0]), jax.nn.log_softmax(policy[0]), rtol=1e-6
    )


def test_kl_and_total_variation():
    p = masking.masked_log_softmax(policy[20:40], valid[20:40])
    q = masking.masked_log_softmax(policy[20:40] * 0.3, valid[20:40])
    dense_p, dense_q = np.exp(np.float64(p)), np.exp(np.float64(q))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(dense_p > 0, dense_p * (np.log(dense_p) - np.log(dense_q)), 0).sum(-1)
    np.testing.assert_allclose(masking.kl_divergence(p, q), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        masking.total_variation(p, q), 0.5 * np.abs(dense_p - dense_q).sum(-1), atol=1e-6
    )
    np.testing.assert_array_equal(masking.kl_divergence(p, p), 0)
    disjoint = masking.masked_log_softmax(jnp.zeros(4), jnp.array([True, True, False, False]))
    other = masking.masked_log_softmax(jnp.zeros(4), jnp.array([False, False, True, True]))
    assert masking.total_variation(disjoint, other) == 1
    assert 1e8 < masking.kl_divergence(disjoint, other) < np.inf


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0, 5.0])
def test_losses_equal_the_reference(gamma):
    focal = losses.focal_loss(validity, valid, gamma=gamma)
    np.testing.assert_allclose(focal, reference.focal_loss(VALIDITY, VALID, gamma), rtol=1e-5)
    for threshold in (0.3, 0.5, 0.9):
        ours = losses.kl_balanced_loss(validity, valid, policy, gamma=gamma, threshold=threshold)
        expected = reference.kl_balanced_loss(VALIDITY, VALID, POLICY, gamma, threshold)
        np.testing.assert_allclose(ours, expected, rtol=1e-5)


@pytest.mark.parametrize("row", range(60))
def test_every_row_alone_equals_the_reference(row):
    """The mean over rows could hide a small one behind one of 1e4."""
    v, m, p = validity[row], valid[row], policy[row]
    weights = losses.kl_weights(v, m, p)
    expected = reference.kl_weights(VALIDITY[row], VALID[row], POLICY[row])
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(
        losses.kl_balanced_loss(v, m, p),
        reference.kl_balanced_loss(VALIDITY[row][None], VALID[row][None], POLICY[row][None], 2.0),
        rtol=1e-5,
        atol=1e-5,
    )


def test_focal_loss_is_optax_s_where_that_is_defined():
    terms = optax.sigmoid_focal_loss(validity, valid.astype(jnp.float32), gamma=2.0)
    np.testing.assert_allclose(losses.focal_loss(validity, valid), terms.mean(), rtol=1e-5)


def test_where_the_masks_agree_the_weights_are_uniform_and_the_loss_is_focal():
    agree = jnp.where(valid, 4.0, -4.0)
    weights = losses.kl_weights(agree, valid, policy)
    np.testing.assert_array_equal(weights, jnp.full(weights.shape, 1 / ACTIONS))
    np.testing.assert_allclose(
        losses.kl_balanced_loss(agree, valid, policy), losses.focal_loss(agree, valid), rtol=1e-6
    )


def test_the_weights_prefer_the_action_the_policy_would_take():
    """Two mistakes: on a likely and on an unlikely action."""
    logits, truth = jnp.array([3.0, 0.0, -3.0, 0.0]), jnp.array([True, True, True, False])
    wrong = jnp.array([-4.0, 4.0, -4.0, -4.0])
    weights = losses.kl_weights(wrong, truth, logits)
    assert weights[0] > 100 * weights[2] > 0
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-6)


def test_the_weights_overlook_a_valid_action_that_only_the_mask_brings_up():
    """The paper's weights, and what is wrong with them (docs/findings.md): in the full game
    `descend` has a probability of 3e-9 to 7e-9 without the mask and of 0.6 with it."""
    logits = jnp.array([0.0, -19.0, -19.4, -30.0])  # an invalid action has it all without the mask
    valid = jnp.array([False, True, True, False])
    assert masking.masked_log_softmax(logits, valid)[1] > jnp.log(0.59)
    forbids_it = jnp.where(jnp.array([False, False, True, False]), 6.0, -6.0)
    weights = losses.kl_weights(forbids_it, valid, logits)
    assert weights[1] < 1e-6
    assert weights[0] > 0.999
    # Ours looks at the policies that act: 0.6 of one, 0 of the other, and the rest of each.
    ours = losses.kl_weights(forbids_it, valid, logits, acting=True)
    np.testing.assert_allclose(ours, [0.0, 0.5, 0.5, 0.0], atol=1e-6)


@pytest.mark.parametrize("row", range(len(EACH_ROW)))
def test_weights_by_the_acting_policies_are_their_distance(row):
    masks = VALID[row], 1 / (1 + np.exp(-np.clip(VALIDITY[row], -700, 700))) > 0.5
    logits = [np.where(m if m.any() else True, POLICY[row], -np.inf) for m in masks]
    oracle, predicted = (scipy.special.softmax(x) for x in logits)
    moved = np.abs(oracle - predicted)
    expected = moved / moved.sum() if moved.sum() >= 1e-6 else np.full(ACTIONS, 1 / ACTIONS)
    ours = losses.kl_weights(validity[row], valid[row], policy[row], acting=True)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


def test_the_weights_carry_no_gradient():
    def total(validity_logits, policy_logits):
        weights = losses.kl_weights(validity_logits, valid, policy_logits)
        return (weights * jnp.arange(ACTIONS)).sum()

    for gradient in jax.grad(total, argnums=(0, 1))(validity, policy):
        assert (np.asarray(gradient) == 0).all()
    policy_gradient = jax.grad(lambda p: losses.kl_balanced_loss(validity, valid, p))(policy)
    assert (np.asarray(policy_gradient) == 0).all()


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_gradients_equal_finite_differences_of_the_reference(gamma):
    calm = slice(20, 40)  # no entry sits at the threshold, where the loss jumps
    v, m, p = VALIDITY[calm], VALID[calm], POLICY[calm]
    ours = jax.grad(lambda x: losses.kl_balanced_loss(x, valid[calm], policy[calm], gamma=gamma))(
        validity[calm]
    )
    # The weights are constants: they are not nudged with the logits.
    weights = np.stack([reference.kl_weights(*row) for row in zip(v, m, p, strict=True)])

    def loss(x):
        return (weights * reference.focal_terms(x, m, gamma)).sum(-1).mean()

    step = 1e-6
    for row, action in np.ndindex(v.shape):
        nudge = np.zeros_like(v)
        nudge[row, action] = step
        slope = (loss(v + nudge) - loss(v - nudge)) / (2 * step)
        assert ours[row, action] == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_gradients_are_finite_on_every_row():
    for gamma in (0.0, 0.5, 2.0):
        for loss in (
            lambda x, g=gamma: losses.focal_loss(x, valid, gamma=g),
            lambda x, g=gamma: losses.kl_balanced_loss(x, valid, policy, gamma=g),
        ):
            assert np.isfinite(jax.grad(loss)(validity)).all()
