import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import maskless
from maskless import MasklessError
from maskless.envs.gymnasium import Numbered
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.envs.gymnasium.game import arrays
from maskless.envs.gymnasium.vector import HostVectorEnv
from minihax.look.observation import from_nle

from host_toys import LIMIT, Gallery, Steps, mask_from_observation

STEPS = "gymnasium:host_toys:Steps-v0"
ENVS = 4


def play(worlds, steps=40):
    """Random valid actions: what was seen first, the actions, and the outcomes."""
    random = np.random.default_rng(0)
    first = worlds.reset([(3, slot) for slot in range(worlds.num_envs)])
    actions, outs, mask = [], [], first.mask
    for _ in range(steps):
        actions.append(np.array([random.choice(np.flatnonzero(row)) for row in mask]))
        outs.append(worlds.step(actions[-1]))
        mask = outs[-1].mask
    return first, np.stack(actions), jax.tree.map(lambda *x: np.stack(x), *outs)


@pytest.mark.parametrize("masks", ["method", "info", "observation"])
def test_the_mask_of_every_convention_belongs_to_the_observation_it_comes_with(masks):
    env = maskless.make(STEPS, workers=0, masks=masks)
    assert env.mask_source == masks
    assert env.has_masks
    assert env.action_names == ("stay", "one", "two")
    with HostVectorEnv(env, ENVS) as worlds:
        first, actions, out = play(worlds)
    seen = [
        x.observation["seen"] if masks == "observation" else x.observation for x in (first, out)
    ]
    np.testing.assert_array_equal(first.mask, mask_from_observation(seen[0]))
    np.testing.assert_array_equal(out.mask, mask_from_observation(seen[1]))
    assert out.done.sum() > 20
    np.testing.assert_array_equal(out.reward, actions)


def test_an_episode_ends_with_its_last_observation_and_the_next_begins_in_the_same_step():
    with HostVectorEnv(maskless.make(STEPS, workers=0), ENVS) as worlds:
        _, _, out = play(worlds)
    number, clock = out.final_observation[..., 0], out.final_observation[..., 1]
    np.testing.assert_array_equal(out.terminated, number == 4)
    np.testing.assert_array_equal(out.truncated, (clock == LIMIT) & (number != 4))
    np.testing.assert_array_equal(out.done, out.terminated | out.truncated)
    assert out.truncated.any()
    assert (out.observation[out.done][:, 1] == 0).all()
    np.testing.assert_array_equal(out.observation[~out.done], out.final_observation[~out.done])
    # The statistics, added up again from rewards and ends.
    returns, lengths = np.zeros(ENVS), np.zeros(ENVS, int)
    for t in range(len(out.done)):
        returns, lengths = returns + out.reward[t], lengths + 1
        np.testing.assert_array_equal(out.episodes.returns[t], returns)
        np.testing.assert_array_equal(out.episodes.lengths[t], lengths)
        returns, lengths = returns * ~out.done[t], lengths * ~out.done[t]


def test_workers_play_the_same_games_as_this_process_and_end_when_closed(tmp_path, monkeypatch):
    for name in ("multiprocessing", "pickle", "random"):  # in the folder of a stranger
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    with HostVectorEnv(maskless.make(STEPS, workers=0), 3) as worlds:
        here = play(worlds)
    worlds = HostVectorEnv(maskless.make(STEPS, workers=2), 3)
    assert len(multiprocessing.active_children()) == 2
    there = play(worlds)
    jax.tree.map(np.testing.assert_array_equal, here, there)
    for number in (signal.SIGINT, signal.SIGTERM):  # as Ctrl-C, or a scheduler that stops a job
        os.kill(multiprocessing.active_children()[0].pid, number)
    before = worlds.reset([(slot,) for slot in range(3)])
    after = worlds.step(np.array([-1, 0, -1]))
    alone = [0, 2]
    np.testing.assert_array_equal(after.observation[alone], before.observation[alone])
    np.testing.assert_array_equal(after.episodes.lengths, [0, 1, 0])
    worlds.close()
    assert multiprocessing.active_children() == []
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ("raises", r"Steps-v0 failed in step \(ValueError: the ladder is broken. Badly\)"),
        ("nothing valid", "without any valid action"),
        ("short mask", r"a mask of shape \(2,\) with an observation"),
        ("crashes", r"A worker process of .*Steps-v0 died \(exit code 7\)"),
        ("exits", r"Steps-v0 failed in step \(SystemExit: 5\)"),
    ],
)
def test_trouble_in_an_environment_is_one_sentence_and_leaves_no_process(trouble, sentence):
    # What ends a process is tried in one that can be spared.
    workers = 1 if trouble in ("crashes", "raises") else 0
    env = maskless.make(STEPS, workers=workers, trouble=trouble)
    worlds = HostVectorEnv(env, 2)
    with pytest.raises(MasklessError, match=sentence):
        play(worlds)
    assert multiprocessing.active_children() == []


