"""Who acts, under which mask, and what is learned about it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import masking
from maskless.conditions import Condition, condition
from maskless.envs.effects import had_effect
from maskless.envs.staircase import Staircase, StaircaseState
from maskless.nets import Heads
from maskless.ppo import elimination
from maskless.ppo.acting import CLONE, POLICY, PREDICTED, act, log_policy
from maskless.ppo.labels import with_labels
from maskless.ppo.rollout import Rollout
from maskless.ppo.update import Batch, normalised_advantages, policy_of_ratio

from toys import Tower, TowerState

ENVS, ACTIONS = 400, 5
KEY = jax.random.key(0)
VALID = jnp.broadcast_to(jnp.arange(ACTIONS) < 3, (ENVS, ACTIONS))
PREDICTED_VALID = jnp.broadcast_to(jnp.arange(ACTIONS) >= 3, (ENVS, ACTIONS))


def heads():
    """The policy likes action 0, the clone action 4; predicted valid are 3 and 4."""
    zeros = jnp.zeros((ENVS, ACTIONS))
    return Heads(
        logits=zeros.at[:, 0].set(2.0),
        value=zeros[:, 0],
        validity=jnp.where(PREDICTED_VALID, 3.0, -3.0),
        features=zeros,
        clone=zeros.at[:, 4].set(50.0),
    )


def test_shares_of_the_environments_act_under_predicted_masks_and_by_the_clone():
    chosen = condition("masked-clone:strength=1,predicted_share=0.25,clone_share=0.5")
    done = act(KEY, chosen, VALID, heads())
    by = np.asarray(done.by)
    assert [np.flatnonzero(by == who).min() for who in (PREDICTED, POLICY, CLONE)] == [0, 100, 200]
    action, mask = np.asarray(done.executed), np.asarray(done.decision.mask)
    assert (action[by == PREDICTED] >= 3).all()
    assert (action[by == POLICY] < 3).all()
    assert (action[by == CLONE] == 4).all()
    assert mask[by == CLONE].all()
    np.testing.assert_array_equal(mask[by == POLICY], VALID[by == POLICY])


def test_what_failed_is_not_tried_again_but_under_the_oracles_mask():
    chosen = condition("safe-loop:predicted_share=0.5")
    tried = jnp.zeros((ENVS, ACTIONS), jnp.int32).at[:, jnp.array([0, 3])].set(1)
    done = act(KEY, chosen, VALID, heads(), tried)
    by, action = np.asarray(done.by), np.asarray(done.executed)
    assert (action[by == PREDICTED] == 4).all()
    assert set(action[by == POLICY]) == {0, 1, 2}
    forgetful = dataclasses.replace(chosen, remembers=False)
    action = np.asarray(act(KEY, forgetful, VALID, heads(), tried).executed)
    assert set(action[by == PREDICTED]) == {3, 4}


def test_exploring_tries_what_is_forbidden_and_is_no_choice_of_the_policy():
    done = act(KEY, Condition(masked=True, explore=0.3), VALID, heads())
    forbidden = ~np.asarray(VALID)[np.arange(ENVS), done.executed]
    np.testing.assert_array_equal(forbidden, done.excused)
    assert 0.2 < forbidden.mean() < 0.4
    assert set(np.asarray(done.executed)[forbidden]) == {3, 4}
    all_allowed = act(KEY, Condition(masked=False, explore=1.0), VALID, heads())
    assert not np.asarray(all_allowed.excused).any()


def test_the_environment_replaces_invalid_choices():
    chosen = Condition(masked=False, replaces=True)
    done = act(KEY, chosen, VALID, heads())
    choice, executed = np.asarray(done.decision.action), np.asarray(done.executed)
    invalid = choice >= 3
    assert invalid.any()
    assert (executed < 3).all()
    np.testing.assert_array_equal(choice[~invalid], executed[~invalid])
    assert set(executed[invalid]) == {0, 1, 2}
    learned = act(KEY, dataclasses.replace(chosen, learns_replaced=True), VALID, heads()).decision
    np.testing.assert_array_equal(learned.action, executed)
    own = jnp.take_along_axis(learned.log_probs, learned.action[:, None], -1)[:, 0]
    np.testing.assert_array_equal(learned.log_prob, own)


def test_a_soft_mask_leaves_a_little():
    chosen = Condition(masked=True, soft_mask=-3.0)
    decision = act(KEY, chosen, VALID, heads()).decision
    np.testing.assert_array_equal(decision.mask, VALID)
    expected = jax.nn.log_softmax(heads().logits + jnp.where(VALID, 0.0, -3.0))
    np.testing.assert_allclose(decision.log_probs, expected, rtol=1e-5)
    np.testing.assert_array_equal(
        log_policy(chosen, heads().logits, decision.mask), decision.log_probs
    )


def rollout_of(chosen, **fields):
    decision = act(KEY, chosen, VALID, heads()).decision
    nothing = jnp.zeros(ENVS)
    values = {
        "observation": nothing,
        "valid": VALID,
        "applied": decision.mask,
        "reset": nothing > 0,
        "action": decision.action,
        "log_prob": decision.log_prob,
        "reward": nothing,
        "done": nothing > 0,
        "heads": heads(),
        "episodes": None,
    } | fields
    return Rollout(**jax.tree.map(lambda x: x[None], values))


@pytest.mark.parametrize(
    ("name", "mask_of_old"), [("masked", True), ("naive", False), ("off-policy", True)]
)
def test_the_ratio_of_the_rivals(name, mask_of_old):
    rollout = rollout_of(condition(name))
    mask, old = policy_of_ratio(condition(name), rollout)
    assert np.asarray(mask).all() == (name != "masked")
    log_probs = masking.masked_log_softmax(
        heads().logits, VALID if mask_of_old else jnp.ones_like(VALID)
    )
    expected = jnp.take_along_axis(log_probs, rollout.action[0][:, None], -1)[:, 0]
    np.testing.assert_allclose(old[0], expected, rtol=1e-6)


def test_silent_steps_have_no_advantage_and_the_others_keep_theirs():
    rollout = rollout_of(condition("unmasked"))
    advantages = jax.random.normal(KEY, rollout.reward.shape)
    batch = Batch(rollout, (), advantages, advantages, advantages)
    loud, silent = (
        np.asarray(normalised_advantages(condition(name), batch, None))
        for name in ("unmasked", "unmasked-silent")
    )
    works = np.asarray(rollout.action) < 3
    np.testing.assert_array_equal(silent, np.where(works, loud, 0.0))
    assert (~works).any()


def test_noise_and_missing_labels():
    chosen = Condition(masked=True, strength=1.0, label_noise=0.1, labelled_share=0.25)
    rollout = with_labels(KEY, chosen, rollout_of(chosen))
    assert 0.08 < np.mean(rollout.labels != rollout.valid) < 0.12
    assert 0.2 < np.mean(rollout.label_weights) < 0.3
    assert set(np.unique(rollout.label_weights)) == {0.0, 1.0}
    untouched = rollout_of(condition("masked-focal"))
    assert with_labels(KEY, condition("masked-focal"), untouched) is untouched


def test_labels_of_a_part_of_the_states():
    chosen = Condition(masked=True, strength=1.0, labelled_states=0.25)
    weights = np.asarray(with_labels(KEY, chosen, rollout_of(chosen)).label_weights[0])
    np.testing.assert_array_equal(weights, np.broadcast_to(weights[:, :1], weights.shape))
    assert 0.2 < weights[:, 0].mean() < 0.3


def test_an_oracle_that_knows_a_part_of_the_actions_calls_the_others_valid():
    known = []
    for share in (0.0, 0.4, 0.8):
        chosen = condition(f"masked-focal:labelled_actions={share}")
        rollout = with_labels(KEY, chosen, rollout_of(chosen, valid=jnp.zeros_like(VALID)))
        assert not np.asarray(rollout.valid).any()  # the masks that are applied stay as they are
        (labels,) = np.unique(np.asarray(rollout.labels[0]), axis=0)  # always the same actions
        known.append(set(np.flatnonzero(~labels)))
    assert [len(actions) for actions in known] == [0, 2, 4]
    assert known[1] < known[2]


def test_balanced_labels_weigh_the_same_of_every_action():
    valid = jax.random.bernoulli(KEY, jnp.array([0.01, 0.3, 0.5, 0.9, 0.99]), (ENVS, ACTIONS))
    for balance, expected in ((1.0, 0.5), (0.5, None)):
        chosen = condition(f"masked-focal:balance={balance}")
        rollout = with_labels(KEY, chosen, rollout_of(chosen, valid=valid))
        weights, labels = np.asarray(rollout.label_weights[0]), np.asarray(valid)
        share = (weights * labels).sum(0) / weights.sum(0)
        expected = (labels.mean(0) + 0.5) / 2 if expected is None else expected
        np.testing.assert_allclose(share, expected, atol=1e-5)


def test_without_an_oracle_the_only_label_is_that_of_the_action_tried():
    chosen = Condition(masked=False, strength=1.0, tried=True)
    effect = jax.random.bernoulli(KEY, 0.5, (ENVS,))
    rollout = with_labels(KEY, chosen, rollout_of(chosen, effect=effect))
    weights, labels = np.asarray(rollout.label_weights[0]), np.asarray(rollout.labels[0])
    np.testing.assert_array_equal(weights, np.eye(ACTIONS)[rollout.action[0]])
    np.testing.assert_array_equal(labels[weights > 0], effect)


def test_an_effect_is_what_the_oracle_calls_valid():
    env, cells = Staircase(length=4), jnp.arange(5)
    for action in range(env.num_actions):
        zeros = jnp.zeros(5, jnp.int32)
        states = StaircaseState(cells, zeros > 0, zeros)
        actions = jnp.full(5, action)
        effect = had_effect(env, jax.random.split(KEY, 5), states, actions)
        np.testing.assert_array_equal(effect, jax.vmap(env.validity)(states)[:, action])


def test_an_effect_is_more_than_what_the_no_op_does():
    """In the tower a clock runs, whatever is done."""
    env, energy = Tower(), jnp.arange(10)
    zeros = jnp.zeros(10, jnp.int32)
    states = TowerState(zeros, zeros, energy, zeros)
    for action in range(4):  # but the gamble, which is lost half of the time
        effect = had_effect(env, jax.random.split(KEY, 10), states, jnp.full(10, action))
        np.testing.assert_array_equal(effect, jax.vmap(env.validity)(states)[:, action])


def test_elimination_is_ridge_regression_with_its_standard_error():
    random = np.random.default_rng(0)
    phi, valid = random.normal(size=(300, 4)), random.random((300, 3)) < 0.4
    theta, width = elimination.fit(jnp.float32(phi), jnp.array(valid), ridge=2.0, confidence=1.5)
    inputs = np.concatenate([phi, np.ones((300, 1))], axis=1)
    covariance = inputs.T @ inputs + 2.0 * np.eye(5)
    expected = np.linalg.solve(covariance, inputs.T @ np.where(valid, 1.0, -1.0))
    np.testing.assert_allclose(theta, expected, atol=1e-5)
    new = random.normal(size=(7, 5))
    errors = 1.5 * np.sqrt(np.einsum("ni,ij,nj->n", new, np.linalg.inv(covariance), new))
    np.testing.assert_allclose(np.linalg.norm(new @ np.asarray(width), axis=1), errors, rtol=1e-4)


def test_elimination_forbids_nothing_in_a_direction_it_has_not_seen():
    phi = np.zeros((500, 3), np.float32)
    phi[:, 0] = 1.0
    invalid = jnp.zeros((500, 2), bool)
    theta, width = elimination.fit(jnp.array(phi), invalid, ridge=1.0, confidence=2.0)

    def predicted(x):
        x = np.append(x, 1.0)
        return x @ np.asarray(theta) + np.linalg.norm(x @ np.asarray(width)) > 0

    assert not predicted([1.0, 0.0, 0.0]).any()
    assert predicted([1.0, 3.0, 0.0]).all()
