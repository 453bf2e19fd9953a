"""Audit, calibration and dry runs of a policy in Gymnasium environments."""

import json

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from policy.made import make_policy

import maskless
from maskless import runtime
from maskless.artifact.fields import Field
from maskless.cli.audit import Audit
from maskless.cli.calibrate import Calibrate
from maskless.cli.override import OverrideCommand
from maskless.envs.gymnasium import arrays
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.errors import MasklessError
from maskless.evaluation.audit import audit_predictions
from maskless.evaluation.runs import load_runs
from maskless.evaluation.sampling import EpisodeSampler
from maskless.evaluation.summary import evaluate
from maskless.policy.acting import as_array, load
from maskless.policy.artifact import change_policy
from maskless.policy.export import step_function
from maskless.report.audit import save_audit

from host_toys import LIMIT, mask_from_observation

BLIND = "gymnasium:host_toys:Blind-v0"


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """Random weights: its classifier is wrong about many things."""
    env = maskless.make("gymnasium:host_toys:Steps-v0", workers=0)
    return make_policy(tmp_path_factory.mktemp("steps") / "policy", env=env, width=8)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Artifacts do not say how many workers to use; here the games are too small for any."""

    def make(id, options, **how):
        return maskless.make(id, workers=0)

    monkeypatch.setattr("maskless.evaluation.runs.make_named_in_file", make)


def test_an_audit_sees_what_the_environment_says(policy, tmp_path):
    trained = load_runs(policy)
    audit = audit_predictions(
        trained, trained.runs[0], states=300, episodes=8, num_envs=8, examples=2
    )
    tally, worst = audit.tally, audit.worst
    counted = [tally.allowed_valid, tally.masked_valid, tally.allowed_invalid, tally.masked_invalid]
    np.testing.assert_array_equal(sum(counted), audit.states)
    assert audit.states == 384  # 300, rounded up to 16 steps of 8 environments
    # `stay` is always valid; of the others, in each state exactly one is.
    valid = counted[0] + counted[1]
    assert valid[0] == audit.states == valid[1] + valid[2]
    np.testing.assert_array_equal(worst.valid, mask_from_observation(worst.observation))
    _, _, info = load(policy).act(worst.observation, key=jax.random.key(0))
    np.testing.assert_allclose(worst.probability, info.validity, atol=1e-5)
    np.testing.assert_array_equal(worst.predicted, np.asarray(info.validity) > 0.5)
    assert audit.costs.keys() == {
        name for name, wrong in zip(audit.action_names, audit.errors, strict=True) if wrong
    }
    written = save_audit(audit, trained.env, tmp_path)
    assert "observation [2]: numbers that are not 0" in written[1].read_text()


def test_episodes_are_watched_as_inside_jax(policy):
    env = maskless.make("gymnasium:host_toys:Steps-v0", workers=0)
    thresholds = as_array([None, 1.0, None])
    with EpisodeSampler(load(policy), env, envs=64, states=2) as player:
        seen = player.play(jax.random.key(0), 96, thresholds=thresholds)
        again = player.play(jax.random.key(0), 96)
    lengths, valid = np.asarray(seen.lengths), np.asarray(seen.valid)
    assert len(lengths) == 96
    assert 1 <= lengths.min() < lengths.max() == LIMIT
    np.testing.assert_array_equal(valid[:, 0], lengths)
    np.testing.assert_array_equal(valid[:, 1] + valid[:, 2], lengths)
    np.testing.assert_array_equal(seen.masked, valid * [0, 1, 0])
    np.testing.assert_array_equal(again.valid, valid)  # thresholds change no oracle's episode
    observations = seen.states.leaves[0]
    np.testing.assert_array_equal(seen.states.valid, mask_from_observation(observations))
    np.testing.assert_array_equal(np.isnan(seen.score), valid == 0)


def test_the_commands_work_there_and_say_what_needs_an_oracle(policy, capsys):
    env = "gymnasium:host_toys:Steps-v0"
    Calibrate(policy, alpha=0.3, episodes=32, env=env).run()
    thresholds = load(policy).artifact.thresholds
    assert load(policy).artifact.about["calibration"]["env"] == env
    assert thresholds[0] != 0.5
    elsewhere = evaluate(policy, masks=("predicted", "none"), episodes=8, env=BLIND)
    assert elsewhere.elsewhere
    found = elsewhere.runs[0]
    assert tuple(found.thresholds.values()) == thresholds
    assert np.isnan(found.masks["predicted"].invalid_share)
    add = {"action": "two", "never": True, "dry_run": True, "episodes": 8}
    OverrideCommand(policy, "add", **add, env=BLIND).run()
    assert "–" in capsys.readouterr().out.split("what would change")[1]
    with pytest.raises(MasklessError, match=r"Blind-v0 has no action masks.*--env"):
        Calibrate(policy, env=BLIND).run()
    with pytest.raises(MasklessError, match="no oracle: evaluate it with --masks predicted none"):
        evaluate(policy, masks=("oracle",), env=BLIND)


def test_an_environment_without_masks_cannot_be_audited(policy, tmp_path):
    env = maskless.make(BLIND, workers=0)
    blind = make_policy(tmp_path / "policy", env=env, width=8)
    change_policy(blind, {"thresholds": [0.5, 0.5, 0.5]})
    with pytest.raises(MasklessError, match="no oracle: audit the policy where"):
        Audit(blind).run()


class Shelf(gymnasium.Env):
    """All kinds of spaces whose elements a network does not read as they are."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {
            "camera": spaces.Box(0, 200, (2, 3), np.uint8),
            "floor": spaces.Discrete(4, start=-1),
            "lamp": spaces.Box(-9, 9, (), np.float32),
            "pair": spaces.Tuple((spaces.MultiDiscrete([2, 3], start=[0, 1]), spaces.Discrete(2))),
            "action_mask": spaces.MultiBinary(2),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        shown = self.observation_space.sample()
        return shown | {"action_mask": np.ones(2, np.int8)}, {}

    def step(self, action):
        return self.reset()[0], 0.0, True, False, {}