def test_workers_that_are_signalled_killed_or_stopped():
    """The first is played on, as all processes of a cluster's job get a SIGTERM."""
    for number, sentence in (
        (signal.SIGKILL, r"A worker process of .*Steps-v0 died \(SIGKILL\)"),
        (signal.SIGSTOP, r"Steps-v0 has not answered for 0.5 seconds \(process \d+\): it hangs"),
    ):
        worlds = HostVectorEnv(maskless.make(STEPS, workers=1), 2)
        worlds.reset([(0,), (1,)])
        worker = worlds._batches.processes[0]
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGHUP)
        worlds.step(np.zeros(2, int))
        assert re.search("a worker process of .* got SIGTERM", worlds.told_to_stop)
        worlds._batches._answer_seconds = 0.5
        os.kill(worker.pid, number)
        with pytest.raises(MasklessError, match=sentence):
            worlds.step(np.zeros(2, int))
        assert multiprocessing.active_children() == []


def test_an_environment_that_hangs_is_waited_for_no_longer_than_said():
    worlds = HostVectorEnv(maskless.make(STEPS, workers=1, trouble="hangs"), 2)
    worlds.reset([(0,), (1,)])
    worlds._batches._answer_seconds = 1.0
    with pytest.raises(MasklessError, match="has not answered for 1 seconds"):
        play(worlds)
    assert multiprocessing.active_children() == []


def local_environment():
    """A class that no process can import: it is defined in a function, as in a notebook."""

    class Local(Steps):
        def __init__(self, size=3, **options):
            super().__init__(**options)
            self.size = size

        def step(self, action):
            observation, reward, *others = super().step(action)
            return observation, self.size * reward, *others

    return Local


class RejectsStay(gymnasium.Wrapper):
    """Masks by a wrapper, as sb3-contrib's ActionMasker gives them; it does not say how it was
    made, so that no spec contains it."""

    def action_masks(self):
        return np.array([False, True, True])


def test_objects_classes_and_functions_are_environments_everywhere():
    local = local_environment()
    with HostVectorEnv(HostEnvironment.of(local, workers=0), 3) as worlds:
        expected = play(worlds, steps=20)
    np.testing.assert_array_equal(expected[2].reward, 3 * expected[1])
    for given in (local(), local, lambda: local(3)):
        for workers in (0, 2):
            env = HostEnvironment.of(given, workers=workers)
            assert env.id == "object:Local"
            assert (env.mask_source, env.episode_limit) == ("method", 0)
            if workers and given is local:
                continue  # each pair of processes takes a second: an object and a function will do
            with HostVectorEnv(env, 3) as worlds:
                jax.tree.map(np.testing.assert_array_equal, play(worlds, steps=20), expected)
    gymnasium.register("Local-v0", local)
    with HostVectorEnv(maskless.make("gymnasium:Local-v0", workers=1), 3) as worlds:
        jax.tree.map(np.testing.assert_array_equal, play(worlds, steps=20), expected)
    assert multiprocessing.active_children() == []


def test_wrappers_and_the_state_of_an_object_are_kept():
    local = local_environment()
    limited = gymnasium.wrappers.TimeLimit(local(masks="none"), 4)
    registered = gymnasium.make("host_toys:Steps-v0", masks="none")  # has a spec, which has a limit
    for inner, limit in ((limited, 4), (registered, LIMIT)):
        given = RejectsStay(inner)
        env = HostEnvironment.of(given, workers=0)
        assert env.mask_source == "method"
        with HostVectorEnv(env, 2) as worlds:
            _, _, out = play(worlds)
        assert (out.mask == [False, True, True]).all()
        assert out.episodes.lengths.max() == limit
        assert not hasattr(given.unwrapped, "_number")  # the object itself was not played
    given = local()
    env = HostEnvironment.of(given, workers=0)
    given.size = 1000  # too late
    assert env.play().env.size == 3
    # What the spec contains is made from it: wrappers, and no checks of every step.
    scaled = gymnasium.wrappers.TransformReward(gymnasium.make("Taxi-v3"), lambda reward: 7.0)
    env = HostEnvironment.of(scaled, workers=0)
    assert (env.id, env.episode_limit) == ("object:TaxiEnv", 200)
    game = env.play()
    game.reset(0)
    assert game.step(0)[2] == 7.0
    assert "PassiveEnvChecker" not in str(game.env)


