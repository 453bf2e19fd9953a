import jax
import jax.numpy as jnp
import pytest

import maskless
from maskless import MasklessError
from maskless.envs import base, check_contract
from maskless.envs.mask_audit import audit

from toys import Tower


@pytest.mark.parametrize("id", ["toys:Tower", "craftax-classic", "corridor-r2", "mazewalk-9x9"])
def test_ours_keep_it(id):
    # What their first states are, is checked by their own tests: making them takes long to compile.
    check_contract(maskless.make(id), first_state=id == "toys:Tower")


class ShortMask(Tower):
    def validity(self, state, params=None):
        return super().validity(state)[:4]


class CountingMask(Tower):
    def validity(self, state, params=None):
        return super().validity(state).astype(int)


class Drifting(Tower):
    def step(self, key, state, action, params=None):
        obs, state, reward, done, info = super().step(key, state, action)
        return obs, state.replace(energy=state.energy * 0.5), reward, done, info


class Blurred(Tower):
    def observe(self, state):
        return super().observe(state).astype(jnp.float32)

    def reset(self, key, params=None):
        observation, state = super().reset(key)
        return observation.astype(jnp.int32), state


class Undecided(Tower):
    def step(self, key, state, action, params=None):
        obs, state, reward, done, info = super().step(key, state, action)
        return obs, state, reward, done * 1.0, info


class Listed(Tower):
    def validity(self, state, params=None):
        return [True] * 5


class Short(Tower):
    def step(self, key, state, action, params=None):
        return super().step(key, state, action)[:4]


class Branching(Tower):
    def validity(self, state, params=None):
        return super().validity(state) if state.energy > 3 else jnp.ones(5, bool)


class Nameless(Tower):
    @property
    def id(self):
        raise AttributeError


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (Listed, "it gives no array but list"),
        (Short, "step must give the 5 values observation, state, reward, done, info"),
        (Branching, "validity cannot be compiled .* without Python's if and while"),
        (Nameless, "Nameless does not follow the environment contract: it has no 'id'"),
        (ShortMask, r"must give bool\[5\].* it gives bool\[4\]"),
        (CountingMask, r"it gives int32\[5\]"),
        (Drifting, r"step changes the type of the state: .energy is int32\[\] .* float32\[\]"),
        (Blurred, "step and reset give different observations"),
        (Undecided, r"a done of type bool\[\]"),
    ],
)
def test_breaches_are_named(env, says):
    with pytest.raises(MasklessError, match=says):
        check_contract(env())
    with pytest.raises(MasklessError, match=says):
        audit(env(), states=10)


class Stuck(Tower):
    def validity(self, state, params=None):
        return super().validity(state) & (state.time > 0)


class Undefined(Tower):
    def observe(self, state):
        return {"height": jnp.log(state.height - 1.0), "energy": state.energy}


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (Stuck, "no action is valid in the first state"),
        (Undefined, r"the first observation at \['height'\] holds a number that is not finite"),
    ],
)
def test_the_first_state_is_looked_at(env, says):
    check_contract(env(), first_state=False)
    with pytest.raises(MasklessError, match=says) as caught:
        check_contract(env())
    assert "\n" not in str(caught.value)


def test_the_example_of_the_contract_keeps_it():
    lines = [line[4:] for line in base.__doc__.splitlines() if line.startswith("    ")]
    names = {"jax": jax, "jnp": jnp, "maskless": maskless}
    exec("\n".join(lines), names)
    check_contract(names["Walk"]())
    assert len(lines) == 8


def test_a_state_without_a_valid_action_is_an_error():
    class Hopeless(Tower):
        def validity(self, state, params=None):
            return super().validity(state) & (state.time < 3)

    with pytest.raises(MasklessError, match="no valid action; at least one"):
        audit(Hopeless(), states=300)
