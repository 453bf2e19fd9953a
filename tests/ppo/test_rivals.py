"""Every method beside the paper's, trained on a short staircase, does what it is known to do."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from maskless.config import Config
from maskless.envs.staircase import DESCEND, Staircase
from maskless.hyperparameters import Hyperparameters
from maskless.training.program import of_run

from programs import program_of

ENV = Staircase(length=12, spare=6)
OPTIMUM = 12 * 0.1 + 5.0
PPO = Hyperparameters(num_envs=32, rollout=32, minibatches=2, epochs=4, learning_rate=2e-3)
UPDATES = 48
NAMES = (
    *("masked", "unmasked", "masked-clone", "safe-loop", "discovered", "unmasked-silent"),
    *("penalty:penalty=0.5", "naive", "off-policy", "masked-distil:distil=1", "zhao21"),
    *("replace", "eliminate", "dagger"),
)


class Runs:
    def __init__(self):
        config = Config(
            env=ENV.id, frames=UPDATES * 1024, conditions=NAMES, ppo=PPO, width=32, seeds=1
        )
        self.program = program_of(config, ENV, chunk=UPDATES)
        self.begun = self.program.start()
        self.states, self.metrics = self.program.advance(self.program.start(), UPDATES)

    def params(self, name):
        (number,) = (i for i, full in enumerate(NAMES) if full.partition(":")[0] == name)
        return traverse_util.flatten_dict(of_run(self.states.params, number))

    def history(self, name, metric):
        (number,) = (i for i, full in enumerate(NAMES) if full.partition(":")[0] == name)
        return self.metrics[metric][:, number]

    def last(self, name, metric):
        with warnings.catch_warnings():  # what was never there has no number
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.nanmean(self.history(name, metric)[-8:], axis=0)


@pytest.fixture(scope="module")
def runs():
    return Runs()


@pytest.mark.parametrize("name", ["masked-clone", "eliminate"])
def test_what_learns_beside_the_policy_leaves_it_as_it_is(runs, name):
    """Bit for bit: whatever the clone learns, the return under the oracle cannot fall."""
    masked, other = runs.params("masked"), runs.params(name)
    own = {path for path in masked if {"clone", "validity", "uncertainty"} & set(path)}
    assert own
    for path in masked.keys() - own:
        np.testing.assert_array_equal(masked[path], other[path])
    assert any((masked[path] != other[path]).any() for path in own)


def test_the_clone_needs_no_mask_where_its_model_does(runs):
    assert runs.last("masked-clone", "return") > 0.99 * OPTIMUM
    assert runs.last("masked-clone", "clone_invalid_mass") < 0.12
    assert runs.last("masked", "invalid_mass") > 0.25
    assert runs.last("dagger", "return_clone") > 0.9 * OPTIMUM


def test_a_clone_begins_as_the_policy(runs):
    learner = runs.program.learner
    carry, observation = learner.net.initial_carry(1), ENV.reset(jax.random.key(0))[0]
    params = of_run(runs.begun.params, NAMES.index("masked-clone"))
    _, heads = learner.net.apply(params, carry, observation[None, None], jnp.ones((1, 1), bool))
    np.testing.assert_array_equal(heads.clone, heads.logits)


@pytest.mark.parametrize(
    ("name", "least"),
    [("masked-distil", 0.05), ("naive", 0.2), ("off-policy", 0.2), ("zhao21", 0.2)],
)
def test_losses_on_the_policy_itself_teach_it_to_do_without_masks(runs, name, least):
    assert runs.last(name, "return") > 0.95 * OPTIMUM
    assert runs.last(name, "invalid_mass") < least < runs.last("masked", "invalid_mass")


def test_without_masks(runs):
    """A penalty keeps the policy from invalid choices; a random valid action in place of an invalid
    one brings the reward sooner; without any gradient of them, there are more of them."""
    assert runs.last("penalty", "valid_rate") > runs.last("unmasked", "valid_rate") + 0.02
    early = slice(0, 12)
    replaced, unmasked = (
        np.nanmean(runs.history(name, "return")[early]) for name in ("replace", "unmasked")
    )
    assert replaced > unmasked + 0.5
    assert runs.last("unmasked-silent", "valid_rate") < runs.last("unmasked", "valid_rate")


def test_the_safe_loop_waits_until_its_masks_are_right(runs):
    share, error = runs.history("safe-loop", "predicted_share"), runs.states.mask_error
    assert share[0] == 0.0
    assert share[-1] > 0.45
    assert error[NAMES.index("safe-loop")] < 0.01
    assert runs.last("safe-loop", "return_predicted") > 0.99 * OPTIMUM
    np.testing.assert_array_equal(runs.history("masked", "predicted_share"), 0.0)
    np.testing.assert_array_equal(runs.history("discovered", "predicted_share"), 1.0)


def test_a_mask_is_discovered_where_no_oracle_gives_one(runs):
    assert runs.last("discovered", "return") > 0.99 * OPTIMUM
    recall = runs.last("discovered", "classifier_recall")[: DESCEND + 1]
    assert (recall > 0.99).all()
    assert runs.last("discovered", "mask_total_variation") < 0.05
    # Without a mask the action is pushed down before it is needed.
    lowest = np.nanmin(runs.history("unmasked", "probability_valid")[:, DESCEND])
    assert lowest < 0.5 / ENV.num_actions


def test_elimination_predicts_what_is_common(runs):
    assert runs.last("eliminate", "mask_total_variation") < 0.2
    assert (runs.last("eliminate", "classifier_recall")[:DESCEND] > 0.99).all()
