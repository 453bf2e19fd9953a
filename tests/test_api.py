"""The door: `maskless.train` with whatever a user has, and what it returns."""

import inspect
import json
import sys
from functools import partial
from pathlib import Path

import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import struct

import maskless
from maskless import MasklessError, api
from maskless.cli import main
from maskless.conditions import condition
from maskless.evaluation.episodes import MASKS
from maskless.nets import Heads
from maskless.ppo import update
from maskless.training.folder import read_config, run_folder
from maskless.training.request import make_request

SOURCE = Path(maskless.__file__).parent
UPDATES = 3
TINY = {"num_envs": 4, "rollout": 8, "minibatches": 2, "epochs": 1}
"""The smallest program that has everything. All environments below are as small."""
QUICK = {**TINY, "width": 8, "frames": UPDATES * 32, "diagnostics": False, "show": False}
STAIRCASE = {"env_options": {"length": 4, "spare": 4}, **QUICK}


def a_world_of_your_own():
    """What a user defines in a notebook: no module that could be imported has it."""

    @struct.dataclass
    class State:
        lamp: jax.Array
        time: jax.Array

    class Lamps(maskless.Environment):
        """One of three lamps is lit. Switching it off pays; the next one can be switched on, which
        does not; the third switch does not work."""

        id = "lamps"
        action_names = ("first", "second", "third")
        episode_limit = 5

        def reset(self, key, params=None):
            state = State(jax.random.randint(key, (), 0, 3), jnp.int32(0))
            return self.observe(state), state

        def step(self, key, state, action, params=None):
            reward = jnp.where(action == state.lamp, 1.0, 0.0)
            after = State(jax.random.randint(key, (), 0, 3), state.time + 1)
            over = after.time >= self.episode_limit
            return self.observe(after), after, reward, over, {"truncated": over}

        def observe(self, state):
            return jax.nn.one_hot(state.lamp, 3)

        def validity(self, state, params=None):
            return (jnp.arange(3) - state.lamp) % 3 < 2

    return Lamps()


def train_lamps(**more):
    return maskless.train(a_world_of_your_own(), "masked-focal", **QUICK | more)


@pytest.fixture(scope="module")
def lamps():
    """Trained in memory, to the end."""
    return train_lamps()


def as_text(evaluation):
    """So that nan equals nan."""
    return json.dumps(evaluation.to_json())


def assert_same_parameters(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, ours.params, theirs.params)


# ---- an environment of one's own


def test_it_is_trained_in_memory_and_acts_at_once(lamps):
    assert lamps.complete
    assert lamps.runs == [("masked-focal", 0)]
    assert lamps.folder is None
    assert lamps.config.env == "object:Lamps"
    assert lamps.metrics["policy_loss"].shape == (1, UPDATES)
    assert np.isfinite(lamps.metrics["policy_loss"]).all()
    policy = lamps.policy("masked-focal", seed=0)
    action, _, info = policy.act(jnp.eye(3), key=jax.random.key(0))
    assert action.shape == (3,)
    assert (info.mask.any(-1) | info.fallback).all()
    with pytest.raises(MasklessError, match=r"No run is masked-kl.* there are: masked-focal"):
        lamps.policy("masked-kl")


def test_an_evaluation_can_be_cut_off(lamps):
    """Eight episodes of five steps, one after the other, of which sixteen steps are played."""
    how = {"episodes": 16, "num_envs": 2, "masks": ("oracle",)}
    whole, cut = lamps.evaluate(**how), lamps.evaluate(**how, max_steps=16)
    assert whole.runs[0].masks["oracle"].length == 5
    assert cut.runs[0].masks["oracle"].length == pytest.approx(16 / 8)
    assert cut.settings["max_steps"] == 16


