"""Rules on a policy: they do what they say, and nothing else is accepted."""

import jax
import numpy as np
import pytest
from policy.drift import Drift
from policy.made import make_policy, tower_observations

from maskless.cli.calibrate import Calibrate
from maskless.cli.override import OverrideCommand
from maskless.errors import MasklessError
from maskless.evaluation.dry_run import dry_run
from maskless.evaluation.sampling import States
from maskless.policy.acting import load
from maskless.policy.artifact import change_policy
from maskless.policy.observations import Field
from maskless.policy.overrides import Override, check_overrides, parse_condition

FIELDS = (
    Field("glyphs", (9, 9), "int8"),
    Field("speed", (2,), "float32"),
    Field("inner.turn", (), "int32"),
)
KEY = jax.random.key(0)


def test_conditions_are_what_python_says_of_them():
    dice = np.random.default_rng(0)
    observed = {
        "glyphs": dice.integers(0, 4, (50, 9, 9)).astype(np.int8),
        "speed": dice.normal(size=(50, 2)).astype(np.float32),
        "inner.turn": dice.integers(2**24, 2**24 + 3, 50).astype(np.int32),
    }
    cases = {
        "glyphs[3, 4] == 2": observed["glyphs"][:, 3, 4] == 2,
        "glyphs[8,8]!=1": observed["glyphs"][:, 8, 8] != 1,
        "speed[1] > -0.5": observed["speed"][:, 1] > -0.5,
        " speed[0] <= 1e-1 ": observed["speed"][:, 0] <= 0.1,
        "inner.turn >= 16777217": observed["inner.turn"] >= 16777217,
        "inner.turn < 16777217": observed["inner.turn"] < 16777217,
    }
    arrays = jax.tree.map(jax.numpy.asarray, observed)
    for text, expected in cases.items():
        assert 0 < expected.sum() < 50
        np.testing.assert_array_equal(parse_condition(text, FIELDS).holds(arrays), expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must have the form"),
        ("speed[0]", "must have the form"),
        ("__import__('os').system('true') > 0", "must have the form"),
        ("speed[0] > 1; 2", "must have the form"),
        ("speed[-1] > 0", "must have the form"),
        ("speed[0] > nan", "must have the form"),
        ("sped[0] > 0", "did you mean 'speed'"),
        ("speed[2] > 0", "needs 1 index numbers within it"),
        ("speed > 0", "needs 1 index numbers"),
        ("inner.turn[0] > 0", "needs 0 index numbers"),
        ("glyphs[0] > 0", "needs 2 index numbers"),
        ("inner.turn > 0.5", "holds integers"),
        ("inner.turn > 1e400", "holds integers"),
        ("speed[0] > 1e39", "too large"),
    ],
)
def test_other_conditions_are_refused(text, sentence):
    with pytest.raises(MasklessError, match=sentence):
        parse_condition(text, FIELDS)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ([Override("clim", "never")], "did you mean 'climb'"),
        ([Override("climb", "often")], "Unknown effect"),
        ([Override("climb", "threshold")], "needs threshold"),
        ([Override("climb", "never", 0.5)], "takes no threshold"),
        ([Override("climb", "threshold", 1.5)], "between 0 and 1"),
        ([Override("climb", "threshold", float("nan"))], "between 0 and 1"),
        ([Override("climb", "never"), Override("wait", "never")], "leave one to choose"),
    ],
)
def test_rules_are_checked(rules, sentence):
    with pytest.raises(MasklessError, match=sentence):
        check_overrides(rules, ("wait", "climb"), FIELDS)


def test_rules_are_applied_in_order_and_counted(tmp_path):
    folder = make_policy(tmp_path / "policy")
    observations = tower_observations(200)
    _, _, plain = load(folder).act(observations, None, KEY, memory=False)
    rules = [
        Override("climb", "always"),
        Override("climb", "never", when="observation[2] < 3"),
        Override("jump", "threshold", 0.3),
    ]
    change_policy(folder, {"overrides": [rule.to_json() for rule in rules]})
    policy = load(folder)
    action, _, info = policy.act(observations, None, KEY, memory=False)
    tired = np.asarray(observations)[:, 2] < 3
    predicted, validity = np.asarray(plain.validity) > 0.5, np.asarray(plain.validity)
    expected = predicted.copy()
    expected[:, 1] = ~tired
    expected[:, 2] = validity[:, 2] > np.float32(0.3)
    np.testing.assert_array_equal(info.overridden, expected != predicted)
    fallback = ~expected.any(-1)
    np.testing.assert_array_equal(info.fallback, fallback)
    rest = np.ones_like(expected)
    rest[tired, 1] = False
    np.testing.assert_array_equal(info.mask, np.where(fallback[:, None], rest, expected))
    assert not (np.asarray(action)[tired] == 1).any()
    changed = [(~predicted[:, 1]).sum(), tired.sum(), (expected[:, 2] != predicted[:, 2]).sum()]
    assert list(policy.counts.values()) == [200, fallback.sum(), *changed]


