"""A student beside a frozen policy: what it learns, what it leaves alone, and how it is kept."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless.envs.base import Environment
from maskless.errors import MasklessError
from maskless.finish import finish, learning
from maskless.finish.memory import Labelled, Memory
from maskless.nets import Encoder
from maskless.nets.deployable import Student

from toys import MaskedBandit

SMALL = {"num_envs": 8, "rollout": 32, "minibatches": 2, "epochs": 2, "width": 16, "show": False}


class Lock(Environment):
    """Three dials and a number: dial k can be turned when the number exceeds k thirds. Turning all
    of them opens the lock. What is invalid does nothing."""

    id, action_names, episode_limit = "lock", ("one", "two", "three", "open"), 20

    def reset(self, key, params=None):
        return self._at(jnp.zeros(3, bool), key, jnp.int32(0))

    def _at(self, turned, key, time):
        state = (turned, jax.random.uniform(key), time)
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        turned, number, time = state
        valid = self.validity(state)[action]
        turned = turned | (valid & (jnp.arange(3) == action))
        opened = valid & (action == 3)
        fresh = jnp.where(valid, jax.random.uniform(key), number)
        state = (turned, fresh, time + 1)
        out = time + 1 >= self.episode_limit
        return self.observe(state), state, opened * 1.0, opened | out, {"truncated": out & ~opened}

    def observe(self, state):
        return jnp.append(state[0], state[1]) * jnp.array([1.0, 1.0, 1.0, 100.0]) + 7.0

    def validity(self, state, params=None):
        turned, number, _ = state
        dials = ~turned & (number > jnp.arange(3) / 3)
        mask = jnp.append(dials, turned.all())
        return mask | (~mask.any() & (jnp.arange(4) == 0))


@pytest.fixture(scope="module")
def training():
    return maskless.train(Lock(), "masked", frames=8192, finish=20_000, seeds=2, **SMALL)


def test_what_it_learns_is_nearly_everything(training):
    runs = training.evaluate(episodes=512).runs
    for run in runs:
        oracle, predicted, clone = (run.masks[name] for name in ("oracle", "predicted", "clone"))
        assert predicted.invalid_share < 0.01
        assert clone.invalid_share < 0.02
        assert predicted.mean_return > oracle.mean_return - 0.05
        assert clone.mean_return > oracle.mean_return - 0.05
        assert run.masks["none"].invalid_share > 0.1  # which is what it is for


def test_the_policy_stays_as_it_is(training):
    for number, run in enumerate(training.finished):
        before = training.program.fetch_run(training.states.params, number)["params"]
        jax.tree.map(np.testing.assert_array_equal, before, run.params["params"]["policy"])


def test_the_log_shows_the_gain(training):
    rounds = training.finished[0].rounds
    assert rounds[-1].quality.moved < 0.2 * rounds[0].quality.moved
    frames = [each.frames for each in rounds]
    assert frames == sorted(frames)
    assert frames[-1] <= 20_000 + 16 * 96


def test_the_same_seed_gives_the_same_student(training):
    params = [training.program.fetch_run(training.states.params, 1)]
    (again,) = finish(Lock(), training.request.net, params, frames=20_000, seeds=[1])
    jax.tree.map(np.testing.assert_array_equal, training.finished[1].params, again.params)


def test_kept_in_a_folder(training, tmp_path):
    training.save(tmp_path / "kept")
    place = tmp_path / "kept" / "masked" / "seed-0"
    assert json.loads((place / "finish.json").read_text())["rounds"]
    policy, loaded = training.policy(seed=0), maskless.load(place)
    observation = jnp.array([7.0, 8.0, 7.0, 60.0])
    for masks in ("predicted", "clone"):
        _, _, info = policy.act(observation, key=jax.random.key(0), masks=masks)
        _, _, same = loaded.act(observation, key=jax.random.key(0), masks=masks)
        np.testing.assert_array_equal(info.probabilities, same.probabilities)
    resumed = maskless.train(Lock(), folder=tmp_path / "kept", resume=True, show=False)
    jax.tree.map(
        np.testing.assert_array_equal, training.finished[0].params, resumed.finished[0].params
    )
    here = training.evaluate(episodes=64, masks=("clone",)).runs[1].masks["clone"]
    there = maskless.evaluate(tmp_path / "kept", env=Lock(), episodes=64, masks=("clone",))
    assert there.runs[1].masks["clone"] == here


def test_a_policy_with_a_memory_is_finished_too():
    trained = maskless.train(Lock(), "masked-focal", net="gru", frames=2048, finish=3000, **SMALL)
    policy = trained.policy()
    assert trained.finished[0].net.recurrent
    carry = policy.initial_carry()
    for _ in range(3):
        observation = jnp.array([7.0, 7.0, 7.0, 90.0])
        _, carry, info = policy.act(observation, carry, key=jax.random.key(0))
    assert np.isfinite(info.probabilities).all()


def test_not_asked_for_it_is_not_there():
    trained = maskless.train("staircase", "masked", preset="cpu", frames=8192, show=False)
    assert trained.config.finish == 0
    assert trained.finished is None
    own = maskless.train(MaskedBandit(), "unmasked", frames=512, **SMALL)
    assert own.config.finish == 0


def test_without_masks_there_are_no_labels():
    env = Lock()
    env.has_masks = False
    with pytest.raises(MasklessError, match="no labels"):
        finish(env, None, [], frames=10, seeds=[])


def test_the_loss_is_the_one_in_float64():
    random = np.random.default_rng(0)
    states = Labelled(
        observation=random.normal(size=(5, 3)).astype(np.float32),
        features=np.zeros((5, 2), np.float32),
        logits=random.normal(size=(5, 4)).astype(np.float32) * 5,
        valid=np.array(
            [[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 1, 1]], bool
        ),
    )
    student = Student(num_actions=4, encoder=Encoder(), width=8)
    arguments = jax.tree.map(lambda x: jnp.asarray(x)[None], states)
    arguments = (arguments.observation, arguments.features, arguments.logits)
    params = student.init(jax.random.key(0), *arguments)["params"]
    validity, clone = (np.float64(x[0]) for x in student.apply({"params": params}, *arguments))
    losses = learning.student_losses(student, params, states)
    p = 1 / (1 + np.exp(-validity))
    entries = -np.where(states.valid, np.log(p), np.log(1 - p))
    teacher = np.where(states.valid, np.exp(np.float64(states.logits)), 0)
    teacher /= teacher.sum(-1, keepdims=True)
    q = np.exp(clone) / np.exp(clone).sum(-1, keepdims=True)
    divergence = np.where(states.valid, teacher * np.log(np.maximum(teacher, 1e-300) / q), 0)
    np.testing.assert_allclose(losses.validity, entries.sum(-1).mean(), rtol=1e-5)
    np.testing.assert_allclose(losses.clone, divergence.sum(-1).mean(), rtol=1e-5)


def test_what_is_read_is_normalised():
    random = np.random.default_rng(0)
    numbers = random.normal([5.0, -300.0, 0.0], [2.0, 100.0, 0.0], size=(4000, 3))
    numbers[0, 2] = 1.0  # varies once
    spread = learning._spread(numbers)
    normal = (numbers - spread["mean"]) * spread["scale"]
    np.testing.assert_allclose(normal[:, :2].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(normal[:, :2].std(0), 1, atol=0.1)
    assert normal[0, 2] <= 4.01


def test_the_memory_keeps_the_newest(monkeypatch):
    monkeypatch.setattr("maskless.finish.memory.STATES", 1500)

    def states(first, count):
        numbers = np.arange(first, first + count, dtype=np.float32)[:, None]
        return Labelled(numbers, numbers, numbers, np.ones((count, 1), bool))

    memory = Memory(states(0, 1))
    for first in range(0, 4000, 400):
        memory.add(states(first, 400))
    drawn = memory.draw(np.random.default_rng(0), (20_000,)).observation
    assert memory.size == 1500
    assert set(np.unique(drawn)) == set(range(2500, 4000))


@pytest.mark.parametrize("frames", [float("nan"), float("inf"), -1])
def test_frames_that_are_no_number_are_refused(frames):
    with pytest.raises(MasklessError, match="finish must be a number of at least 0"):
        maskless.train(Lock(), "masked", frames=8192, finish=frames, **SMALL)
