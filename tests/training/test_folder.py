"""Checkpoints of several runs: together or not at all."""

import numpy as np
import pytest

import maskless
from maskless import Config, Hyperparameters
from maskless.errors import MasklessError
from maskless.training import checkpoints
from maskless.training import folder as folders
from maskless.training.log import RunLog, read_metrics
from maskless.training.request import request_again
from maskless.training.session import _joined, make_program

CONFIG = Config(
    env="staircase",
    env_options={"length": 4, "spare": 4},
    width=8,
    conditions=("masked", "masked-focal"),
    seeds=1,
    frames=1000,
    ppo=Hyperparameters(num_envs=8, rollout=16, minibatches=2, epochs=1),
)


@pytest.fixture(scope="module")
def program():
    return make_program(request_again(CONFIG))


@pytest.fixture(scope="module")
def states(program):
    return program.start()


@pytest.fixture
def place(tmp_path, program):
    folders.create(CONFIG, program, tmp_path)
    for run in folders.run_folders(CONFIG, tmp_path):
        with RunLog(run) as log:
            log.write([{"update": number} for number in (1, 2, 3)])
    return tmp_path


@pytest.fixture
def save(place, program, states, monkeypatch):
    def save(update, *, only=2, keep=1):
        """A save that is killed when `only` runs have saved."""
        real, saved = checkpoints.save, []

        def dying(folder, *arguments, **options):
            if len(saved) == only:
                raise KeyboardInterrupt
            saved.append(folder)
            return real(folder, *arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(checkpoints, "save", dying)
            folders.save(CONFIG, program, states, update, place, keep=keep)

    return save


def saved(place):
    return [checkpoints.updates(run / "checkpoints") for run in folders.run_folders(CONFIG, place)]


def restored(place, program, warn=pytest.fail):
    return folders.restore(CONFIG, program, place, warn)[0]


def test_with_one_checkpoint_each_a_kill_between_two_runs_loses_nothing(place, program, save):
    save(1)
    with pytest.raises(KeyboardInterrupt):
        save(2, only=1)
    assert saved(place) == [[1, 2], [1]]
    assert restored(place, program) == 1
    folders.discard_after(CONFIG, place, 1)
    save(2)
    assert saved(place) == [[2], [2]]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_run_that_lost_its_checkpoints_stops_all_and_changes_nothing(place, program, save, lost):
    save(3, keep=2)
    run = folders.run_folders(CONFIG, place)[lost]
    checkpoints.discard_after(run / "checkpoints", 0)
    with pytest.raises(MasklessError, match=r"no update of which all its runs.*seed 0: none"):
        restored(place, program)
    assert saved(place)[1 - lost] == [3]
    for run in folders.run_folders(CONFIG, place):
        assert len(read_metrics(run)) == 3


def test_a_first_save_that_was_cut_short_is_no_loss(place, program, save):
    with pytest.raises(KeyboardInterrupt):
        save(3, only=1)
    assert saved(place) == [[3], []]
    said = []
    assert restored(place, program, said.append) == 0
    assert "from the beginning" in said[0]


def test_an_older_folder_with_different_checkpoints_is_not_started_again(place, program, save):
    """Without the note on the first save, which older versions did not write."""
    save(2)
    with pytest.raises(KeyboardInterrupt):
        save(3, only=1)
    (place / folders.SAVED_FILE).unlink()
    checkpoints.discard_after(folders.run_folders(CONFIG, place)[1] / "checkpoints", 0)
    with pytest.raises(MasklessError, match="Nothing was changed"):
        restored(place, program)


def test_checkpoints_beyond_the_end_are_not_gone_on_from(place, program, save):
    """Nothing is left to be trained from there, and nothing is as it was saved."""
    save(CONFIG.updates)
    assert restored(place, program) == CONFIG.updates
    save(CONFIG.updates + 1, keep=2)
    said = []
    assert restored(place, program, said.append) == CONFIG.updates
    assert f"of a longer training: this one has {CONFIG.updates} updates" in said[0]


@pytest.mark.parametrize(
    "extra",
    [
        {"return": np.zeros(())},
        {"return": np.zeros(2), "length": np.zeros(3)},
        {"episodes": np.array([np.nan])},
    ],
)
def test_metrics_that_no_training_has_saved(place, program, states, extra):
    for number, run in enumerate(CONFIG.runs):
        checkpoints.save(
            folders.run_folder(place, run) / "checkpoints",
            1,
            program.fetch_run(states, number),
            identity=folders.identity_of(CONFIG, run),
            extra=extra,
        )
    said = []
    with pytest.raises(MasklessError, match="None of the checkpoints"):
        restored(place, program, said.append)
    assert "do not fit together" in said[0]


def test_metrics_beside_a_checkpoint_that_do_not_fit_are_refused(place, program, states):
    """Another has changed them, hash and all."""
    unlogged = {"return": np.zeros((1, 2))}
    folders.save(CONFIG, program, states, 1, place, keep=2, unlogged=unlogged)
    assert restored(place, program) == 1
    run = CONFIG.runs[0]
    checkpoints.save(
        folders.run_folder(place, run) / "checkpoints",
        1,
        program.fetch_run(states, 0),
        identity=folders.identity_of(CONFIG, run),
        extra={"return": np.zeros(3)},
    )
    said = []
    with pytest.raises(MasklessError, match="None of the checkpoints"):
        restored(place, program, said.append)
    assert "do not fit" in said[0]
    with pytest.raises(MasklessError, match=r"remove its extra\.safetensors"):
        _joined(unlogged, {"return": np.zeros((1, 2, 5))})


def test_a_training_whose_logs_cannot_begin_can_be_asked_for_again(tmp_path):
    def no_login(folder):
        raise MasklessError("log in first")

    for _ in range(2):
        with pytest.raises(
            MasklessError, match="log in first"
        ):  # and not: already holds a training
            maskless.train(CONFIG, folder=tmp_path / "run", show=False, sinks=no_login)
