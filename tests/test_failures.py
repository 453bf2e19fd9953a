"""The memory of failures as pure functions, against plain loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from maskless import failures
from maskless.errors import MasklessError


def test_an_observation_is_the_same_but_for_its_clocks():
    before = {"seen": jnp.zeros((3, 2, 2)), "time": jnp.arange(3), "sub": {"x": jnp.zeros((3, 4))}}
    after = dict(before)
    same = [True] * 3
    assert failures.unchanged(before, after).tolist() == same
    after["time"] = before["time"] + 1
    assert not failures.unchanged(before, after).any()
    assert failures.unchanged(before, after, ("time",)).tolist() == same
    after["seen"] = before["seen"].at[1, 0, 1].set(1.0)
    assert failures.unchanged(before, after, ("time",)).tolist() == [True, False, True]
    assert failures.unchanged(before, after, ("time", "seen[0, 1]")).tolist() == same
    assert not failures.unchanged(before, after, ("time", "seen[1, 0]"))[1]
    after["sub"] = {"x": before["sub"]["x"].at[2, 3].set(1.0)}
    clocks = ("time", "seen", "sub.x[3]")
    assert failures.unchanged(before, after, clocks[:2]).tolist() == [True, True, False]
    assert failures.unchanged(before, after, clocks).tolist() == same
    array = jnp.eye(2)
    assert failures.unchanged(array, array + 1, ("observation",)).tolist() == [True, True]


def test_failures_are_those_of_a_list_of_what_was_tried():
    """Against a Python list for each environment: tried in vain in this observation; once all
    candidates are in it, it begins again."""
    dice = np.random.default_rng(0)
    envs, actions, steps = 40, 4, 60
    candidates = dice.random((envs, actions)) < 0.8
    candidates[:, 0] = True
    counts = failures.none_yet(envs, actions)
    lists = [set() for _ in range(envs)]
    for _ in range(steps):
        validity = jnp.array(dice.normal(size=(envs, actions)), jnp.float32)
        mask = candidates & (dice.random((envs, actions)) < 0.5)
        found = failures.restrict(jnp.array(mask), jnp.array(candidates), validity, counts)
        action = np.zeros(envs, int)
        for env, tried in enumerate(lists):
            if all(a in tried for a in np.flatnonzero(candidates[env])):
                tried.clear()
            left = [a for a in np.flatnonzero(mask[env]) if a not in tried]
            free = [a for a in np.flatnonzero(candidates[env]) if a not in tried]
            expected = left or [max(free, key=lambda a: validity[env, a])]
            assert np.flatnonzero(found.mask[env]).tolist() == sorted(expected)
            assert bool(found.fallback[env]) == (not left)
            assert set(np.flatnonzero(found.excluded[env])) == tried
            action[env] = dice.choice(expected)
        unchanged = dice.random(envs) < 0.8
        counts = failures.count(counts, jnp.array(action), jnp.array(unchanged))
        for env, tried in enumerate(lists):
            tried.add(int(action[env])) if unchanged[env] else tried.clear()


def test_where_nothing_may_be_chosen_everything_may():
    nothing = jnp.zeros((1, 3), bool)
    tried = jnp.array([[1, 0, 2]])
    found = failures.restrict(nothing, nothing, jnp.array([[5.0, 1.0, 2.0]]), tried)
    assert found.mask.tolist() == [[False, True, False]]
    assert found.excluded.tolist() == [[True, False, True]]


@pytest.mark.parametrize(
    ("clock", "says"),
    [
        ("tiem", "did you mean 'time'"),
        ("seen[2]", "needs 2 index numbers"),
        ("seen[0, 2]", "needs 2 index numbers"),
        ("seen]", "is a field of the observation"),
        ("seen[1 1]", "is a field of the observation"),
        ("seen[" + "1" * 5000 + "]", "is a field of the observation"),
        ("seen" + " " * 100_000 + "]", "is a field of the observation"),
        (3, "is a field of the observation"),
    ],
)
def test_clocks_that_there_are_not_are_refused(clock, says):
    shapes = {"seen": np.zeros((2, 2)), "time": np.zeros(())}
    failures.check_clock_fields(("time", "seen", "seen[1,1]", " seen [ 0 , 1, ] "), shapes)
    with pytest.raises(MasklessError, match=says):
        failures.check_clock_fields((clock,), shapes)
    with pytest.raises(MasklessError, match="at most 1,000"):
        failures.check_clock_fields(("time",) * 1001, shapes)
