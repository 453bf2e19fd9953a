"""The paper's Figure 1, by PPO: without masks the rare action is pushed down before it can ever
work; with them it is not. The numbers come from the diagnostics."""

import numpy as np
import pytest

from maskless.config import Config
from maskless.envs.staircase import DESCEND
from maskless.hyperparameters import Hyperparameters

from programs import program_of

UPDATES = 60
UNIFORM = 1 / 6


@pytest.fixture(scope="module")
def metrics():
    ppo = Hyperparameters(
        num_envs=32, rollout=32, epochs=4, minibatches=4, learning_rate=1e-3, anneal=False
    )
    config = Config(
        env="staircase", width=64, conditions=("unmasked", "masked"), seeds=2,
        frames=UPDATES * 1024, ppo=ppo,
    )  # fmt: skip
    program = program_of(config, chunk=UPDATES)
    return program.advance(program.start(), UPDATES)[1]


def until_first_success(metrics, run):
    """pi(descend | ladder) of each update up to the first in which an episode got down."""
    succeeded = np.nan_to_num(metrics["achievements"][:, run]) > 0
    first = int(np.argmax(succeeded)) if succeeded.any() else len(succeeded) - 1
    return metrics["probability_valid"][: first + 1, run, DESCEND]


@pytest.mark.parametrize("run", [0, 1])
def test_unmasked_training_suppresses_descend_tenfold_before_the_first_success(metrics, run):
    assert np.nanmin(until_first_success(metrics, run)) < UNIFORM / 10


@pytest.mark.parametrize("run", [2, 3])
def test_masked_training_never_goes_below_uniform(metrics, run):
    assert np.nanmin(metrics["probability_valid"][:, run, DESCEND]) > UNIFORM
    assert np.nanmax(metrics["achievements"][:, run]) > 0.5
    np.testing.assert_array_equal(metrics["valid_rate"][:, run], 1.0)
