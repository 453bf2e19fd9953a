"""Many runs in one program: each as if it were alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless import MasklessError
from maskless.config import Config
from maskless.hyperparameters import Hyperparameters
from maskless.ppo.rollout import collect
from maskless.training.program import of_run

from programs import program_of
from toys import MaskedBandit

PPO = Hyperparameters(num_envs=16, rollout=8, minibatches=2, epochs=2, learning_rate=1e-3)
UPDATES = 6
ACTORS = ("policy", "predicted", "clone")


def program(conditions, seeds, first_seed=0):
    config = Config(
        env="masked-bandit", width=16, conditions=conditions, seeds=seeds, first_seed=first_seed,
        frames=UPDATES * 128, ppo=PPO,
    )  # fmt: skip
    return program_of(config, MaskedBandit(), chunk=UPDATES)


@pytest.fixture(scope="module")
def together():
    made = program(("masked", "unmasked", "masked-kl", "masked-loop"), seeds=2)
    states, metrics = made.advance(made.start(), UPDATES)
    return made, states, metrics


@pytest.mark.parametrize("run", [3, 7])
def test_a_run_trained_with_others_is_the_same_as_alone(together, run):
    """Batched products are rounded differently, so: to 1e-4 after six updates."""
    made, states, metrics = together
    condition, seed = made.learner.config.runs[run]
    alone = program((condition,), seeds=1, first_seed=seed)
    its_states, its_metrics = alone.advance(alone.start(), UPDATES)
    # masked-loop has several kinds of actors, and so has every run of its program.
    assert metrics.keys() - its_metrics.keys() <= {f"return_{kind}" for kind in ACTORS}
    for name in its_metrics:
        values = metrics[name]
        np.testing.assert_allclose(
            values[:, run], its_metrics[name][:, 0], rtol=1e-4, atol=1e-4, err_msg=name
        )
    jax.tree.map(
        lambda ours, its: np.testing.assert_allclose(ours[run], its[0], rtol=1e-4, atol=1e-4),
        states.params,
        its_states.params,
    )


def test_runs_differ(together):
    _, states, _ = together
    kernels = states.params["params"]["heads"]["logits"]["kernel"]
    assert len({np.asarray(kernel).tobytes() for kernel in kernels}) == 8


def test_how_updates_are_divided_changes_no_bit(together):
    made, states, metrics = together
    again, parts = made.start(), []
    for count in (1, 3, 2):
        again, part = made.advance(again, count)
        parts.append(part)
    for name, values in metrics.items():
        np.testing.assert_array_equal(values, np.concatenate([part[name] for part in parts]))
    jax.tree.map(np.testing.assert_array_equal, states.params, again.params)


def test_labels_come_from_the_oracle_when_environments_act_under_predicted_masks(together):
    made, states, _ = together
    run = made.learner.config.runs.index(("masked-loop", 0))
    condition, state = of_run(made.conditions, run), of_run(states, run)
    _, rollout = collect(
        made.learner.venv,
        made.learner.net,
        state.params,
        condition,
        state.actor,
        jax.random.key(0),
        steps=8,
    )
    contexts = rollout.observation.argmax(-1)
    np.testing.assert_array_equal(rollout.valid, MaskedBandit.masks[contexts])
    predicted = np.asarray(jax.nn.sigmoid(rollout.heads.validity) > condition.threshold)
    predicted = predicted | ~predicted.any(
        -1, keepdims=True
    )  # a mask that allows nothing is not applied
    np.testing.assert_array_equal(rollout.applied[:, :4], predicted[:, :4])  # a quarter of 16
    np.testing.assert_array_equal(rollout.applied[:, 4:], rollout.valid[:, 4:])


class NothingLater(MaskedBandit):
    """A mask that allows nothing in one of its three contexts."""

    id = "nothing-later"
    masks = MaskedBandit.masks.at[2].set(False)

    def reset(self, key, params=None):
        _, state = super().reset(key, params)
        first = jax.random.key_data(key).sum() == jax.random.key_data(jax.random.key(0)).sum()
        state = state.replace(context=jnp.where(first, 0, state.context))
        return self.observe(state), state


def test_masks_that_allow_nothing_stop_the_training():
    with pytest.raises(MasklessError, match=r"no action is valid in .* % of the states"):
        maskless.train(
            NothingLater(), "masked", frames=64, preset="cpu", num_envs=8, rollout=8, width=8,
            minibatches=2, show=False,
        )  # fmt: skip