@pytest.fixture(scope="module")
def drift(tmp_path_factory):
    return make_policy(tmp_path_factory.mktemp("drift") / "policy", env=Drift(), width=8)


def test_a_dry_run_counts_what_the_rules_change(drift):
    policy = load(drift)
    dice = np.random.default_rng(0)
    states = States(
        leaves=[dice.normal(size=(32, 4, 2)).astype(np.float32) for _ in policy.fields],
        logits=dice.normal(size=(32, 4, 3)).astype(np.float32),
        validity=dice.normal(size=(32, 4, 3)).astype(np.float32),
        valid=dice.random((32, 4, 3)) < 0.5,
    )
    found = dry_run(policy, [Override("up", "never", when="place[1] > 0")], states)
    predicted, valid = states.validity.reshape(-1, 3) > 0, states.valid.reshape(-1, 3)
    high = states.leaves[1].reshape(-1, 2)[:, 1] > 0
    after = predicted.copy()
    after[high, 2] = False
    rest = np.ones_like(predicted)
    rest[high, 2] = False
    empty = ~predicted.any(-1), ~after.any(-1)
    before = predicted | empty[0][:, None]
    after = np.where(empty[1][:, None], rest, after)
    assert found.states == 128
    assert found.fallbacks == (empty[0].sum(), empty[1].sum())
    assert found.changed == (before != after).any(-1).sum() > 0
    np.testing.assert_array_equal(found.allowed, (after & ~before).sum(0))
    np.testing.assert_array_equal(found.allowed_rightly, (after & ~before & valid).sum(0))
    np.testing.assert_array_equal(found.forbidden, (before & ~after).sum(0))
    np.testing.assert_array_equal(found.forbidden_rightly, (before & ~after & ~valid).sum(0))


def test_the_commands(drift, capsys):
    add = {"action": "up", "never": True, "when": "place[1] > 0"}
    env = "policy.drift:Drift"
    OverrideCommand(drift, "add", **add, dry_run=True, env=env, episodes=32).run()
    assert not load(drift).overrides
    OverrideCommand(drift, "add", **add).run()
    OverrideCommand(drift, "add", action="left", threshold=0.25).run()
    assert load(drift).overrides == (
        Override("up", "never", when="place[1] > 0"),
        Override("left", "threshold", 0.25),
    )
    OverrideCommand(drift, "remove", number=1).run()
    capsys.readouterr()
    OverrideCommand(drift).run()
    assert capsys.readouterr().out.splitlines() == [
        "observes: kind float32[2], place float32[2]",
        "actions: stay, left, up",
        "1. left is valid above 0.25",
    ]
    Calibrate(drift, alpha=0.2, episodes=64, env=env).run()
    policy = load(drift)
    assert policy.artifact.about["calibration"]["alpha"] == 0.2
    assert policy.artifact.thresholds[0] != 0.5
    # Masking nine of ten valid states is a bound that was kept before, and worse.
    loose = {"alpha": 0.9, "episodes": 64, "env": env}
    capsys.readouterr()
    Calibrate(drift, **loose).run()
    assert "--force stores them all the same" in capsys.readouterr().out
    assert load(drift).artifact.thresholds == policy.artifact.thresholds
    Calibrate(drift, **loose, force=True).run()
    assert load(drift).artifact.thresholds != policy.artifact.thresholds
    assert policy.overrides == (Override("left", "threshold", 0.25),)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"what": "add", "action": "up"}, "one of --never, --always and --threshold"),
        ({"what": "add", "action": "up", "never": True, "always": True}, "one of"),
        ({"what": "add", "never": True}, "needs --action"),
        ({"what": "add", "action": "down", "never": True}, "Unknown action"),
        ({"what": "remove", "number": 7}, "Say which rule|no overrides"),
        ({"what": "list", "action": "up"}, "belong to `add`"),
        ({"what": "add", "action": "up", "never": True, "when": "place > 0"}, "index numbers"),
    ],
)
def test_wrong_commands_are_refused(drift, arguments, sentence):
    before = (drift / "policy.json").read_text()
    with pytest.raises(MasklessError, match=sentence):
        OverrideCommand(drift, **arguments).run()
    assert (drift / "policy.json").read_text() == before
