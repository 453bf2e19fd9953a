"""Acting with a loaded policy: the same numbers as the network, and masks that do what they say."""

import dataclasses
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy.made import CorridorLike, make_policy, tower_observations

from maskless.envs.staircase import Staircase
from maskless.errors import MasklessError
from maskless.failures import Memory
from maskless.policy.acting import ActingCarry, Policy, load
from maskless.policy.artifact import change_policy

KEY = jax.random.key(3)
OTHER_CARRY = ActingCarry(
    jnp.zeros((3, 16)), Memory.start({"observation": jnp.zeros((3, 3), jnp.int32)}, 3, 5)
)


@pytest.fixture(scope="module")
def gru(tmp_path_factory):
    return load(make_policy(tmp_path_factory.mktemp("gru") / "policy", "gru"))


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    return load(make_policy(tmp_path_factory.mktemp("mlp") / "policy", "mlp"))


def softmax_over(logits, mask):
    """Independent of maskless.masking, in float64."""
    weights = np.where(mask, np.exp(np.float64(logits)), 0.0)
    return weights / weights.sum(-1, keepdims=True)


def heads_of(policy, sequence, resets):
    """The network applied to a whole sequence [time, batch, ...] at once."""
    carry = policy.net.initial_carry(sequence.shape[1])
    return policy.net.apply(policy.params, carry, (jnp.asarray(sequence),), jnp.asarray(resets))[1]


def test_steps_are_those_of_the_network_on_the_whole_sequence(gru):
    policy = gru
    sequence = tower_observations(6 * 4).reshape(6, 4, 3)
    resets = np.random.default_rng(0).random((6, 4)) < 0.3
    heads = heads_of(policy, sequence, resets)
    carry = policy.initial_carry(4)
    for step in range(6):
        action, carry, info = policy.act(
            sequence[step], carry, jax.random.fold_in(KEY, step), reset=resets[step]
        )
        validity = 1.0 / (1.0 + np.exp(-np.float64(heads.validity[step])))
        mask = validity > 0.5
        mask |= ~mask.any(-1, keepdims=True)
        np.testing.assert_allclose(info.validity, validity, atol=1e-5)
        np.testing.assert_array_equal(info.mask, mask)
        np.testing.assert_allclose(
            info.probabilities, softmax_over(heads.logits[step], mask), atol=1e-5
        )
        assert np.take_along_axis(np.asarray(info.mask), np.asarray(action)[:, None], -1).all()


def test_one_observation_is_a_batch_of_one(gru):
    policy = gru
    observations = tower_observations(1)
    first, carry, info = policy.act(observations[0], None, KEY)
    batch, batch_carry, batch_info = policy.act(observations, policy.initial_carry(1), KEY)
    assert [x.shape for x in (first, info.mask, info.fallback)] == [(), (5,), ()]
    assert first == batch[0]
    np.testing.assert_array_equal(info.probabilities, batch_info.probabilities[0])
    jax.tree.map(np.testing.assert_array_equal, carry, batch_carry)


def test_masks_none_given_and_predicted(mlp):
    policy, before = mlp, mlp.counts
    observations = tower_observations(64)
    heads = heads_of(policy, observations[None], jnp.zeros((1, 64), bool))
    logits = heads.logits[0]
    _, _, info = policy.act(observations, None, KEY, masks="none")
    np.testing.assert_allclose(info.probabilities, softmax_over(logits, True), atol=1e-5)
    mine = np.random.default_rng(0).random((64, 5)) < 0.4
    mine[:, 2] = True
    action, _, info = policy.act(observations, None, KEY, mine)
    np.testing.assert_allclose(info.probabilities, softmax_over(logits, mine), atol=1e-5)
    np.testing.assert_array_equal(info.mask, mine)
    greedy, _, _ = policy.act(observations, None, None, mine, greedy=True)
    np.testing.assert_array_equal(greedy, np.where(mine, logits, -np.inf).argmax(-1))
    assert mine[np.arange(64), action].all()
    assert policy.counts == {"actions": before["actions"] + 192, "fallbacks": before["fallbacks"]}