def test_what_cannot_be_copied_or_sent_is_refused_with_a_sentence():
    class Locked(Steps):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    class Copyable(Locked):
        def __deepcopy__(self, memo):
            return type(self)()

    with pytest.raises(MasklessError, match=r"cannot be copied .*lock.*: give a function"):
        HostEnvironment.of(Locked())
    env = HostEnvironment.of(Copyable(), workers=1)
    with pytest.raises(MasklessError, match=r"cannot be sent to a worker process .*workers=0"):
        HostVectorEnv(env, 2)
    assert HostEnvironment.of(Locked, workers=0).num_actions == 3
    with pytest.raises(MasklessError, match="neither a Gymnasium environment nor a function"):
        HostEnvironment.of("Taxi-v3")
    with pytest.raises(MasklessError, match="no Gymnasium environment"):
        HostEnvironment.of(dict)
    with pytest.raises(
        MasklessError, match=r"object:Gallery failed in its constructor \(TypeError"
    ):
        HostEnvironment.of(Gallery)
    assert multiprocessing.active_children() == []


def test_an_exception_that_cannot_be_pickled_and_a_changing_shape_are_reported():
    class Trouble(Steps):
        def __init__(self, kind):
            super().__init__()
            self.kind = kind

        def step(self, action):
            class UnknownError(Exception):
                pass

            if self.kind == "raises":
                raise UnknownError("at sea")
            return np.zeros(1), 0.0, False, False, {}

    for kind, workers, sentence in (
        ("raises", 1, r"object:Trouble failed in step \(UnknownError: at sea\)"),
        ("grows", 0, r"the observation has the shape \(1,\), but its space says \(2,\)"),
    ):
        worlds = HostVectorEnv(HostEnvironment.of(partial(Trouble, kind), workers=workers), 2)
        with pytest.raises(MasklessError, match=sentence):
            play(worlds)
    assert multiprocessing.active_children() == []


