"""Classifier quality against a reference that looks at every state and every pair."""

import functools

import jax
import numpy as np
import pytest
import scipy.stats

from maskless.diagnostics import classifier

from diagnostics import slow


@functools.partial(jax.jit, static_argnames="stride")
def compiled(validity_logits, valid, policy_logits, threshold=0.5, stride=1):
    return classifier.measure(
        validity_logits, valid, policy_logits, threshold=threshold, stride=stride
    )


def measure(rollout, **options):
    return compiled(rollout.validity_logits, rollout.valid, rollout.policy_logits, **options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("unmasked", {}), ("masked", {"threshold": 0.8}), ("masked", {"stride": 3})],
)
def test_equals_the_reference(kind, options):
    for rollout in slow.random_rollouts(kind, updates=2):  # with `once` never and once valid
        metrics, expected = measure(rollout, **options), slow.classifier(rollout, **options)
        assert metrics.keys() == expected.keys()
        for name, value in metrics.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_nothing_to_judge_by_is_no_number():
    metrics = measure(slow.random_rollouts("masked")[0])
    assert np.isnan(metrics["classifier_recall"][slow.NEVER])
    assert np.isnan(metrics["classifier_auroc"])[[slow.NEVER, slow.ALWAYS]].all()
    assert np.isfinite(metrics["classifier_accuracy_per_action"]).all()


def test_a_perfect_and_a_useless_classifier():
    rollout = slow.random_rollouts("masked")[1]
    rollout.validity_logits = np.where(rollout.valid, np.float32(30), np.float32(-30))
    metrics = measure(rollout)
    for name in ("accuracy_per_action", "precision", "recall", "auroc"):
        value = metrics[f"classifier_{name}"]
        np.testing.assert_allclose(value[~np.isnan(value)], 1, rtol=1e-6)
    assert np.isnan(metrics["classifier_precision"]).tolist() == [
        action == slow.NEVER for action in range(slow.ACTIONS)
    ]
    for name in ("mask_total_variation", "mask_kl", "fallback_rate"):
        assert metrics[name] == pytest.approx(0, abs=1e-6)
    assert metrics["uniform_weight_share"] == 1
    np.testing.assert_allclose(metrics["classifier_calibration_error"], 0, atol=1e-6)

    rollout.validity_logits = np.zeros_like(rollout.validity_logits)  # a head without training
    metrics = measure(rollout)
    assert metrics["fallback_rate"] == 1
    np.testing.assert_allclose(metrics["classifier_auroc"][slow.MOSTLY], 0.5, rtol=1e-6)
    np.testing.assert_allclose(metrics["classifier_calibration_error"][slow.NEVER], 0.5)


def test_binned_auroc_is_near_the_exact_one():
    random = np.random.default_rng(0)
    valid = random.random((64, 64, 3)) < [0.5, 0.05, 0.002]
    logits = np.float32(random.normal(0, 2, valid.shape) + 3 * valid - [0, 4, 8])
    metrics = compiled(logits, valid, np.zeros_like(logits))
    for action in range(3):
        scores, is_valid = logits[..., action], valid[..., action]
        wins = scipy.stats.mannwhitneyu(scores[is_valid], scores[~is_valid]).statistic
        exact = wins / is_valid.sum() / (~is_valid).sum()
        assert metrics["classifier_auroc"][action] == pytest.approx(exact, abs=0.005)


def test_many_runs_at_once_are_as_one_by_one():
    runs = [slow.random_rollouts("masked", seed=seed)[1] for seed in (0, 1)]
    names = ("validity_logits", "valid", "policy_logits")
    thresholds = np.float32([0.5, 0.8])
    together = jax.jit(jax.vmap(lambda *x: classifier.measure(*x[:3], threshold=x[3])))(
        *(np.stack([getattr(run, name) for run in runs]) for name in names), thresholds
    )
    for number, run in enumerate(runs):
        for name, value in measure(run, threshold=thresholds[number]).items():
            np.testing.assert_allclose(together[name][number], value, rtol=1e-5, atol=1e-6)
