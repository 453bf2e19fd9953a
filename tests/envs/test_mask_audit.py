"""The audit itself, on a world whose answers are known."""

import json

import jax
import numpy as np
import pytest

from maskless import MasklessError
from maskless.envs.mask_audit import Audit, audit, effective_actions

from toys import Tower


@pytest.fixture(scope="module")
def result():
    return audit(Tower(), states=2000, seed=1)


def by_name(result, counts):
    return dict(zip(result.action_names, np.asarray(counts).tolist(), strict=True))


def test_right_rules_have_no_errors_and_the_gamble_is_waived(result):
    assert result.errors("exact") == 0
    (lost,) = result.rules["exact"].waived.values()
    valid = by_name(result, result.rules["exact"].valid)["gamble"]
    assert by_name(result, lost)["gamble"] == pytest.approx(valid / 2, rel=0.15)


def test_known_mistakes_are_found_where_they_are(result):
    wrong = result.rules["wrong"]
    masked = by_name(result, wrong.effective_but_masked)
    dead = by_name(result, wrong.dead_but_valid)
    exact = by_name(result, result.rules["exact"].valid)
    assert masked["jump"] == exact["jump"] > 0
    assert dead["rest"] == result.states - exact["rest"] > 0
    assert masked["gamble"] > 0
    assert dead["gamble"] > 0
    assert masked["climb"] == dead["climb"] == masked["wait"] == dead["wait"] == 0
    assert result.errors("wrong") == sum(masked.values()) + sum(dead.values())


def test_all_sources_are_used_and_half_is_synthetic(result):
    assert result.states >= 2000
    assert sum(result.sources.values()) == result.states
    assert set(result.sources) == {
        "random play",
        "play under exact masks",
        "play under wrong masks",
        "synthetic",
    }
    assert result.sources["synthetic"] == pytest.approx(result.states / 2, rel=0.1)


def test_more_draws_find_effects_that_one_misses():
    class Unwaived(Tower):
        def waivers(self, state):
            return {}

    assert audit(Unwaived(), states=640, draws=1).errors("exact") > 50
    assert audit(Unwaived(), states=640, draws=30).errors("exact") == 0


def test_the_same_seed_gives_the_same_audit(result):
    again = audit(Tower(), states=2000, seed=1)
    assert again.to_json() == result.to_json()


def test_an_audit_can_be_read_back(result):
    content = json.loads(json.dumps(result.to_json()))
    again = Audit.from_json(content)
    assert again.to_json() == content
    assert again.errors("wrong") == result.errors("wrong") > 0


def test_without_a_no_op_the_state_before_is_the_reference():
    class Restless(Tower):
        noop_action = None

        def effect_view(self, state):
            return state.replace(time=0)

    env = Restless()
    _, state = env.reset(jax.random.key(0))
    even = int(state.level) % 2 == 0
    effective = effective_actions(env, jax.random.key(0), state)
    assert effective.tolist() == [False, even, not even, False, False]


@pytest.mark.parametrize(("states", "draws"), [(0, 1), (-5, 1), (10, 0)])
def test_nothing_to_do_is_refused(states, draws):
    with pytest.raises(MasklessError, match="at least one state"):
        audit(Tower(), states=states, draws=draws)


def test_a_clock_in_the_state_makes_every_action_work(result):
    class Clock(Tower):
        noop_action = None  # without one, the state before the step is the reference

    clocked = audit(Clock(), states=200)
    assert clocked.always_works
    assert not result.always_works