def test_saved_and_loaded_it_is_the_same(lamps, tmp_path):
    evaluation = lamps.evaluate(episodes=16)
    assert list(evaluation.runs[0].masks) == list(MASKS)  # the controls, too
    folder = lamps.save(tmp_path / "run")
    loaded = maskless.load(folder / "masked-focal" / "seed-0")
    assert_same_parameters(loaded, lamps.policy())
    seen = jnp.eye(3)
    assert jnp.array_equal(
        loaded.act(seen, greedy=True)[0], lamps.policy().act(seen, greedy=True)[0]
    )
    again = maskless.evaluate(folder, env=a_world_of_your_own(), episodes=16)
    assert as_text(again) == as_text(evaluation)
    assert again.save()[0].exists()
    with pytest.raises(MasklessError, match="in memory only"):
        evaluation.save()
    with pytest.raises(MasklessError, match=r"object:Lamps\): give it again, in Python with env="):
        maskless.evaluate(folder)
    with pytest.raises(MasklessError, match="give it again"):
        maskless.train(folder=folder, resume=True)
    with pytest.raises(MasklessError, match="already holds a training"):
        lamps.save(folder)


def test_a_callback_stops_it_and_from_its_folder_it_goes_on(lamps, tmp_path):
    calls = []

    def stop_after_one(progress):
        calls.append(progress)
        return progress.update == 1

    stopped = train_lamps(callback=stop_after_one)
    assert not stopped.complete
    (progress,) = calls
    assert isinstance(progress, maskless.Progress)
    assert (progress.update, progress.frames) == (1, 32)
    assert progress.rows[0]["update"] == 1
    assert stopped.metrics["policy_loss"].shape == (1, 1)

    in_folder = train_lamps(callback=stop_after_one, folder=tmp_path / "trained")
    assert not in_folder.complete
    stopped.save(tmp_path / "saved")
    for name in ("trained", "saved"):
        resumed = maskless.train(
            a_world_of_your_own(), folder=tmp_path / name, resume=True, show=False
        )
        assert resumed.complete
        assert_same_parameters(resumed.policy(), lamps.policy())
        for key in lamps.metrics.keys() - {"seconds"}:
            np.testing.assert_array_equal(resumed.metrics[key], lamps.metrics[key])
        assert maskless.load(tmp_path / name / "masked-focal" / "seed-0")


def test_what_is_no_environment_is_refused_in_a_sentence():
    with pytest.raises(MasklessError, match="3 is no environment: give an id"):
        maskless.train(3)
    with pytest.raises(MasklessError, match="make yours with them"):
        maskless.train(a_world_of_your_own(), env_options={"length": 3})
    with pytest.raises(MasklessError, match="resume=True needs its folder"):
        maskless.train(resume=True)


# ---- Gymnasium's


