"""What is minimised, for every condition of the table: the equation in NumPy's float64, one step at
a time."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.conditions import CONDITIONS, condition
from maskless.envs.vector import First
from maskless.hyperparameters import Hyperparameters
from maskless.nets import Heads
from maskless.ppo.acting import CLONE, act
from maskless.ppo.labels import with_labels
from maskless.ppo.learner import Learner, TrainState
from maskless.ppo.rollout import Actor, Rollout
from maskless.ppo.update import Batch, objective

import reference

ENVS, ACTIONS = 60, 6
PPO = Hyperparameters()
NAMES = (
    *CONDITIONS,
    *("masked-distil:distil=0.5,distil_below=0.2", "replace:learns_replaced=1"),
    *("masked:explore=0.3", "masked-loop:predicted_share=0.5", "dagger:clone_share=0.3"),
    *("masked-focal:label_noise=0.1", "masked-focal:labelled_share=0.3,valid_weight=2"),
    *("masked-focal:labelled_states=0.4", "masked-mix:labelled_actions=0.5,balance=0.7"),
)


class Known:
    """A network whose parameters are its outputs."""

    def apply(self, params, carry, obs, reset):
        return carry, params["outputs"]


def random_heads(seed):
    numbers = np.random.default_rng(seed).normal(0, 1.5, (5, ENVS, ACTIONS)).astype(np.float32)
    logits, validity, features, clone, values = map(jnp.array, numbers)
    return Heads(logits, values[:, 0], validity, features, clone=clone)


def batch_of(chosen):
    """What was collected by an old policy, and what a new one makes of it."""
    random = np.random.default_rng(2)
    valid = random.random((ENVS, ACTIONS)) < 0.5
    valid[~valid.any(-1), 0] = True
    old, new = random_heads(3), random_heads(4)
    new = dataclasses.replace(
        new,
        logits=old.logits + 0.1 * new.logits,
        value=old.value + 0.2 * new.value,
    )
    done = act(jax.random.key(5), chosen, jnp.array(valid), old)
    advantages, targets = jnp.float32(random.normal(0.3, 2.0, (2, 1, ENVS)))
    rollout = Rollout(
        observation=jnp.zeros(ENVS),
        valid=jnp.array(valid),
        applied=done.decision.mask,
        reset=jnp.zeros(ENVS, bool),
        action=done.decision.action,
        log_prob=done.decision.log_prob,
        reward=jnp.zeros(ENVS),
        done=jnp.zeros(ENVS, bool),
        heads=old,
        episodes=None,
        by=done.by,
        excused=done.excused,
        effect=jnp.array(random.random(ENVS) < 0.5),
    )
    rollout = jax.tree.map(lambda x: x[None], rollout)
    rollout = with_labels(jax.random.key(6), chosen, rollout)
    batch = Batch(rollout, (), advantages, targets, jnp.zeros_like(targets))
    return batch, jax.tree.map(lambda x: x[None], new)


def slowly(chosen, batch, new):
    """L = L_policy + c_V L_value - c_H H + lambda L_cls + what the rivals add."""
    rollout = jax.tree.map(lambda x: np.asarray(x)[0], batch.rollout)
    new, old = (jax.tree.map(np.float64, x) for x in (new, rollout.heads))
    new = jax.tree.map(lambda x: x[0], new)
    advantages, targets = (np.float64(x)[0] for x in (batch.advantages, batch.targets))
    counts = np.ones(ENVS, bool) if not chosen.clone_share else rollout.by != CLONE
    advantages = (advantages - advantages[counts].mean()) / (advantages[counts].std() + 1e-8)
    labels = rollout.valid if rollout.labels is None else rollout.labels
    if chosen.silent:
        advantages[~labels[np.arange(ENVS), rollout.action]] = 0.0
    if chosen.explore:
        advantages[rollout.excused] = 0.0

    def log_policy(logits, mask, unmasked):
        if unmasked:
            return reference.log_softmax(logits)
        if chosen.soft_mask:
            return reference.log_softmax(logits + np.where(mask, 0.0, chosen.soft_mask))
        return reference.masked_log_softmax(logits, mask)

    log_probs, old_log_probs, entropies = [], [], []
    for step in range(ENVS):
        mask, action = rollout.applied[step], rollout.action[step]
        now = log_policy(new.logits[step], mask, chosen.unmasked_ratio)
        acted = old.clone if chosen.clone_share and not counts[step] else old.logits
        before = log_policy(acted[step], mask, chosen.unmasked_ratio and not chosen.importance)
        log_probs.append(now[action])
        old_log_probs.append(before[action])
        possible = now > -1e9
        entropies.append(-(np.exp(now[possible]) * now[possible]).sum())
    log_probs, old_log_probs, entropies = map(np.array, (log_probs, old_log_probs, entropies))
    some = [log_probs[counts], old_log_probs[counts], advantages[counts]]
    values = [x[counts] for x in (new.value, old.value, targets)]
    loss = reference.clipped_policy_loss(*some, PPO.clip)
    loss += PPO.value_weight * reference.clipped_value_loss(*values, PPO.clip)
    loss -= chosen.entropy_factor * PPO.entropy * entropies[counts].mean()
    loss += chosen.strength * classification(chosen, rollout, new, labels)
    return loss + of_rivals(chosen, rollout.valid, new)


def classification(chosen, rollout, new, labels):
    known = np.ones(labels.shape) if rollout.label_weights is None else rollout.label_weights
    known = known / known.mean()
    if chosen.squared:
        return (known * (1 / (1 + np.exp(-new.validity)) - labels) ** 2).mean()
    terms = known * reference.focal_terms(new.validity, labels, chosen.gamma)
    weights = np.array([
        reference.kl_weights(v, m, z, chosen.threshold)
        for v, m, z in zip(new.validity, labels, new.logits, strict=True)
    ])  # fmt: skip
    if chosen.acting:
        weights = np.array([
            moved(z, m, 1 / (1 + np.exp(-v)) > chosen.threshold)
            for v, m, z in zip(new.validity, labels, new.logits, strict=True)
        ])  # fmt: skip
    balanced = (weights * terms).sum(-1).mean()
    return chosen.kl_share * balanced + (1 - chosen.kl_share) * terms.mean()


def moved(logits, valid, predicted):
    gap = np.abs(
        np.exp(reference.masked_log_softmax(logits, valid))
        - np.exp(reference.masked_log_softmax(logits, predicted))
    )
    return gap / gap.sum() if gap.sum() >= 1e-6 else np.full(len(gap), 1 / len(gap))


def of_rivals(chosen, valid, new):
    total = 0.0
    for z, c, m in zip(new.logits, new.clone, valid, strict=True):
        log_pi, log_masked = reference.log_softmax(z), reference.masked_log_softmax(z, m)
        counts = m & (np.exp(log_pi) <= chosen.distil_below)
        total += chosen.distil * (np.exp(log_masked) * (log_masked - log_pi))[counts].sum()
        total += chosen.invalid_mass * np.exp(log_pi[~m]).sum()
        total -= chosen.clone * (np.exp(log_masked) * reference.log_softmax(c))[m].sum()
    return total / len(valid)


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_of_every_condition(name):
    chosen = condition(name)
    batch, new = batch_of(chosen)
    ours, terms = objective({"outputs": new}, Known(), batch, chosen, PPO)
    np.testing.assert_allclose(ours, slowly(chosen, batch, new), rtol=2e-5, atol=1e-6)
    assert all(np.isfinite(term) for term in terms.values())


def test_a_penalty_is_taken_from_the_reward_of_invalid_choices():
    """Of one step: the advantage is r - c [invalid] + discount V' (1 - done) - V."""
    chosen = condition("penalty:penalty=0.3")
    rollout = batch_of(chosen)[0].rollout
    random = np.random.default_rng(7)
    reward, done = random.normal(size=(1, ENVS)), random.random((1, ENVS)) < 0.3
    rollout = dataclasses.replace(rollout, reward=jnp.float32(reward), done=jnp.array(done))
    last = jax.tree.map(lambda x: x[None], random_heads(8))
    now = First(jnp.zeros(ENVS), rollout.valid[0])
    actor = Actor(worlds=None, carry=(), now=now, reset=jnp.zeros(ENVS, bool))
    fields = {field.name: None for field in dataclasses.fields(TrainState)}
    state = TrainState(**fields | {"params": {"outputs": last}, "actor": actor})
    learner = SimpleNamespace(net=Known())
    batch = Learner._batch(learner, PPO, chosen, state, actor, rollout, None)
    invalid = ~np.asarray(rollout.valid)[0, np.arange(ENVS), rollout.action[0]]
    values, after = (np.float64(x.value)[0] for x in (rollout.heads, last))
    expected = reward[0] - 0.3 * invalid + PPO.discount * after * ~done[0] - values
    assert 0 < invalid.sum() < ENVS
    np.testing.assert_allclose(batch.advantages[0], expected, rtol=1e-5, atol=1e-6)