def test_a_policy_reads_what_the_environment_shows(tmp_path):
    env, shelf = HostEnvironment.of(Shelf, workers=0), Shelf()
    policy = load(make_policy(tmp_path / "policy", env=env, width=8))
    shown, _ = shelf.reset(seed=5)
    mine = arrays(shelf.observation_space, shown)
    names = ["camera", "floor", "lamp", "pair.0", "pair.1"]
    for each in (policy, policy.numpy(), runtime.load(tmp_path / "policy")):
        encoded = each.encode(shown)
        assert list(encoded) == names
        for name, array in zip(names, jax.tree.leaves(mine), strict=True):
            np.testing.assert_array_equal(encoded[name], array)
        action, _, info = each.act(encoded, greedy=True)
        expected = each.act(mine, greedy=True)
        assert int(action) == int(expected[0])
        np.testing.assert_array_equal(info.validity, expected[2].validity)
        for wrong, sentence in [
            ({"floor": 3}, "'floor' is 3, which is not on its lists"),
            ({"floor": 0.5}, "'floor' must be 1 whole numbers"),
        ]:
            with pytest.raises(MasklessError, match=sentence):
                each.encode(shown | wrong)
        with pytest.raises(MasklessError, match="has no lamp"):
            each.encode({name: part for name, part in shown.items() if name != "lamp"})
        with pytest.raises(MasklessError, match=r"'camera' was trained on as float32: policy\.enc"):
            each.act(encoded | {"camera": shown["camera"]}, greedy=True)
        with pytest.raises(MasklessError, match=r"'floor' must have .*\[\]: policy\.encode"):
            each.act(encoded | {"floor": 1}, greedy=True)
    described = json.loads(step_function(policy).describe(policy)["encodings"])
    assert described["pair.0"] == {"one_hot": [[0, 2], [1, 3]]}
    assert described["camera"] == {"divided_by": 200.0}
    assert described.keys() == {"camera", "floor", "pair.0", "pair.1"}


@pytest.mark.parametrize(
    "encoding", [{"one_hot": [[0, 3]]}, {"one_hot": [[0, 0], [0, 2]]}, {"divided_by": 0}]
)
def test_an_encoding_that_does_not_fit_its_field_is_refused(encoding):
    entry = {"name": "floor", "shape": [2], "dtype": "float32"}
    assert Field.from_json(entry | {"one_hot": [[4, 2]]}).to_json()["one_hot"] == [[4, 2]]
    with pytest.raises(MasklessError, match="'floor' is not made as its shape says"):
        Field.from_json(entry | encoding)