def a_gymnasium_class():
    class Dial(gymnasium.Env):
        """Turn a dial from 0 to 3; turning it beyond an end is invalid."""

        observation_space = gymnasium.spaces.Box(0, 3, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._at, self._time = int(self.np_random.integers(4)), 0
            return self._seen(), {}

        def step(self, action):
            self._at = int(np.clip(self._at + (1 if action else -1), 0, 3))
            self._time += 1
            return self._seen(), float(self._at == 3), self._time == 5, False, {}

        def action_masks(self):
            return np.array([self._at > 0, self._at < 3])

        def _seen(self):
            return np.array([self._at], np.float32)

    return Dial


def as_instance(cls):
    return cls()


def as_class(cls):
    return cls


def as_function(cls):
    return lambda: cls()


@pytest.mark.parametrize("way", [as_instance, as_class, as_function])
def test_a_gymnasium_environment_defined_in_a_function(way, tmp_path):
    env = way(a_gymnasium_class())
    training = maskless.train(env, "masked-focal", **QUICK)
    assert training.config.env == "object:Dial"
    assert np.isfinite(training.metrics["policy_loss"]).all()
    action, _, _ = training.policy().act(np.zeros(1, np.float32), key=jax.random.key(0))
    assert int(action) in (0, 1)
    if way is not as_function:
        return
    evaluation = training.evaluate(episodes=8)
    assert evaluation.runs[0].masks["oracle"].invalid_share == 0
    folder = training.save(tmp_path / "run")
    again = maskless.evaluate(folder, env=env, episodes=8)
    assert as_text(again) == as_text(evaluation)


# ---- networks and optimisers of one's own


class Plain(nn.Module):
    """A network with a memory that is nothing but Flax: the sum of what was seen. It has only the
    heads that every network must have."""

    num_actions: int = 3

    @nn.nowrap
    def initial_carry(self, batch):
        return jnp.zeros((batch, 1))

    @nn.compact
    def __call__(self, carry, obs, reset):
        def step(memory, now):
            seen, new = now
            memory = jnp.where(new[:, None], 0.0, memory) + seen.sum(-1, keepdims=True)
            return memory, memory

        carry, memories = jax.lax.scan(step, carry, (obs, reset))
        hidden = nn.tanh(nn.Dense(8)(jnp.concatenate([obs, memories], -1)))
        return carry, Heads(
            logits=nn.Dense(self.num_actions)(hidden),
            value=nn.Dense(1)(hidden)[..., 0],
            validity=nn.Dense(self.num_actions)(hidden),
            features=hidden,
        )


class Reader(nn.Module):
    """An encoder that is nothing but Flax."""

    @nn.compact
    def __call__(self, obs):
        return nn.relu(nn.Dense(5)(obs))


def sign_descent(hyperparameters, updates):
    return optax.chain(optax.scale_by_sign(), optax.scale(-hyperparameters.learning_rate))


@pytest.mark.parametrize(
    "own",
    [
        {"net": Plain(), "optimizer": optax.sgd(0.01), "diagnostics": True},
        {"net": Reader(), "optimizer": sign_descent},
        {"net": "mlp", "encoder": Reader()},
    ],
    ids=["network", "encoder", "encoder of a named network"],
)
def test_a_network_an_encoder_and_an_optimiser_of_one_s_own_are_trained(own, tmp_path):
    first = []
    training = train_lamps(
        **own,
        callback=lambda progress: first.append(jax.device_get(progress.states.params)) or False,
    )
    assert np.isfinite(training.metrics["policy_loss"]).all()
    last = jax.device_get(training.states.params)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), first[0], last)
    assert all(jax.tree.leaves(changed)), changed
    action, _, _ = training.policy().act(jnp.eye(3), key=jax.random.key(0))
    assert action.shape == (3,)
    if "optimizer" in own:
        assert training.config.optimizer == "custom"
        assert np.isnan(training.metrics["learning_rate"]).all()
    if not isinstance(own["net"], str):
        assert training.config.net in (
            f"custom:{type(own['net']).__name__}",
            f"mlp+{type(own['net']).__name__}",
        )
        folder = training.save(tmp_path / "run")
        env = a_world_of_your_own()
        again = maskless.evaluate(folder, env=env, net=own["net"], episodes=4)
        assert as_text(again) == as_text(training.evaluate(episodes=4))
        with pytest.raises(MasklessError, match="optimiser was given as an object"):
            maskless.train(env, net=own["net"], folder=folder, resume=True)
        with pytest.raises(MasklessError, match=r"(network|encoder) was given as an object"):
            maskless.train(env, optimizer=own["optimizer"], folder=folder, resume=True)


def test_a_network_that_does_not_fit_is_refused_before_anything_compiles():
    with pytest.raises(MasklessError, match=r"Plain: logits must be floats \[2, 3, 3\]"):
        train_lamps(net=Plain(num_actions=4))
    with pytest.raises(
        MasklessError, match="'masked-focal:detached=1' needs a network of maskless"
    ):
        maskless.train(a_world_of_your_own(), "masked-focal:detached=1", net=Plain(), **QUICK)


