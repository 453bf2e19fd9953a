import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import MasklessError
from maskless.conditions import (
    CONDITIONS,
    Condition,
    condition,
    grid,
    identity,
    name_of,
    numbers,
    stack,
)
from maskless.conditions.condition import ALWAYS
from maskless.losses import focal_loss, kl_balanced_loss
from maskless.ppo.update import classification_loss


def inputs():
    keys = jax.random.split(jax.random.key(0), 3)
    validity, policy = (jax.random.normal(key, (50, 6)) for key in keys[:2])
    return validity, jax.random.bernoulli(keys[2], 0.4, (50, 6)), policy


def test_all_conditions_of_the_design_are_there():
    assert set(CONDITIONS) == {
        *("masked", "unmasked", "masked-focal", "masked-kl", "unmasked-kl", "masked-bce"),
        *("masked-mix", "masked-tv", "masked-loop", "masked-clone", "safe-loop", "discovered"),
        *("unmasked-silent", "penalty", "naive", "off-policy", "masked-distil", "zhao21"),
        *("replace", "eliminate", "dagger"),
    }
    without_masks = {"unmasked", "unmasked-kl", "unmasked-silent", "penalty", "replace"}
    assert {name for name, c in CONDITIONS.items() if not c.masked} == without_masks | {
        "discovered"
    }
    assert [name for name, c in CONDITIONS.items() if c.has_clone] == ["masked-clone", "dagger"]


def test_only_what_needs_no_mask_is_trained_without_one():
    free = {name for name, c in CONDITIONS.items() if not c.needs_oracle}
    assert free == {"unmasked", "discovered"}


def test_how_each_condition_is_deployed():
    ways = {name: c.deployments for name, c in CONDITIONS.items()}
    assert ways["masked"] == ("oracle",)
    assert ways["masked-clone"] == ways["dagger"] == ("clone",)
    for name in ("masked-focal", "masked-loop", "safe-loop", "eliminate", "discovered"):
        assert ways[name] == ("predicted",), name
    for name in ("unmasked", "penalty", "naive", "off-policy", "masked-distil", "replace"):
        assert ways[name] == ("none",), name
    assert ways["zhao21"] == ("predicted", "none")


def test_what_no_condition_uses_is_not_in_the_program():
    paper = stack([condition(name) for name in ("masked", "unmasked", "masked-kl", "masked-tv")])
    used = {name for name, value in vars(paper).items() if value is not None}
    assert used == ALWAYS
    mixed = stack([condition("masked"), condition("penalty"), condition("masked-loop")])
    used = {name for name, value in vars(mixed).items() if value is not None}
    assert used == {*ALWAYS, "penalty", "predicted_share"}
    assert mixed.uses("penalty")
    assert not mixed.uses("clone")
    np.testing.assert_allclose(mixed.penalty, [0, 0.1, 0])


def test_checkpoints_from_when_there_were_fewer_numbers_are_the_same_run():
    assert set(identity(condition("masked-kl"))) == {*ALWAYS, "predicted_share"}
    assert identity(condition("masked-clone"))["clone"] == 1.0


@pytest.mark.parametrize(
    "name",
    [
        *("masked:clone_share=0.5", "masked-focal:tolerance=0.1", "masked:learns_replaced=1"),
        *("masked:importance=1", "masked-focal:confidence=1", "zhao21:soft_mask=1"),
        *("unmasked:explore=2", "penalty:penalty=-1"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(name):
    with pytest.raises(MasklessError, match=name.partition("=")[0].partition(":")[2][:7]):
        condition(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("masked-focal", lambda v, m, p: focal_loss(v, m)),
        ("masked-kl", kl_balanced_loss),
        ("masked-bce", lambda v, m, p: focal_loss(v, m, gamma=0.0)),
        ("masked-mix", lambda v, m, p: (focal_loss(v, m) + kl_balanced_loss(v, m, p)) / 2),
    ],
)
def test_the_loss_of_a_condition(name, expected):
    np.testing.assert_allclose(
        classification_loss(condition(name), *inputs()), expected(*inputs()), rtol=1e-6
    )


def test_many_conditions_in_one_program():
    together = jax.jit(jax.vmap(classification_loss, in_axes=(0, None, None, None)))(
        stack(list(CONDITIONS.values())), *inputs()
    )
    alone = [classification_loss(c, *inputs()) for c in CONDITIONS.values()]
    np.testing.assert_allclose(together, jnp.stack(alone), rtol=1e-6)


def test_an_unknown_condition_is_refused():
    with pytest.raises(MasklessError, match="did you mean 'masked-focal'"):
        condition("masked-focl")


SWITCHES = {
    *("masked", "uniform_fallback", "literal", "acting", "detached", "squared", "tried", "silent"),
    *("remembers", "replaces", "learns_replaced", "unmasked_ratio", "importance"),
}


def test_switches_are_booleans_and_stay_so():
    for chosen in (*CONDITIONS.values(), condition("masked-kl:literal=1,detached=True,acting=0")):
        kinds = {name: type(value) for name, value in vars(chosen).items()}
        assert {name for name, kind in kinds.items() if kind is bool} == SWITCHES
        assert {kind for name, kind in kinds.items() if name not in SWITCHES} == {float}
    many = stack(list(CONDITIONS.values()))
    used = {name: x for name, x in vars(many).items() if x is not None}
    assert {name for name, x in used.items() if x.dtype == bool} == SWITCHES - {"learns_replaced"}
    changed = condition("masked-kl:literal=1,detached=True,acting=0")
    assert (changed.literal, changed.detached, changed.acting) == (True, True, False)


def test_a_grid_is_all_combinations_of_conditions_and_numbers():
    assert grid("masked", "masked-kl:gamma=1") == ("masked", "masked-kl:gamma=1")
    names = grid("masked", "masked-kl:gamma=1", learning_rate=[1e-4, 0.001], strength=20)
    assert names == (
        "masked:learning_rate=0.0001,strength=20",
        "masked:learning_rate=0.001,strength=20",
        "masked-kl:gamma=1,learning_rate=0.0001,strength=20",
        "masked-kl:gamma=1,learning_rate=0.001,strength=20",
    )
    assert numbers(names[-1]) == {"learning_rate": 0.001}
    assert condition(names[-1]) == CONDITIONS["masked-kl"].replace(gamma=1.0, strength=20.0)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num_envs": [8, 16]}, "num_envs"),
        ({"learning_rat": 1.0}, "did you mean 'learning_rate'"),
        ({"learning_rate": []}, "needs one or more numbers"),
        ({"learning_rate": "fast"}, "needs one or more numbers"),
    ],
)
def test_a_grid_refuses_what_cannot_vary(values, sentence):
    with pytest.raises(MasklessError, match=sentence):
        grid("masked", **values)


def test_every_condition_has_a_name_that_leads_back_to_it():
    own = Condition(masked=False, strength=3.5, literal=True, uniform_fallback=False, gamma=0.1)
    for chosen in (*CONDITIONS.values(), own):
        assert condition(name_of(chosen)) == chosen
