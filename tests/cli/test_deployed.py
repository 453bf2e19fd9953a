"""Evaluation and audit of a policy artifact: with its own thresholds and overrides in force."""

import json
import shutil

import pytest

from maskless.cli.audit import Audit
from maskless.cli.eval import Eval
from maskless.cli.export import Export
from maskless.errors import MasklessError
from maskless.evaluation.summary import evaluate
from maskless.policy.artifact import change_policy
from maskless.policy.overrides import Override

ONLY_RIGHT = [1.0, None, 1.0, 1.0, 1.0, 1.0]
"""Nothing is more probable than 1: no action but `right` is ever predicted valid."""
ON_THE_LADDER = "observation[5] > 0.1"
STRAIGHT = [
    *(Override(name, "never") for name in ("left", "open_door", "pick_up", "kick")),
    Override("right", "always"),
    Override("right", "never", when=ON_THE_LADDER),
    Override("descend", "never"),
    Override("descend", "always", when=ON_THE_LADDER),
]
"""Leaves nothing to choose but to walk straight to the ladder, four steps away, and descend."""


@pytest.fixture(scope="module")
def run(training, tmp_path_factory):
    """A run of its own, with a policy: the classifier of the shared one has learned nothing."""
    run = tmp_path_factory.mktemp("runs") / "copy" / "masked-focal" / "seed-0"
    shutil.copytree(training / "masked-focal" / "seed-0", run)
    Export(run).run()
    return run


@pytest.fixture(autouse=True)
def as_trained(run):
    yield
    change_policy(run, {"thresholds": None, "overrides": []})


def test_thresholds_of_the_artifact_decide(run, capsys):
    change_policy(run, {"thresholds": ONLY_RIGHT})
    Eval(run / "policy", masks=("predicted-forgetful", "none"), episodes=8).run()
    told = json.loads((run / "policy" / "evaluation.json").read_text())["runs"][0]
    # Four steps of 0.1 to the ladder; there `right` is a no-op until time is up, after eight.
    right = told["masks"]["predicted-forgetful"]
    assert right["mean_return"] == pytest.approx(0.4)
    assert (right["length"], right["success_rate"], right["invalid_share"]) == (8, 0, 0.5)
    assert right["stuck_share"] == 3 / 8  # of four such steps all but the first
    assert (told["condition"], told["seed"]) == ("masked-focal", 0)
    names = ("left", "right", "descend", "open_door", "pick_up", "kick")
    assert told["thresholds"] == dict(zip(names, ONLY_RIGHT, strict=True))
    assert "valid is left above 1, right always, descend above 1" in capsys.readouterr().out


def test_overrides_of_the_artifact_decide_and_the_run_is_what_it_was(run, capsys):
    change_policy(run, {"overrides": [rule.to_json() for rule in STRAIGHT]})
    Eval(run / "policy", masks=("predicted", "none"), episodes=8).run()
    told = json.loads((run / "policy" / "evaluation.json").read_text())["runs"][0]
    straight = told["masks"]["predicted"]
    assert straight["mean_return"] == pytest.approx(5.4)
    assert (straight["length"], straight["success_rate"], straight["invalid_share"]) == (5, 1, 0)
    assert told["masks"]["none"]["success_rate"] < 1
    assert told["overrides"] == [str(rule) for rule in STRAIGHT]
    said = capsys.readouterr().out
    assert "Predicted masks: valid is what has a probability above 0.5; overrides: left is" in said
    assert "name that folder" not in said

    Eval(run, masks=("predicted",), episodes=8).run()
    told = json.loads((run / "evaluation.json").read_text())["runs"][0]
    assert told["masks"]["predicted"]["success_rate"] < 1
    assert told["overrides"] == []
    said = capsys.readouterr().out
    assert "above 0.5; no overrides." in said
    assert f"{run / 'policy'} has overrides: name that folder to play with them." in said


def test_an_audit_of_the_artifact_judges_what_it_does(run, capsys):
    change_policy(run, {"overrides": [rule.to_json() for rule in STRAIGHT]})
    Audit(run / "policy", states=256, envs=8, episodes=8, examples=1).run()
    told = json.loads((run / "policy" / "audit.json").read_text())
    errors = {
        kind: {name for name, count in told["confusion"][kind].items() if count}
        for kind in ("allowed_invalid", "masked_valid")
    }
    # Only going back is valid, and forbidden; that costs nothing on the straight way.
    assert errors == {"allowed_invalid": set(), "masked_valid": {"left"}}
    assert told["predicted_return"] == pytest.approx(5.4)
    assert told["fallback_rate"] == 0
    assert told["overrides"] == [str(rule) for rule in STRAIGHT]
    assert "overrides: left is never valid" in capsys.readouterr().out
    assert "overrides: left is never valid" in (run / "policy" / "audit.html").read_text()


def test_an_artifact_without_its_run_is_played_where_it_says(run, tmp_path):
    shutil.copytree(run / "policy", tmp_path / "policy")
    # The options of the run, which made it shorter, are known only in its folder.
    with pytest.raises(MasklessError, match="has other observations than the policy"):
        evaluate(tmp_path / "policy")
    with pytest.raises(MasklessError, match="has other actions than the policy"):
        evaluate(run / "policy", env="corridor-r2")