# ---- numbers that vary

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
OTHERS = {
    "discount": (0.9, 0.95, 0.99, 1.0),
    "gae_lambda": (0.5, 0.8, 0.95, 1.0),
    "entropy": (0.0, 0.01, 0.02, 0.1),
    "clip": (0.05, 0.1, 0.2, 0.4),
}
STRENGTHS = (5.0, 10.0, 20.0, 40.0)


@pytest.fixture(scope="module")
def varied():
    """Four runs in one program, with a learning rate, a strength and more of their own each."""
    names = []
    for number, (rate, strength) in enumerate(zip(RATES, STRENGTHS, strict=True)):
        own = {name: values[number] for name, values in OTHERS.items()}
        names += maskless.grid("masked-focal", learning_rate=rate, strength=strength, **own)
    return maskless.train("staircase", names, **STAIRCASE)


@pytest.mark.parametrize("run", range(4))
def test_four_learning_rates_in_one_program_are_those_of_four_programs(varied, run):
    """And four of every other number that changes no shape, the condition's included. In a program
    of its own each of them is a constant."""
    own = {name: values[run] for name, values in OTHERS.items()}
    name = f"masked-focal:strength={STRENGTHS[run]}"
    alone = maskless.train("staircase", name, learning_rate=RATES[run], **own, **STAIRCASE)
    assert alone.program.numbers == {}
    assert alone.config.ppo.learning_rate == RATES[run]
    for key in alone.metrics.keys() - {"seconds"}:
        np.testing.assert_allclose(
            varied.metrics[key][run], alone.metrics[key][0], rtol=1e-5, atol=1e-5, err_msg=key
        )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        varied.policies[run].params,
        alone.policy().params,
    )


def test_metrics_and_folders_say_which_is_which(varied, tmp_path):
    # Annealed: full at the beginning.
    np.testing.assert_allclose(varied.metrics["learning_rate"][:, 0], RATES, rtol=1e-6)
    folder = varied.save(tmp_path / "run")
    for number, run in enumerate(varied.runs):
        place = run_folder(folder, run)
        assert f"learning_rate={RATES[number]}," in str(place)
        about = json.loads((place / "config.json").read_text())
        assert about["numbers"]["learning_rate"] == RATES[number]
        assert about["numbers"]["discount"] == OTHERS["discount"][number]
        assert about["condition"]["strength"] == STRENGTHS[number]
        assert maskless.load(place).action_names[2] == "descend"
        assert varied.policy(run[0]) is varied.policies[number]
    names = [run.condition for run in maskless.evaluate(folder, episodes=4).runs]
    assert names == [name for name, _ in varied.runs]


class AskedError(Exception):
    """In the place of training: what is asked for."""


@pytest.fixture
def asked(monkeypatch):
    """The configuration that Python's `train`, or a command, would train."""

    def refuse(request, *arguments, **options):
        raise AskedError(request.config)

    monkeypatch.setattr(api, "Session", refuse)

    def ask(*arguments, **options):
        if isinstance(arguments[0], list):  # of the command line
            call = partial(main, ["train", *arguments[0]])
        else:
            call = partial(maskless.train, *arguments, **options)
        with pytest.raises(AskedError) as question:
            call()
        return question.value.args[0]

    return ask


def test_a_list_of_numbers_is_a_grid(asked):
    several = asked("staircase", ["masked", "masked-kl"], learning_rate=[1e-4, 3e-4], seeds=2)
    names = maskless.grid("masked", "masked-kl", learning_rate=[1e-4, 3e-4])
    assert several == asked("staircase", names, seeds=2)
    assert len(several.runs) == 8
    one = asked("staircase", "masked", learning_rate=1e-4)
    assert (one.conditions, one.ppo.learning_rate) == (("masked",), 1e-4)
    strengths = asked("staircase", "masked-kl", strength=[5, 20])
    assert [condition(name).strength for name in strengths.conditions] == [5.0, 20.0]


