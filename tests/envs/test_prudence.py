"""Masks in parts: which prudent rules apply is a number that differs from run to run."""

from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.envs.base import Environment
from maskless.envs.prudence import with_prudence
from maskless.errors import MasklessError
from maskless.finish import finish_runs

SMALL = {"num_envs": 16, "rollout": 16, "minibatches": 2, "epochs": 1, "width": 8, "show": False}
PICK, DROP, SHOUT = 1, 2, 3


class Orchard(Environment):
    """Pick up to three apples. Dropping one and shouting work, and are a waste."""

    id, action_names, episode_limit = "orchard", ("wait", "pick", "drop", "shout"), 16
    noop_action = 0
    rule_sets = ("exact", "prudent")
    prudent_rules = MappingProxyType({"no-drop": "apples are wanted", "no-shout": "nobody listens"})

    def __init__(self, rules="exact"):
        self.rules = self.with_rules(rules).rules

    def reset(self, key, params=None):
        state = (jnp.int32(1), jnp.int32(0))
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        apples, time = state
        works = self.feasible(state)[action]
        change = works * ((action == PICK) * 1 - (action == DROP) * 1)
        late = time + 1 >= self.episode_limit
        state = (apples + change, time + 1)
        return self.observe(state), state, change * 1.0, late, {"truncated": late}

    def observe(self, state):
        return jax.nn.one_hot(state[0], 4)

    def feasible(self, state, params=None):
        apples, _ = state
        return jnp.stack([apples >= 0, apples < 3, apples > 0, apples >= 0])

    def waste(self, state):
        actions = jnp.arange(4)
        return {"no-drop": actions == DROP, "no-shout": actions == SHOUT}

    def validity(self, state, params=None):
        valid = self.feasible(state)
        return valid & (jnp.arange(4) < DROP) if self.rules == "prudent" else valid


@pytest.mark.parametrize(
    ("number", "forbidden"), [(0, ()), (1, (DROP,)), (2, (SHOUT,)), (3, (DROP, SHOUT))]
)
def test_a_number_says_which_rules_apply(number, forbidden):
    state = Orchard().reset(jax.random.key(0))[1]
    expected = [action not in forbidden for action in range(4)]
    for rules in ("exact", "prudent"):
        env = Orchard(rules)
        np.testing.assert_array_equal(with_prudence(env, number).validity(state), expected)
        traced = jax.jit(lambda n, env=env: with_prudence(env, n).validity(state))
        np.testing.assert_array_equal(traced(float(number)), expected)
        np.testing.assert_array_equal(traced(-1.0), env.validity(state))
        assert with_prudence(env, -1) is env


@pytest.fixture(scope="module")
def training():
    """The policies stay what they are at first: about uniform."""
    conditions = ["masked", "masked:prudence=0", "masked:prudence=2", "masked:prudence=3"]
    how = SMALL | {"frames": 2 * 256, "finish": 0, "learning_rate": 1e-9}
    return maskless.train(Orchard("prudent"), conditions, **how)


def test_runs_of_one_program_are_under_masks_of_their_own_parts(training):
    share = training.metrics["valid_share"]  # of all states, the very first ones too
    assert (training.metrics["valid_rate"] == 1).all()
    assert (share[[0, 3], :, DROP:] == 0).all()
    assert (share[1, :, DROP] > 0.5).all()
    assert (share[1, :, SHOUT] == 1).all()
    assert (share[2, :, DROP] > 0.5).all()
    assert (share[2, :, SHOUT] == 0).all()


def test_they_are_evaluated_under_them(training):
    evaluation = training.evaluate(masks=["oracle", "none"], episodes=64)
    assert [run.condition for run in evaluation.runs] == [name for name, _ in training.runs]
    oracle, invalid = (
        np.array([getattr(run.masks[masks], number) for run in evaluation.runs])
        for masks, number in (("oracle", "mean_return"), ("none", "invalid_share"))
    )
    np.testing.assert_allclose(oracle[[0, 3]], 2)  # nothing is ever dropped
    assert (oracle[[1, 2]] < 1.9).all()
    np.testing.assert_array_less(invalid[[1, 2]], invalid[[2, 3]] - 0.1)
    assert invalid[0] == invalid[3]


def test_a_student_learns_its_own_masks(training):
    params = [training.program.fetch_run(training.states.params, 3)]
    env, net = training.request.env, training.request.net
    (student,) = finish_runs(env, net, [("masked:prudence=2", 0)], params, 2000, show=False)
    carry, observation = student.net.initial_carry(1), jax.nn.one_hot(jnp.array([[2]]), 4)
    weights = jax.tree.map(jnp.asarray, student.params)
    _, heads = student.net.apply(weights, carry, observation, jnp.ones((1, 1), bool))
    np.testing.assert_array_equal(heads.validity[0, 0] > 0, [True, True, True, False])


@pytest.mark.parametrize(
    ("env", "name", "sentence"),
    [
        ("staircase", "masked:prudence=1", "staircase has no prudent rules"),
        (Orchard(), "masked:prudence=4", "at most 3 in orchard: 1 .no-drop. [+] 2 .no-shout."),
        (Orchard(), "masked:prudence=0.5", "whole number"),
        (Orchard(), "masked:prudence=-2", "whole number"),
    ],
)
def test_numbers_that_stand_for_no_rules_are_refused(env, name, sentence):
    with pytest.raises(MasklessError, match=sentence):
        maskless.train(env, name, show=False)