def test_draws_follow_the_probabilities(mlp):
    policy = mlp
    observation = np.repeat(np.asarray(tower_observations(1)), 20_000, axis=0)
    actions, _, info = policy.act(observation, None, KEY)
    share = np.bincount(actions, minlength=5) / 20_000
    np.testing.assert_allclose(share, info.probabilities[0], atol=0.015)


def test_an_empty_prediction_falls_back_but_not_to_what_is_forbidden(tmp_path):
    folder = make_policy(tmp_path / "policy", threshold=1.0)
    policy = load(folder)
    observations = tower_observations(8)
    _, _, info = policy.act(observations, None, KEY, memory=False)
    assert info.fallback.all()
    assert info.mask.all()
    never = {"action": "jump", "effect": "never", "threshold": None, "when": None}
    change_policy(folder, {"overrides": [never]})
    policy = load(folder)
    _, _, info = policy.act(observations, None, KEY, memory=False)
    assert info.fallback.all()
    np.testing.assert_array_equal(info.mask, np.tile([1, 1, 0, 1, 1], (8, 1)))
    # The rule found the action masked already, so it changed nothing.
    assert list(policy.counts.values()) == [8, 8, 0]


def test_a_threshold_of_none_always_allows(tmp_path):
    folder = make_policy(tmp_path / "policy")
    change_policy(folder, {"thresholds": [None, 1.0, 1.0, 1.0, 1.0]})
    _, _, info = load(folder).act(tower_observations(8), None, KEY)
    np.testing.assert_array_equal(info.mask, np.tile([1, 0, 0, 0, 0], (8, 1)))