def test_a_number_that_decides_a_shape_cannot_vary():
    with pytest.raises(MasklessError, match="num_envs decides the shape of the program: give one"):
        maskless.train("staircase", num_envs=[4, 8])
    with pytest.raises(MasklessError, match="did you mean 'learning_rate'"):
        maskless.train("staircase", learning_rat=1e-3)


def test_a_condition_can_be_given_as_an_object(asked):
    own = maskless.Condition(masked=True, strength=3.0, detached=True)
    config = asked("staircase", [own, "unmasked"])
    assert condition(config.conditions[0]) == own
    assert condition(asked("staircase", own).conditions[0]) == own


# ---- the same request from Python and from the command line


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ("--env staircase", {"env": "staircase"}),
        ("--env corridor-r2", {"env": "corridor-r2"}),
        ("--env staircase --net hybrid", {"env": "staircase", "net": "hybrid"}),
        ("--env staircase --preset cpu", {"env": "staircase", "preset": "cpu"}),
        (
            "--env corridor-r2 --net hybrid --preset cpu --frames 3e6 --seeds 2 --first-seed 3",
            {
                "env": "corridor-r2",
                "net": "hybrid",
                "preset": "cpu",
                "frames": 3e6,
                "seeds": 2,
                "first_seed": 3,
            },
        ),
        (
            "--env staircase --conditions masked masked-kl:gamma=1 --learning-rate 1e-4 3e-4"
            " --entropy 0.02 --num-envs 64 --env-options length=9 --precision bfloat16",
            {
                "env": "staircase",
                "conditions": ["masked", "masked-kl:gamma=1"],
                "learning_rate": [1e-4, 3e-4],
                "entropy": 0.02,
                "num_envs": 64,
                "env_options": {"length": 9},
                "precision": "bfloat16",
            },
        ),
        ("--env toys:Tower --no-diagnostics", {"env": "toys:Tower", "diagnostics": False}),
        (
            "--env gymnasium:host_toys:Steps-v0 --net gru --env-options workers=0",
            {"env": "gymnasium:host_toys:Steps-v0", "net": "gru", "env_options": {"workers": 0}},
        ),
    ],
)
def test_python_and_the_command_line_ask_for_the_same(asked, flags, arguments):
    from_python = asked(arguments["env"], **{k: v for k, v in arguments.items() if k != "env"})
    from_command = asked(flags.split())
    assert from_command.to_json() == from_python.to_json()
    assert from_command == from_python


def test_what_environment_and_network_need_comes_through_every_door(asked):
    corridor = asked("corridor-r2")
    assert (corridor.ppo.rnd, corridor.ppo.gae_lambda) == (True, 0.95)
    assert asked("corridor-r2", gae_lambda=0.8).ppo.gae_lambda == 0.8
    ppo = asked("staircase", net="hybrid").ppo
    assert (ppo.rollout, ppo.discount, ppo.entropy) == (128, 0.999, 0.002)
    own = maskless.Hyperparameters(num_envs=32)
    assert asked("corridor-r2", ppo=own).ppo == own


def test_the_command_trains_the_same_and_is_nine_frames_above_the_objective(tmp_path, monkeypatch):
    depths = []
    objective = update.objective

    def counted(*arguments):
        frame, depth = sys._getframe(1), 1  # the objective itself
        while frame is not None:
            depth += Path(frame.f_code.co_filename).is_relative_to(SOURCE)
            frame = frame.f_back
        depths.append(depth)
        return objective(*arguments)

    monkeypatch.setattr(update, "objective", counted)
    flags = [f"--{name.replace('_', '-')}={number}" for name, number in TINY.items()]
    main(
        ["train", "--env", "staircase", "--env-options", "length=4", "spare=4", "--width", "8",
         "--conditions", "masked", "masked-kl", "--frames", str(UPDATES * 32), "--no-diagnostics",
         "--out", str(tmp_path / "command"), *flags]
    )  # fmt: skip
    assert 0 < max(depths) <= 9
    monkeypatch.undo()
    training = maskless.train(
        "staircase", ["masked", "masked-kl"], folder=tmp_path / "python", **STAIRCASE
    )
    assert read_config(tmp_path / "command") == read_config(tmp_path / "python")
    for run in training.runs:
        by_command, by_python = (
            maskless.load(run_folder(tmp_path / name, run)) for name in ("command", "python")
        )
        assert_same_parameters(by_command, by_python)