def test_workers_end_when_the_learner_is_killed():
    script = (
        "import time, maskless\n"
        "from maskless.envs.gymnasium.vector import HostVectorEnv\n"
        f"worlds = HostVectorEnv(maskless.make({STEPS!r}, workers=1), 2)\n"
        "worlds.reset([(0,), (1,)])\n"
        "print('playing', flush=True)\n"
        "time.sleep(60)\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    ) as learner:
        assert learner.stdout.readline() == b"playing\n"
        learner.kill()
        learner.wait()
        # The worker has the same pipes: they end when it does. Python counts what a kill leaked.
        output, errors = learner.communicate(timeout=10)
        assert output == b""
        assert b"Traceback" not in errors


def test_a_learner_that_ends_without_closing_leaves_no_worker():
    script = (
        "import maskless\n"
        "from maskless.envs.gymnasium.vector import HostVectorEnv\n"
        f"worlds = HostVectorEnv(maskless.make({STEPS!r}, workers=1), 2)\n"
        "worlds.reset([(0,), (1,)])\n"
        "worlds._batches.step_async(worlds._actions)\n"
        "raise ValueError('a mistake')\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
        timeout=60,
    )
    assert done.stderr.rstrip().endswith("ValueError: a mistake")


def test_taxi_needs_no_minihax():
    script = (
        "import sys\n"
        "from maskless.envs.gymnasium.env import HostEnvironment\n"
        "HostEnvironment('gymnasium:Taxi-v3')\n"
        "assert not [name for name in sys.modules if 'nethack' in name]\n"
        "assert not [name for name in sys.modules if name.startswith('minihax')]\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    env = os.environ | {"PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", script], check=True, env=env, timeout=60)


def one_hot(number, size):
    return np.eye(size, dtype=np.float32)[number]


def test_observations_become_arrays():
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5
    space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (4, 4, 3), np.uint8),
            "few": spaces.Box(0, 4, (2,), np.uint8),
            "floor": spaces.Discrete(4, start=-1),
            "switches": spaces.MultiDiscrete([2, 3]),
            "lamps": spaces.MultiBinary(2),
            "pair": spaces.Tuple((spaces.Box(-9, 9, (), np.int64), spaces.Discrete(2))),
            "action_mask": spaces.MultiBinary(2),
        }
    )
    shown = {
        "camera": image,
        "few": np.array([1, 4], np.uint8),
        "floor": np.int64(2),
        "switches": np.array([1, 2]),
        "lamps": np.array([1, 0], np.int8),
        "pair": (np.int64(-7), 1),
        "action_mask": np.array([1, 0], np.int8),
    }
    expected = {
        "camera": image / 255,
        "few": [0.25, 1.0],
        "floor": one_hot(3, 4),
        "switches": [0, 1, 0, 0, 1],
        "lamps": [1, 0],
        "pair": (-7.0, one_hot(1, 2)),
    }
    env = maskless.make("gymnasium:host_toys:Gallery-v0", workers=0, space=space, shown=shown)
    assert env.mask_source == "observation"
    with HostVectorEnv(env, 2) as worlds:
        seen = worlds.reset([(0,), (1,)])
        out = worlds.step(np.array([0, 1]))  # its own numbers for them are 5 and 6
    for observation in (seen.observation, out.observation):
        for number in range(2):
            mine = jax.tree.map(lambda x, number=number: x[number], observation)
            assert mine.keys() == expected.keys()
            jax.tree.map(
                lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6),
                mine,
                jax.tree.map(np.asarray, expected, is_leaf=lambda x: isinstance(x, list)),
            )
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), env.observation_shapes)
    assert shapes == jax.tree.map(lambda x: (x.shape[1:], x.dtype), seen.observation)
    assert {x.dtype for x in jax.tree.leaves(seen.observation)} == {np.dtype(np.float32)}
    with pytest.raises(MasklessError, match="kind Text is not understood"):
        arrays(spaces.Text(3), "abc")


def test_what_cannot_be_used_is_refused_with_a_sentence():
    with pytest.raises(MasklessError, match="Gymnasium cannot make 'Taxy-v3'"):
        maskless.make("gymnasium:Taxy-v3")
    with pytest.raises(MasklessError, match="unexpected keyword argument 'colour'"):
        maskless.make(STEPS, colour="red")
    with pytest.raises(MasklessError, match="masks need discrete actions"):
        maskless.make("gymnasium:host_toys:Steering-v0")
    with pytest.raises(MasklessError, match="workers must be a number of processes"):
        maskless.make(STEPS, workers=-1)
    env = maskless.make(STEPS, masks="none")
    assert not env.has_masks
    with pytest.raises(MasklessError, match="not inside JAX"):
        env.reset(jax.random.key(0))


def test_an_environment_that_leaves_or_fails_on_its_way_out_takes_nothing_along():
    class Leaving(Steps):
        def __init__(self):
            sys.exit(3)

    class Unfinished(Steps):
        def close(self):
            raise ValueError("not now")

    with pytest.raises(MasklessError, match=r"failed in its constructor \(SystemExit: 3\)"):
        HostEnvironment.of(Leaving)
    with HostVectorEnv(HostEnvironment.of(Unfinished, workers=0), 2) as worlds:
        play(worlds, steps=3)


def test_an_environment_that_never_closes_is_left_alone(monkeypatch):
    monkeypatch.setattr("maskless.envs.gymnasium.env._SECONDS_TO_CLOSE", 0.1)

    class Clinging(Steps):
        def close(self):
            time.sleep(60)

    started = time.monotonic()
    with HostVectorEnv(HostEnvironment.of(Clinging, workers=0), 2) as worlds:
        play(worlds, steps=3)
    assert time.monotonic() - started < 30


def test_taxi_has_masks():
    env = maskless.make("gymnasium:Taxi-v3", workers=0)
    assert (env.mask_source, env.num_actions, env.episode_limit) == ("info", 6, 200)
    game = env.play()
    for seed in range(5):
        observation, mask = game.reset(seed)
        state = int(observation.argmax())
        transitions = game.env.unwrapped.P[state]
        changes = [transitions[action][0][1] != state for action in range(6)]
        np.testing.assert_array_equal(mask, changes)


