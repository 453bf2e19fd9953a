"""Audit, calibration and dry runs of a policy in Gymnasium environments."""

import jax
import numpy as np
import pytest
from policy.made import make_policy

import maskless
from maskless.cli.audit import Audit
from maskless.cli.calibrate import Calibrate
from maskless.cli.override import OverrideCommand
from maskless.errors import MasklessError
from maskless.evaluation.audit import audit_predictions
from maskless.evaluation.runs import load_runs
from maskless.evaluation.sampling import EpisodeSampler
from maskless.evaluation.summary import evaluate
from maskless.policy.acting import as_array, load
from maskless.policy.artifact import change_policy
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