def test_corridor_observations_come_as_class_or_mapping(tmp_path):
    env = CorridorLike()
    policy = load(make_policy(tmp_path / "policy", "mlp", env))
    one, _ = env.reset(KEY)
    _, _, info = policy.act(one, None, KEY)
    fields = {name: np.asarray(getattr(one, name)) for name in one.__dataclass_fields__}
    _, _, same = policy.act(fields, None, KEY)
    np.testing.assert_array_equal(info.probabilities, same.probabilities)
    with pytest.raises(MasklessError, match="missing: glyphs"):
        policy.act({name: x for name, x in fields.items() if name != "glyphs"}, None, KEY)
    with pytest.raises(MasklessError, match="do not fit into int8"):
        policy.act(fields | {"glyphs": np.full((9, 9), 200)}, None, KEY)
    with pytest.raises(MasklessError, match="must hold int32, not float32"):
        policy.act(fields | {"blstats": np.zeros(27, np.float32)}, None, KEY)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"obs": np.zeros((2, 4), np.int32)}, r"must have the shape \[3\]"),
        ({"obs": np.zeros((0, 3), np.int32)}, "is empty"),
        ({"obs": np.zeros((2, 3), np.float32)}, "must hold int32"),
        ({"obs": {"a": np.zeros(3), "b": np.zeros(3)}}, "unknown: a, b"),
        ({"key": None}, "needs a key"),
        ({"masks": "oracle"}, "Unknown kind of masks"),
        ({"masks": np.ones((2, 5))}, "must be of bool"),
        ({"masks": np.ones((3, 5), bool)}, "must be of bool"),
        ({"masks": np.zeros((2, 5), bool)}, "allows no action"),
        ({"masks": np.full((2, 5), 2)}, "yours holds 2 to 2"),
        ({"masks": "clone"}, "no cloned head"),
        ({"carry": OTHER_CARRY}, r"start with policy.initial_carry\(2\)"),
        ({"reset": np.zeros(3, bool)}, r"reset must be bool\[2\]"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(gru, change, sentence):
    right = {"obs": tower_observations(2), "carry": None, "key": KEY, "masks": "predicted"}
    with pytest.raises(MasklessError, match=sentence):
        gru.act(**right | change)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_no_action_comes_from_numbers_that_are_none(tmp_path, number):
    policy = load(make_policy(tmp_path / "policy", env=Staircase()))
    (field,) = policy.fields
    for observation in (np.zeros(field.shape, field.dtype), np.zeros((2, *field.shape))):
        observation.flat[-1] = number
        for given in (observation, jnp.asarray(observation)):
            with pytest.raises(MasklessError, match="'observation' has numbers that are NaN"):
                policy.act(given, key=KEY)


def test_act_works_inside_jit_and_scan(gru):
    policy = gru
    sequence = tower_observations(12).reshape(4, 3, 3)
    before = policy.counts["actions"]

    def step(carry, obs):
        action, carry, _ = policy.act(obs, carry, KEY)
        return carry, action

    _, actions = jax.jit(lambda s: jax.lax.scan(step, policy.initial_carry(3), s))(sequence)
    carry = None
    for obs, expected in zip(sequence, actions, strict=True):
        action, carry, _ = policy.act(obs, carry, KEY)
        np.testing.assert_array_equal(action, expected)
    assert policy.counts["actions"] == before + 12


FRESH = """
import sys
import jax, numpy as np
{load}
for path in sys.argv[1:]:
    policy = load(path)
    observation = {{f.name: np.zeros((2, *f.shape), f.dtype) for f in policy.fields}}
    action, carry, info = policy.act(observation, None, jax.random.key(0))
    print(type(policy.net.encoder).__name__, action.shape, info.mask.shape[1])
library = "envs ppo training evaluation config conditions report cli diagnostics losses".split()
others = ["minihax", "optax", "craftax", "gymnasium"]
forbidden = tuple(others + [f"maskless.{{name}}" for name in library])
print([name for name in sys.modules if name.startswith(forbidden)])
"""


@pytest.mark.parametrize("package", ["maskless", "maskless.policy"])
def test_a_policy_needs_no_trainer_environment_or_game(tmp_path, package):
    """In a fresh process, for observations that are flat and that are glyphs."""
    flat = make_policy(tmp_path / "flat", "gru")
    glyphs = make_policy(tmp_path / "glyphs", "gru", CorridorLike())
    code = FRESH.format(load=f"from {package} import load")
    command = [sys.executable, "-c", code, str(flat), str(glyphs)]
    run = subprocess.run(command, capture_output=True, text=True)
    expected = ["Encoder (2,) 5", "GlyphEncoder (2,) 11", "[]"]
    assert run.stdout.splitlines() == expected, run.stderr


def test_eight_threads_act_as_one(mlp):
    observations = tower_observations(400)
    keys = list(jax.random.split(KEY, 400))

    def act(number):
        return int(mlp.act(observations[number], key=keys[number])[0])

    alone = [act(number) for number in range(400)]
    before = mlp.counts["actions"]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(act, range(400)))
    finally:
        sys.setswitchinterval(interval)
    assert together == alone
    assert mlp.counts["actions"] - before == 400


def test_a_policy_can_be_pickled(mlp):
    copy = pickle.loads(pickle.dumps(mlp))
    observations = tower_observations(8)
    ours, theirs = (policy.act(observations, key=KEY)[2] for policy in (mlp, copy))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert copy.counts["actions"] == 8


def test_a_network_that_cannot_be_pickled_is_a_sentence(mlp):
    class Local(type(mlp.net)):
        pass

    net = Local(**{f.name: getattr(mlp.net, f.name) for f in dataclasses.fields(mlp.net) if f.init})
    policy = Policy(dataclasses.replace(mlp.artifact, net=net))
    with pytest.raises(MasklessError, match=r"cannot be pickled .* or save the policy"):
        pickle.dumps(policy)


def test_other_processes_get_a_policy_or_a_sentence(tmp_path):
    folder = make_policy(tmp_path / "policy", "mlp")
    script = Path(__file__).with_name("processes.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, folder],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "as said\n", done.stderr