@pytest.mark.parametrize("name", ["MiniHack-Corridor-R3-v0", "MiniHack-MazeWalk-9x9-v0"])
def test_the_real_game_looks_like_ours(name):
    minihack = pytest.importorskip("minihack")
    assert minihack
    ours = {"MiniHack-Corridor-R3-v0": "minihack-corridor-r3"}.get(name, "mazewalk-9x9")
    env, ours = maskless.make(f"gymnasium:{name}", workers=0), maskless.make(ours)
    assert env.action_names == ours.action_names
    assert env.episode_limit == ours.episode_limit
    assert not env.has_masks
    assert env.observation_shapes == jax.eval_shape(ours.reset, jax.random.key(0))[0]
    game, reference = env.play(), gymnasium.make(name)
    for seed in (1, 2):
        observation, mask = game.reset(seed)
        reference.unwrapped.seed(seed, seed, reseed=False)
        raw, _ = reference.reset()
        previous = None
        for action in (0, 2, 4, 6, 1, 7, 7):
            expected = from_nle(raw, previous, num_actions=env.num_actions)
            jax.tree.map(np.testing.assert_array_equal, observation, expected)
            assert mask.all()
            seen, *outcome = game.step(action)
            raw, reward, *_ = reference.step(action)
            assert outcome[1:] == [reward, False, False]
            (observation, mask), previous = seen, action
    game.close()
    reference.close()


@pytest.mark.parametrize("limit", [None, 5])
def test_the_real_game_runs_out_of_time(limit):
    pytest.importorskip("minihack")
    options = {} if limit is None else {"max_episode_steps": limit}
    env = maskless.make("gymnasium:MiniHack-MazeWalk-9x9-v0", workers=0, **options)
    game = env.play()
    game.reset(0)
    ends = [game.step(0)[-2:] for _ in range(limit or 200)]
    assert ends == [(False, False)] * (len(ends) - 1) + [(False, True)]
    game.close()


class Strict(Steps):
    """Raises at invalid actions, as many do whose agents are always masked."""

    def step(self, action):
        if not self._mask()[action]:
            raise ValueError(f"no action {action} here")
        return super().step(action)


def test_an_environment_that_raises_at_invalid_actions_need_not_be_asked():
    asked = HostEnvironment.of(Strict, workers=0).play()
    observation, mask = asked.reset(0)
    wrong = int(np.flatnonzero(~mask)[0])
    with pytest.raises(MasklessError, match=f"at action {wrong}.*on_invalid=noop.*penalty=-0.1"):
        asked.step(wrong)
    for text, reward, ends in [("noop", 0, False), ("penalty=-0.5", -0.5, False), ("end", 0, True)]:
        game = HostEnvironment.of(Strict, workers=0, on_invalid=text).play()
        observation, mask = game.reset(0)
        now, seen, *outcome = game.step(wrong)
        assert outcome == [reward, ends, False]
        np.testing.assert_array_equal(seen, observation)
        assert now is None if ends else (now[1] == mask).all()
    with pytest.raises(MasklessError, match="on_invalid must be noop, end, penalty=NUMBER"):
        maskless.make(STEPS, on_invalid="penalty")
    with pytest.raises(MasklessError, match="has no action masks: on_invalid needs them"):
        maskless.make(STEPS, on_invalid="noop", masks="none")


def test_refused_actions_count_as_steps_of_the_episode():
    game = maskless.make(STEPS, workers=0, on_invalid="noop").play()
    _, mask = game.reset(0)
    wrong = int(np.flatnonzero(~mask)[0])
    ends = [game.step(wrong)[-2:] for _ in range(LIMIT)]
    assert ends == [(False, False)] * (LIMIT - 1) + [(False, True)]


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ("nan reward", "gave the reward nan in step 3 of an episode"),
        ("nan seen", r"Steps-v0, step 3 of an episode: the observation holds nan"),
        ("wide", r"step 3 .* has the shape \(3,\), but its space says \(2,\)"),
        ("additive mask", "a mask that holds -inf: 1 or True is valid, 0 or False invalid"),
    ],
)
def test_wrong_data_are_named_as_such(trouble, sentence):
    worlds = HostVectorEnv(maskless.make(STEPS, workers=0, trouble=trouble), 2)
    with pytest.raises(MasklessError, match=sentence):
        play(worlds)


