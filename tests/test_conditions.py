import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import MasklessError
from maskless.conditions import CONDITIONS, classification_loss, condition, stack
from maskless.losses import focal_loss, kl_balanced_loss


def inputs():
    keys = jax.random.split(jax.random.key(0), 3)
    validity, policy = (jax.random.normal(key, (50, 6)) for key in keys[:2])
    return validity, jax.random.bernoulli(keys[2], 0.4, (50, 6)), policy


def test_all_conditions_of_the_design_are_there():
    assert set(CONDITIONS) == {
        *("masked", "unmasked", "masked-focal", "masked-kl", "unmasked-kl", "masked-bce"),
        *("masked-mix", "masked-tv", "masked-loop"),
    }
    assert [name for name, c in CONDITIONS.items() if c.strength == 0] == ["masked", "unmasked"]
    assert {name for name, c in CONDITIONS.items() if not c.masked} == {"unmasked", "unmasked-kl"}


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