# ---- what is public


def test_everything_public_exists_and_says_what_it_is():
    assert sorted(maskless.__all__) == maskless.__all__
    for name in maskless.__all__:
        thing = getattr(maskless, name)
        assert name in dir(maskless)
        if name not in ("CONDITIONS", "__version__"):
            assert inspect.getdoc(thing), name
    for name in ("Condition", "Config", "Hyperparameters", "grid", "train"):
        assert "maskless." in inspect.getdoc(getattr(maskless, name)), name
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = maskless.trian


def test_switches_are_booleans():
    own = maskless.Condition(masked=True)
    switches = ("masked", "uniform_fallback", "literal", "acting", "detached")
    assert {type(getattr(own, name)) for name in switches} == {bool}
    assert {type(maskless.CONDITIONS["unmasked-kl"].masked)} == {bool}


class Widening(nn.Module):
    @nn.compact
    def __call__(self, obs):
        return nn.relu(nn.Dense(8)(obs))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"gamma": 0.9}, "focal parameter .* discount"),
        (
            {"optimizer": optax.sgd(0.1), "learning_rate": [0.1, 0.2]},
            "not used beside an optimiser",
        ),
        ({"optimizer": "adam"}, "optax transformation"),
        ({"seeds": [0, 1]}, "seeds must be a whole number"),
        ({"width": "16"}, "width must be a whole number"),
        ({"frames": "1e3"}, "frames must be a number"),
        ({"learning_rate": "1e-3"}, "learning_rate must be a number"),
        ({"strength": []}, "one or more numbers"),
        ({"num_envs": [8, 16]}, "shape of the program"),
        ({"encoder": Widening}, r"Widening\(\)"),
        ({"learning_rat": 0.1}, "did you mean 'learning_rate'"),
    ],
)
def test_what_a_newcomer_gets_wrong_is_one_sentence(wrong, sentence):
    with pytest.raises(MasklessError, match=sentence):
        maskless.train("staircase", "masked-focal", **wrong)


def test_an_encoder_beside_a_named_network_is_asked_for_again(tmp_path):
    sizes = {"num_envs": 4, "rollout": 4, "minibatches": 2, "epochs": 1, "frames": 16, "width": 8}
    training = maskless.train(
        "staircase", "masked-focal", net=Widening(), folder=tmp_path / "run", show=False, **sizes
    )
    assert training.config.net == "mlp+Widening"
    for again in ({"net": Widening()}, {"encoder": Widening()}):
        assert maskless.load(tmp_path / "run", **again).action_names
    with pytest.raises(MasklessError, match="encoder was given as an object"):
        maskless.evaluate(tmp_path / "run", episodes=2)
    with pytest.raises(MasklessError, match="encoder was given as an object"):
        maskless.train(folder=tmp_path / "run", resume=True)
    with pytest.raises(MasklessError, match="leave out learning_rate"):
        maskless.train(folder=tmp_path / "run", resume=True, learning_rate=0.1)


def test_an_object_that_imitates_an_environment_is_enough():
    class Count:
        action_names, episode_limit = ("a", "b"), 4

        def reset(self, key, params=None):
            return jnp.zeros(2), jnp.int32(0)

        def step(self, key, state, action, params=None):
            return jnp.zeros(2), state + 1, jnp.float32(1), state >= 3, {}

        def observe(self, state):
            return jnp.zeros(2)

        def validity(self, state, params=None):
            return jnp.ones(2, bool)

    request = make_request(Count(), "masked")
    assert request.config.env == "object:Count"
    assert request.env.num_actions == 2