@pytest.mark.parametrize(
    ("space", "shown", "sentence"),
    [
        (spaces.Box(0, 255, (2,), np.uint8), np.array([0.1, 0.2]), "is float64, .* says uint8"),
        (spaces.Discrete(3, start=1), 0, "number -1 of a list of 3"),
        (spaces.Discrete(3), 1.5, "says one whole number"),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(2)}), {"a": 1}, "no 'b'"),
        (spaces.Dict({"a": spaces.MultiBinary(2)}), {"a": [1]}, r"observation\['a'\] .* \(1,\)"),
    ],
)
def test_an_observation_that_is_not_of_its_space_is_refused(space, shown, sentence):
    with pytest.raises(MasklessError, match=sentence):
        HostEnvironment.of(partial(Gallery, space, shown))


def test_a_gymnasium_class_is_found_by_its_module():
    env = maskless.make("host_toys:Steps", workers=0, masks="info")
    assert (env.id, env.mask_source) == ("host_toys:Steps", "info")
    assert env.made_from == ("host_toys:Steps", {"workers": 0, "masks": "info"})
    made = maskless.make("host_toys:make_steps", on_invalid="noop", workers=0)
    assert (made.mask_source, made.on_invalid) == ("method", "noop")
    with HostVectorEnv(maskless.make("host_toys:Steps", workers=1), 2) as worlds:
        play(worlds, steps=3)  # a worker finds it too
    with pytest.raises(MasklessError, match="Unknown option of host_toys:Steps 'colour'"):
        maskless.make("host_toys:Steps", colour="red")


class Desk(gymnasium.Env):
    """A lamp of three colours (from 1) and a drawer; red, 1, cannot be chosen while it is open."""

    action_space = spaces.MultiDiscrete([3, 2], start=[1, 0])
    observation_space = spaces.MultiBinary(1)

    def __init__(self, masks="method"):
        self._masks = masks
        if masks == "method":
            self.action_masks = self._mask

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._taken = []
        return self._look()

    def step(self, action):
        self._taken.append(list(action))
        return (self._look()[0], 0.0, len(self._taken) == 4, False, self._look()[1])

    def _is_open(self):
        return bool(self._taken and self._taken[-1][1])

    def _mask(self):
        return np.array([not self._is_open(), 1, 1, 1, 1], np.int8)

    def _look(self):
        info = {"action_mask": self._mask()} if self._masks == "info" else {}
        return np.array([self._is_open()], np.int8), info


@pytest.mark.parametrize("masks", ["method", "info", "none"])
def test_combined_choices_are_numbered(masks):
    game = HostEnvironment.of(Numbered(Desk(masks)), workers=0).play()
    _, mask = game.reset(0)
    np.testing.assert_array_equal(mask, np.ones(6, bool))
    now, *_ = game.step(3)
    _, mask = now
    np.testing.assert_array_equal(mask, np.array([masks == "none"] * 2 + [True] * 4))
    game.step(0)
    assert game.env.unwrapped._taken == [[2, 1], [1, 0]]
    env = HostEnvironment.of(lambda: Numbered(Desk(masks)))
    assert env.action_names == ("1,0", "1,1", "2,0", "2,1", "3,0", "3,1")
    assert env.mask_source == masks


def test_what_cannot_be_numbered_is_refused():
    def numbered(action_space, mask=None):
        desk = Desk()
        desk.action_space = action_space
        if mask is not None:
            desk.action_masks = lambda: mask
        return HostEnvironment.of(Numbered(desk), workers=0)

    with pytest.raises(MasklessError, match=r"Numbered does so for MultiDiscrete"):
        HostEnvironment.of(Desk())
    with pytest.raises(MasklessError, match="neither MultiDiscrete nor MultiBinary"):
        numbered(spaces.Discrete(3))
    with pytest.raises(MasklessError, match="65,536 combinations, and at most 16,384"):
        numbered(spaces.MultiBinary(16))
    for mask in (np.ones(6), np.array([0, 0, 0, 0, -np.inf])):
        with pytest.raises(MasklessError, match="must have 5 entries, 1 or True"):
            numbered(Desk.action_space, mask).play().reset(0)
    switches = numbered(spaces.MultiBinary(2), np.array([1, 0, 1, 1]))
    np.testing.assert_array_equal(switches.play().reset(0)[1], [1, 1, 0, 0])
