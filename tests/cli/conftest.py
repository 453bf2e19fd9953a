"""One tiny training for all tests of the commands that read it."""

import numpy as np
import pytest

from maskless import Config, Hyperparameters
from maskless.training import folder as folders
from maskless.training.log import RunLog
from maskless.training.request import request_again
from maskless.training.session import make_program


@pytest.fixture(scope="session")
def training(tmp_path_factory):
    """The folder of two conditions with two seeds, as `train` leaves it, but before the first
    update: compiling one would take longer than all tests here, and a classifier that knows nothing
    makes the errors that evaluation and audit look for."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    config = Config(
        env="staircase",
        env_options={"length": 4, "spare": 4},
        width=8,
        conditions=("unmasked", "masked-focal"),
        seeds=2,
        frames=1000,
        ppo=Hyperparameters(num_envs=8, rollout=16, minibatches=2, epochs=1),
    )
    program = make_program(request_again(config))
    folders.create(config, program, folder)
    folders.save(config, program, program.start(), 0, folder, keep=1)
    for run in config.runs:
        with RunLog(folders.run_folder(folder, run)) as log:
            log.write(rows(np.random.default_rng(run[1])))
    return folder


def rows(random):
    """Three lines of a log; `descend` is valid on the ladder only, and soon suppressed."""
    nan = float("nan")
    nothing = [nan, nan, nan]
    for update in (1, 2, 3):
        pair = random.uniform(0.2, 0.4, 2).tolist()
        yield {
            "update": update,
            "frames": 128 * update,
            "return": 0.1 * update,
            "valid_rate": 0.5,
            "valid_share": [0.8, 0.8, 0.1, 0.0, 0.0, 0.0],
            "probability_valid": [*pair, 1e-3, *nothing],
            "raw_probability_invalid": [0.1] * 6,
            "feature_correlation": [*pair, 0.9, *nothing],
            "feature_cosine_with_bias": [*pair, 0.9, *nothing],
            "first_valid_frames": [128.0, 128.0, 256.0 if update > 1 else nan, *nothing],
            "first_valid_log_probability": [-1.0, -1.0, -5.5 if update > 1 else nan, *nothing],
            "suppression_ratio": [1.0, 1.0, 0.02, *nothing],
            "frames_to_half": [0.0, 0.0, nan, *nothing],
            "classifier_recall": [0.9, 0.8, 0.5, *nothing],
            "classifier_precision": [0.9, 0.8, 0.5, *nothing],
            "classifier_auroc": [0.9, 0.8, 0.5, *nothing],
        }
