"""The NumPy runtime takes the actions that the JAX policy takes, for the same reasons, over whole
episodes."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from policy.made import CorridorLike

import maskless
from maskless import runtime
from maskless.envs.gymnasium.observations import arrays
from maskless.envs.staircase import Staircase
from maskless.evaluation.dry_run import with_overrides
from maskless.nets import Encoder, deployable, make_net
from maskless.nets.deployable import Deployable
from maskless.policy import Override, load, policy_of
from maskless.policy.artifact import change_policy
from maskless.runtime import networks

from nets.parameters import random_parameters

STEPS = 24


class Workshop(gymnasium.Env):
    """Shows a dictionary; two of three actions often change nothing but the clock."""

    observation_space = spaces.Dict(
        {
            "where": spaces.Discrete(4),
            "tools": spaces.Dict({"left": spaces.Box(-1, 1, (2, 2)), "time": spaces.Box(0, 99)}),
            "ready": spaces.MultiBinary(3),
            "action_mask": spaces.MultiBinary(3),
        }
    )
    action_space = spaces.Discrete(3)
    action_names = ("stay", "go", "turn")
    clock_fields = ("tools.time",)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._where, self._time = 0, 0
        self._left = self.np_random.normal(size=(2, 2)).clip(-1, 1).astype(np.float32)
        return self._look(), {}

    def step(self, action):
        self._time += 1
        works = bool(self._look()["action_mask"][action])
        if works:
            self._where = (self._where + int(action)) % 4
            self._left = np.roll(self._left, action) * 0.9
        return self._look(), 0.0, False, self._time == STEPS, {}

    def _look(self):
        mask = np.eye(3, dtype=np.int8)[(self._where * 2 + self._time // 4) % 3]
        tools = {"left": self._left, "time": np.float32([self._time / STEPS])}
        ready = np.int8([self._where > 0, self._where > 1, 1])
        return {"where": self._where, "tools": tools, "ready": ready, "action_mask": mask}


gymnasium.register("Workshop-v0", Workshop)


class Flat:
    """As much of Craftax Classic as a policy needs: mostly zeros, and some steps change nothing."""

    id = "flat"
    action_names = tuple(f"action {n}" for n in range(17))
    num_actions, encoder = 17, Encoder()
    observation_shapes = jax.ShapeDtypeStruct((1345,), jnp.float32)


def staircase(seed):
    """Observations of one episode; each is sent the action that was taken."""
    env = Staircase(length=4, spare=STEPS - 8)
    step, (observation, state), done = jax.jit(env.step), env.reset(jax.random.key(seed)), False
    while not done:
        action = yield np.asarray(observation)
        observation, state, _, done, _ = step(jax.random.key(seed), state, int(action))


def workshop(seed):
    env, over = gymnasium.make("Workshop-v0"), False
    observation, _ = env.reset(seed=seed)
    while not over:
        action = yield arrays(env.observation_space, observation)
        observation, _, _, over, _ = env.step(int(action))
    env.close()


def flat(seed):
    dice = np.random.default_rng(seed)
    observation = np.zeros(1345, np.float32)
    for _ in range(STEPS):
        if dice.random() < 0.3:
            # Into the same array, as some environments do.
            observation[:] = (dice.random(1345) < 0.07) * dice.random(1345)
        yield observation


def corridor(seed):
    dice = np.random.default_rng(seed)
    shown = None
    for _ in range(STEPS):
        if shown is None or dice.random() < 0.3:
            shown = {
                "previous_action": np.int32(dice.integers(0, 14)),  # there are ids up to 11
                "glyphs": dice.integers(-1, 40, (9, 9)).astype(np.int8),  # shown are up to 23
                "blstats": dice.integers(-200, 2000, 27).astype(np.int32),
                "message": np.int32(dice.integers(-1, 45)),
            }
        yield shown


RULES = {
    "staircase": (
        Override("descend", "never", when="observation[4] < 0.5"),
        Override("left", "threshold", 0.3),
        Override("right", "always", when="observation[2] > 0.2"),
    ),
    "workshop": (
        Override("go", "never", when="ready[0] == 0"),
        Override("turn", "threshold", 0.2, when="tools.left[0, 1] <= 0.1"),
        Override("stay", "always", when="where[2] != 0"),
    ),
    "flat": (
        Override("action 3", "never"),
        Override("action 4", "always", when="observation[7] > 0"),
        Override("action 5", "threshold", 0.7),
    ),
    "corridor": (
        Override("action 3", "never", when="blstats[10] < 500"),
        Override("action 4", "always", when="glyphs[4,4] >= 12"),
        Override("action 5", "threshold", 0.7, when="message == 7"),
    ),
}
WORLDS = {
    "staircase": (lambda: Staircase(length=4), staircase),
    "workshop": (lambda: maskless.make("gymnasium:Workshop-v0", workers=0), workshop),
    "flat": (Flat, flat),
    "corridor": (CorridorLike, corridor),
}


def make(world, name, kind="plain", width=8, **options):
    """A policy with random weights, thresholds and rules of all effects."""
    env = WORLDS[world][0]()
    net = make_net(name, num_actions=env.num_actions, encoder=env.encoder, width=width)
    if kind == "cloned":
        net = net.clone(cloned=True, uncertain=True)
    if kind == "student":
        net = Deployable.of(net, env.num_actions, width=12)
    zeros = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), env.observation_shapes)
    params = random_parameters(net, net.initial_carry(1), zeros, jnp.ones((1, 1), bool))
    if "comparisons" in params["params"].get("student", {}):
        set_bounds(params["params"]["student"])
    policy = policy_of(net, params, env, clone=kind != "plain", **options)
    return with_overrides(policy, RULES[world])


def set_bounds(student):
    """Some of single numbers, of differences and of sums, and one that leads outside."""
    random, numbers = np.random.default_rng(1), student["normaliser"]["mean"].size
    slots = student["comparisons"]["offset"].shape
    student["comparisons"] |= {
        "first": random.integers(0, numbers, slots).astype(np.float32),
        "second": random.integers(0, 2 * numbers + 3, slots).astype(np.float32),
    }


def check_equal(native, ours):
    """Action and info of both runtimes."""
    (action, info), (action_here, here) = native, ours
    np.testing.assert_array_equal(action_here, action)
    for name in ("mask", "fallback", "excluded", "overridden"):
        np.testing.assert_array_equal(getattr(here, name), getattr(info, name), name)
    np.testing.assert_array_equal(here.changed, info.changed)
    for name in ("validity", "probabilities"):
        np.testing.assert_allclose(getattr(here, name), getattr(info, name), atol=1e-5)


def play(policy, ours, world, **how):
    """An episode by both. How often something was left out, fell back and was overridden."""
    carry, carry_here = policy.initial_carry(), ours.initial_carry()
    episode, counts = WORLDS[world][1](seed=0), np.zeros(3, int)
    observation = next(episode)
    while True:
        # A copy: to JAX, an array that changes later may be no copy at all.
        shown = jax.tree.map(np.copy, observation)
        action, carry, info = policy.act(shown, carry, greedy=True, **how)
        action_here, carry_here, here = ours.act(observation, carry_here, greedy=True, **how)
        check_equal((action, info), (action_here, here))
        counts += [here.excluded.any(), here.fallback, here.overridden.any()]
        try:
            observation = episode.send(action_here)
        except StopIteration:
            return counts


@pytest.mark.parametrize(
    ("world", "name", "kind"),
    [
        ("staircase", "gru", "plain"),
        ("staircase", "mlp", "student"),
        ("workshop", "mlp", "plain"),
        ("workshop", "gru", "cloned"),
        ("flat", "mlp", "cloned"),
        ("flat", "gru", "student"),
        ("corridor", "mlp", "cloned"),
        ("corridor", "gru", "student"),
    ],
)
def test_whole_episodes_are_the_same(world, name, kind):
    policy = make(world, name, kind)
    ours = policy.numpy()
    excluded, _, overridden = play(policy, ours, world)
    assert excluded > 0
    assert overridden > 0
    if kind != "plain":
        play(policy, ours, world, masks="clone")


def test_the_student_has_the_same_numbers():
    for name in ("SHARPNESS", "LARGEST"):
        assert getattr(networks, name) == getattr(deployable, name)


def test_without_the_memory_and_without_masks():
    policy = make("workshop", "gru")
    ours = policy.numpy()
    for how in ({"memory": False}, {"masks": "none"}, {"masks": "none", "memory": True}):
        excluded = play(policy, ours, "workshop", **how)[0]
        assert (excluded > 0) == how.get("memory", False)
    own = np.array([0, 1, 1])
    play(policy, ours, "workshop", masks=own, memory=True)
    play(policy, ours, "workshop", masks=own.astype(bool))


def test_clocks_are_left_out():
    """Without their names a clock hides every failure."""
    policy = make("workshop", "mlp")
    ours = policy.numpy()
    assert ours.clock_fields == ("tools.time",)
    assert play(policy, ours, "workshop")[0] > 0
    ours._clocks = [None] * len(ours.fields)
    episode, carry, excluded = workshop(0), ours.initial_carry(), 0
    observation = next(episode)
    for _ in range(STEPS - 1):
        action, carry, info = ours.act(observation, carry, greedy=True)
        excluded += info.excluded.any()
        observation = episode.send(action)
    assert excluded == 0


@pytest.mark.parametrize("name", ["mlp", "gru"])
def test_batches_resets_and_fallbacks(tmp_path, name):
    """Through a file, with a threshold for each action: many predictions are empty."""
    policy = make("flat", name)
    folder = policy.save(tmp_path / "run" / "policy")
    change_policy(folder, {"thresholds": [0.8, None] + [0.9] * 8 + [0.0, 1.0] + [0.95] * 5})
    never = [rule.to_json() for rule in (Override("action 1", "never"), *RULES["flat"][:1])]
    change_policy(folder, {"overrides": never})
    policy, ours = load(folder), runtime.load(tmp_path / "run")
    dice = np.random.default_rng(0)
    carry, carry_here = policy.initial_carry(5), ours.initial_carry(5)
    fallbacks = 0
    for step in range(12):
        if step % 3 == 0:
            observation = ((dice.random((5, 1345)) < 0.07) * 3.0).astype(np.float64)
        reset = dice.random(5) < 0.3
        how = {"greedy": True, "reset": reset, "memory": None if dice.random() < 0.5 else False}
        action, carry, info = policy.act(observation, carry, **how)
        action_here, carry_here, here = ours.act(observation, carry_here, **how)
        check_equal((action, info), (action_here, here))
        fallbacks += here.fallback.sum()
    assert fallbacks > 5


def test_one_observation_is_a_batch_of_one_and_nothing_is_remembered_without_a_carry():
    ours = make("flat", "gru").numpy()
    observation = next(flat(1))
    one, carry, info = ours.act(observation, greedy=True)
    batch, carry_of_batch, info_of_batch = ours.act(observation[None], greedy=True)
    assert one.shape == info.fallback.shape == ()
    assert one == batch[0]
    np.testing.assert_array_equal(info.probabilities, info_of_batch.probabilities[0])
    np.testing.assert_array_equal(carry.network, carry_of_batch.network)
    again, _, info = ours.act(observation, greedy=True)
    assert again == one
    assert not info.excluded.any()


def test_draws_follow_the_probabilities():
    ours = make("staircase", "mlp").numpy()
    observation = np.repeat(next(staircase(0))[None], 20_000, axis=0)
    actions, _, info = ours.act(observation, rng=3)
    share = np.bincount(actions, minlength=len(ours.action_names)) / 20_000
    np.testing.assert_allclose(share, info.probabilities[0], atol=0.015)
    assert info.mask[0, actions].all()
    np.testing.assert_array_equal(ours.act(observation, None, 3)[0], actions)
    assert (ours.act(observation)[0] != ours.act(observation)[0]).any()  # its own dice go on


def test_extreme_predictions_are_the_same_numbers():
    """Where the sigmoid is 0 or 1, without a warning; at a threshold of 0 all above it is valid."""
    policy = make("staircase", "mlp", threshold=0.0)
    head = policy.artifact.params["params"]["heads"]["validity"]
    far = jnp.linspace(-120.0, 120.0, head["bias"].size)
    head["kernel"], head["bias"] = jnp.zeros_like(head["kernel"]), far
    policy = with_overrides(policy, ())
    observation = next(staircase(0))
    action, _, info = policy.act(observation, greedy=True)
    check_equal((action, info), policy.numpy().act(observation, greedy=True)[::2])
