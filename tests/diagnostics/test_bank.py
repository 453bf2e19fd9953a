"""A fixed bank of states in which every action is valid, and what a policy makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.diagnostics import bank
from maskless.envs.staircase import DESCEND, Staircase
from maskless.errors import MasklessError
from maskless.nets import Heads
from maskless.training.log import columns

from toys import MaskedBandit

ENV = Staircase(length=30, spare=1)


class Known:
    """A network whose logits are known: they are its parameters."""

    def initial_carry(self, batch):
        return ()

    def apply(self, params, carry, obs, reset):
        logits = jnp.broadcast_to(params, (*reset.shape, len(params)))
        return carry, Heads(logits, logits[..., 0], logits, logits)


@pytest.fixture(scope="module")
def states():
    return bank.collect(ENV, 3)


def test_there_are_states_that_random_play_does_not_reach(states):
    """The ladder is thirty cells away: nobody falls upon it in thirty-one steps."""
    counts = states.valid.sum(0)
    assert (counts[: DESCEND + 1] >= 3).all()
    assert (counts[DESCEND + 1 :] == 0).all()  # what is valid nowhere is found nowhere
    on_ladder = states.observation[:, -1] > 0
    np.testing.assert_array_equal(states.valid[:, DESCEND], on_ladder)


def test_the_bank_is_the_same_every_time(states):
    jax.tree.map(np.testing.assert_array_equal, states, bank.collect(ENV, 3))


def test_probabilities_with_and_without_a_mask(states):
    logits = np.array([1.0, 2.0, -3.0, 0.0, 0.5, 0.0])
    measured = bank.measure(Known(), jnp.float32(logits), states)
    raw = np.exp(logits) / np.exp(logits).sum()
    for action in range(DESCEND + 1):
        totals = np.array([np.exp(logits[mask]).sum() for mask in states.valid if mask[action]])
        masked = np.exp(logits[action]) / totals
        expected = {
            "bank_raw_probability_valid": raw[action],
            "bank_probability_valid": masked.mean(),
            "bank_probability_valid_geometric": np.exp(np.log(masked).mean()),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(measured[name][action], value, rtol=1e-5)
    assert np.isnan(measured["bank_probability_valid"][DESCEND + 1 :]).all()


def test_every_line_of_the_log_has_it_and_training_is_the_same(tmp_path):
    how = {"preset": "cpu", "frames": 2 * 64, "show": False, "width": 8, "diagnostics": False}
    how |= {"num_envs": 8, "rollout": 8, "minibatches": 1, "epochs": 1}
    plain = maskless.train("staircase", "unmasked", **how)
    probed = maskless.train("staircase", "unmasked", probe=4, folder=tmp_path / "run", **how)
    jax.tree.map(np.testing.assert_array_equal, plain.states.params, probed.states.params)
    name = "bank_raw_probability_valid"
    curve = probed.metrics[name]
    assert curve.shape == (1, 2, 6)
    np.testing.assert_array_equal(columns(tmp_path / "run" / "unmasked" / "seed-0")[name], curve[0])
    assert np.isfinite(curve[..., DESCEND]).all()  # which no rollout of eight steps has met
    env, net = probed.request.env, probed.request.net
    again = bank.Probe(env, net, 4)(probed.program.fetch_run(probed.states.params, 0))
    np.testing.assert_allclose(again[name], curve[0, -1], rtol=1e-6)


def test_worlds_that_have_none_are_refused():
    env = MaskedBandit()
    env.has_masks = False
    with pytest.raises(MasklessError, match="no bank"):
        bank.collect(env, 3)
    with pytest.raises(MasklessError, match="probe must be from 0"):
        maskless.train("staircase", probe=-1, show=False)
