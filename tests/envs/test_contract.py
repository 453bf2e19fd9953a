import jax.numpy as jnp
import pytest

import maskless
from maskless import MasklessError
from maskless.envs import check_contract
from maskless.envs.mask_audit import audit

from toys import Tower


@pytest.mark.parametrize("id", ["toys:Tower", "craftax-classic", "corridor-r2", "mazewalk-9x9"])
def test_ours_keep_it(id):
    check_contract(maskless.make(id))


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


@pytest.mark.parametrize(
    ("env", "says"),
    [
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


def test_a_state_without_a_valid_action_is_an_error():
    class Hopeless(Tower):
        def validity(self, state, params=None):
            return super().validity(state) & (state.time < 3)

    with pytest.raises(MasklessError, match="no valid action; at least one"):
        audit(Hopeless(), states=300)
