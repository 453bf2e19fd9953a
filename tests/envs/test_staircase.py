"""The corridor of Figure 1: what works where, what is seen, and that its masks are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import MasklessError
from maskless.envs.contract import check_contract
from maskless.envs.mask_audit import audit
from maskless.envs.staircase import DESCEND, RIGHT, Staircase, StaircaseState

KEY = jax.random.key(0)


def at(cell, time=0):
    return StaircaseState(jnp.int32(cell), jnp.bool_(False), jnp.int32(time))


def test_it_keeps_the_contract_and_its_masks_are_exact():
    env = Staircase(length=5)
    check_contract(env)
    result = audit(env, states=2000)
    assert result.errors("exact") == 0
    assert result.effective[DESCEND] > 0
    assert result.effective[DESCEND + 1 :].sum() == 0


def test_straight_to_the_ladder_and_down():
    env = Staircase(length=4, spare=1, progress=0.25, goal=7.0)
    step = jax.jit(env.step)
    _, state = env.reset(KEY)
    rewards = []
    for action in [RIGHT] * 4 + [DESCEND]:
        assert bool(env.validity(state)[action])
        _, state, reward, done, info = step(KEY, state, action)
        rewards.append(float(reward))
    assert rewards == [0.25] * 4 + [7.0]
    assert bool(done)
    assert not bool(info["truncated"])
    assert bool(env.achievements(state)[0])


@pytest.mark.parametrize("cell", range(4))
def test_what_is_invalid_does_nothing(cell):
    env = Staircase(length=3)
    for action in range(env.num_actions):
        _, after, reward, done, _ = env.step(KEY, at(cell), action)
        if not bool(env.validity(at(cell))[action]):
            assert (int(after.cell), float(reward), bool(done)) == (cell, 0.0, False)


def test_masks_by_hand():
    env = Staircase(length=2)
    masks = np.stack([env.validity(at(cell)) for cell in range(3)])[:, :3]
    assert masks.tolist() == [[False, True, False], [True, True, False], [True, False, True]]


def test_the_light_goes_out():
    env = Staircase(length=3, spare=2)
    _, _, _, done, _ = env.step(KEY, at(0, time=3), RIGHT)
    assert not bool(done)
    _, _, _, done, info = env.step(KEY, at(0, time=4), RIGHT)
    assert bool(done)
    assert bool(info["truncated"])
    _, _, _, done, info = env.step(KEY, at(3, time=4), DESCEND)
    assert bool(done)
    assert not bool(info["truncated"])


@pytest.mark.parametrize("alignment", [0.0, 0.3, 1.0])
def test_cells_look_alike_as_much_as_asked(alignment):
    env = Staircase(length=3, alignment=alignment)
    seen = np.stack([env.observe(at(cell)) for cell in range(4)])
    expected = alignment + (1 - alignment) * np.eye(4)
    np.testing.assert_allclose(seen @ seen.T, expected, atol=1e-6)


def test_it_can_be_shown():
    assert Staircase(length=3).render(at(1)) == {"corridor": ".@.>"}


@pytest.mark.parametrize(
    ("option", "value"), [("length", 0), ("spare", 0), ("alignment", 1.5), ("alignment", -0.1)]
)
def test_wrong_options_are_refused(option, value):
    with pytest.raises(MasklessError, match=option):
        Staircase(**{option: value})
