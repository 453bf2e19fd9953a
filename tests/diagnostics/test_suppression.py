"""Suppression against the slow reference, update after update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.diagnostics import suppression

from diagnostics import slow


def step(state, rollout, update):
    return suppression.measure(
        state,
        rollout.policy_logits,
        applied=rollout.applied,
        valid=rollout.valid,
        actions=rollout.actions,
        update=update,
    )


jax.tree_util.register_dataclass(
    slow.Rollout, data_fields=list(slow.Rollout.__dataclass_fields__), meta_fields=[]
)
compiled = jax.jit(step)


def follow(rollouts):
    """The metrics of every update."""
    state = suppression.init(slow.ACTIONS)
    for update, rollout in enumerate(rollouts, start=1):
        state, metrics = compiled(state, rollout, update)
        yield metrics


@pytest.mark.parametrize("kind", ["unmasked", "masked", "predicted"])
def test_equals_the_reference_in_every_update(kind):
    rollouts = slow.random_rollouts(kind)
    for update, metrics in enumerate(follow(rollouts), start=1):
        expected = slow.suppression(rollouts[:update])
        assert metrics.keys() == expected.keys()
        for name, value in metrics.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_probabilities_are_right_where_they_are_tiny():
    """An absolute tolerance would let a suppressed action pass for any other."""
    rollouts = slow.random_rollouts("unmasked", updates=2)
    rollouts[-1].policy_logits[..., slow.RARE] -= 15
    (*_, metrics), expected = follow(rollouts), slow.suppression(rollouts)
    assert expected["raw_probability_valid"][slow.RARE] < 1e-6
    for name in expected:
        if "probability" in name:
            np.testing.assert_allclose(metrics[name], expected[name], rtol=2e-5, err_msg=name)


def test_what_never_happens_has_no_number():
    *_, metrics = follow(slow.random_rollouts("masked"))
    assert metrics["valid_share"][slow.NEVER] == 0
    for name in ("probability_valid", "first_valid_frames", "frames_to_half", "suppression_ratio"):
        assert np.isnan(metrics[name][slow.NEVER])
    assert np.isnan(metrics["probability_invalid"][slow.ALWAYS])


def test_first_occurrence_and_time_to_valid_count_frames():
    rollouts = slow.random_rollouts("unmasked", updates=5)
    *_, metrics = follow(rollouts)
    frames = rollouts[0].actions.size
    assert metrics["first_valid_frames"][slow.ALWAYS] == frames
    assert metrics["first_valid_frames"][slow.ONCE] == 2 * frames
    assert metrics["suppression_ratio"][slow.RARE] < 1  # its logits begin low
    assert metrics["frames_to_half"][slow.RARE] in (frames, 2 * frames, 3 * frames)  # and rise


def test_frames_beyond_int32_are_right():
    rollout = slow.random_rollouts("unmasked", updates=1)[0]
    _, metrics = compiled(suppression.init(slow.ACTIONS), rollout, 10**8)
    exact = 10**8 * rollout.actions.size
    assert exact > 2**32
    assert float(metrics["first_valid_frames"][slow.ALWAYS]) == pytest.approx(exact, rel=1e-7)


def test_a_uniform_policy_under_masks_is_one_among_valid():
    rollout = slow.random_rollouts("masked", updates=1)[0]
    rollout.policy_logits = np.zeros_like(rollout.policy_logits)
    (metrics,) = follow([rollout])
    often = rollout.valid.any((0, 1))
    np.testing.assert_allclose(metrics["probability_valid_relative"][often], 1, rtol=1e-6)
    np.testing.assert_allclose(metrics["suppression_ratio_among_valid"][often], 1, rtol=1e-6)
    np.testing.assert_allclose(metrics["raw_probability_valid"][often], 1 / slow.ACTIONS, rtol=1e-6)


def test_many_runs_at_once_are_as_one_by_one():
    runs = [slow.random_rollouts(kind, updates=1)[0] for kind in ("unmasked", "masked")]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *runs)
    start = jax.tree.map(lambda x: jnp.stack([x, x]), suppression.init(slow.ACTIONS))
    together = jax.jit(jax.vmap(step, in_axes=(0, 0, None)))(start, stacked, jnp.int32(1))
    for number, run in enumerate(runs):
        alone = compiled(suppression.init(slow.ACTIONS), run, jnp.int32(1))
        jax.tree.map(
            lambda a, b, number=number: np.testing.assert_allclose(
                a[number], b, rtol=1e-6, atol=1e-12
            ),
            together,
            alone,
        )


def test_the_state_can_be_carried_by_a_compiled_loop():
    """Same shapes and types after an update, or scan refuses."""
    rollouts = jax.tree.map(lambda *x: jnp.stack(x), *slow.random_rollouts("masked"))
    _, metrics = jax.lax.scan(
        lambda state, x: step(state, *x),
        suppression.init(slow.ACTIONS),
        (rollouts, jnp.arange(1, 5)),
    )
    *_, last = follow(slow.random_rollouts("masked"))
    np.testing.assert_allclose(metrics["frames_to_half"][-1], last["frames_to_half"])


def test_a_large_rollout_loses_no_digits():
    random = np.random.default_rng(0)
    logits = np.float32(random.normal(-3, 3, (64, 1024, 43)))
    valid = random.random(logits.shape) < 0.3
    _, metrics = jax.jit(suppression.measure)(
        suppression.init(43),
        logits,
        applied=np.ones_like(valid),
        valid=valid,
        actions=random.integers(0, 43, valid.shape[:2]),
        update=1,
    )
    wide = np.float64(logits)
    probabilities = np.exp(wide - np.log(np.exp(wide).sum(-1, keepdims=True)))
    for action in range(43):
        here = probabilities[..., action][valid[..., action]]
        assert metrics["probability_valid"][action] == pytest.approx(here.mean(), rel=1e-5)
        geometric = np.exp(np.log(here).mean())
        assert metrics["probability_valid_geometric"][action] == pytest.approx(geometric, rel=1e-5)
