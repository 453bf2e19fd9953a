"""A policy does not repeat what has just failed; however it is run, it takes the same actions."""

import gymnasium
import jax
import numpy as np
import pytest
from latch import CLONED, FORGETFUL, LIMIT, PARAMS, PREDICTED, Latch, Table
from policy.made import make_policy

from maskless.envs.staircase import Staircase
from maskless.errors import MasklessError
from maskless.evaluation.dry_run import with_overrides
from maskless.policy import Override, load, policy_of
from maskless.policy.acting import Policy
from maskless.policy.export import onnx_runner, stablehlo_runner, to_onnx, to_stablehlo

A, B, C, D = range(4)
NEVER_B_IN_THE_LAST_ROOM = (Override("b", "never", when="observation[3] > 0.5"),)
WITHOUT_B = ([A, B, C, A, B, D] + [C, A, D] * LIMIT)[:LIMIT]
CLONE_WITHOUT_B = ([A, C, B, D] + [A, C, D] * LIMIT)[:LIMIT]


def make(clock_fields=("observation[4]",), **options) -> Policy:
    options = {"clone": True, **options}
    return policy_of(Table(), PARAMS, Latch(clock_fields), **options)


@pytest.fixture(scope="module")
def policy():
    return make()


def play(choose):
    """What `choose(observation)` does in one episode of the world."""
    env = gymnasium.make("latch:Latch-v0")
    observation, _ = env.reset(seed=0)
    over, actions = False, []
    while not over:
        actions.append(choose(observation))
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    env.close()
    return actions


def natively(policy, **how):
    """Acting greedily with the carry that `act` returns."""
    carry = policy.initial_carry()

    def choose(observation):
        nonlocal carry
        action, carry, _ = policy.act(observation, carry, greedy=True, **how)
        return int(action)

    return play(choose)


def by_the_recipe(run, output, clock):
    """Acting greedily with an exported program, as docs/deployment.md says."""
    excluded, before, action = np.zeros((1, 4), bool), None, None

    def choose(observation):
        nonlocal before, action
        seen = np.delete(observation, clock)
        if before is not None:
            changed = (seen != before).any()
            if changed or excluded[0, action]:
                excluded[:] = False
            if not changed:
                excluded[0, action] = True
        before = seen
        inputs = {"observation": observation[None], "excluded": excluded}
        action = int(run(inputs | {"allowed": np.ones((1, 4), bool)})[output].argmax())
        return action

    return play(choose)


def test_what_failed_is_left_out_until_the_observation_changes(policy):
    assert natively(policy) == PREDICTED
    assert natively(policy, masks="clone") == CLONED
    assert natively(policy, memory=False) == FORGETFUL
    assert natively(policy, masks="none") == FORGETFUL
    # By its preference alone: b and c; a, b, c and d; then b, c, d, a and again b.
    everything = [A, B, C, A, B, C, D, B, C, D, A, B]
    assert natively(policy, masks="none", memory=True) == everything


def test_a_clock_that_nobody_has_named_hides_what_has_failed():
    assert natively(make(clock_fields=())) == FORGETFUL


def test_never_holds_and_all_others_begin_again(policy):
    strict = with_overrides(policy, NEVER_B_IN_THE_LAST_ROOM)
    assert natively(strict) == WITHOUT_B
    assert natively(strict, masks="clone") == CLONE_WITHOUT_B


@pytest.mark.parametrize(
    ("rules", "predicted", "cloned"),
    [((), PREDICTED, CLONED), (NEVER_B_IN_THE_LAST_ROOM, WITHOUT_B, CLONE_WITHOUT_B)],
)
def test_programs_take_the_same_actions_over_whole_episodes(policy, rules, predicted, cloned):
    ruled = with_overrides(policy, rules)
    runs = [stablehlo_runner(ruled, to_stablehlo(ruled))]
    if rules:  # the exporter takes its time
        pytest.importorskip("jax2onnx")
        pytest.importorskip("onnxruntime")
        runs.append(onnx_runner(to_onnx(ruled)))
    for run in runs:
        assert by_the_recipe(run, "log_probs", clock=4) == predicted
        assert by_the_recipe(run, "clone_log_probs", clock=4) == cloned


def test_a_program_plays_the_staircase_as_act_does(tmp_path):
    """A recurrent network with random weights, its memory and that of failures together."""
    env = Staircase(length=4)
    policy = load(make_policy(tmp_path / "policy", "gru", env=env, width=8))
    run = stablehlo_runner(policy, to_stablehlo(policy))
    observation, state = env.reset(jax.random.key(0))
    carry, zeros = policy.initial_carry(), {"reset": np.zeros(1, bool)}
    zeros["carry"] = np.zeros((1, 8), np.float32)
    excluded, step, failed = np.zeros((1, env.num_actions), bool), jax.jit(env.step), 0
    for time in range(40):
        native, carry, _ = policy.act(observation, carry, greedy=True)
        inputs = {"observation": np.asarray(observation)[None], "excluded": excluded}
        out = run(inputs | {"allowed": np.ones_like(excluded)} | zeros)
        zeros["carry"] = out["next_carry"]
        action = int(out["log_probs"].argmax())
        assert action == int(native)
        key = jax.random.fold_in(jax.random.key(1), time)
        before, (observation, state, _, done, _) = observation, step(key, state, action)
        if done:
            break
        changed = bool((before != observation).any())
        failed += not changed
        if changed or excluded[0, action]:
            excluded[:] = False
        if not changed:
            excluded[0, action] = True
    assert failed >= 2


def test_a_program_chooses_among_what_is_allowed(policy):
    run = stablehlo_runner(policy, to_stablehlo(policy))
    room = np.eye(5, dtype=np.float32)[[1, 1, 1]]
    allowed = np.array([[1, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]], bool)
    outputs = run({"observation": room, "allowed": allowed, "excluded": np.zeros((3, 4), bool)})
    # Predicted are b and c; of a and d, a is the first of two alike; where nothing is allowed, that
    # is ignored, and b has the highest validity.
    np.testing.assert_array_equal(
        outputs["mask"], np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]], bool)
    )
    np.testing.assert_array_equal(outputs["logits"], np.tile([0, 3, 2, 1], (3, 1)))


def test_a_new_episode_forgets(policy):
    room = np.eye(5, dtype=np.float32)[[1, 1]]
    _, carry, info = policy.act(room, policy.initial_carry(2), greedy=True)
    assert not info.excluded.any()
    action, carry, info = policy.act(room, carry, greedy=True, reset=np.array([False, True]))
    np.testing.assert_array_equal(info.excluded, [[0, 1, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(action, [C, B])
    # Not applied, but remembered.
    action, carry, info = policy.act(room, carry, greedy=True, masks="none")
    np.testing.assert_array_equal(action, [B, B])
    assert not info.excluded.any()
    _, _, info = policy.act(room, carry, greedy=True)
    np.testing.assert_array_equal(info.excluded, [[0, 1, 1, 0], [0, 1, 0, 0]])
    _, _, info = policy.act(room, None, greedy=True)
    assert not info.excluded.any()


def test_the_clock_and_the_memory_survive_a_file(tmp_path, policy):
    loaded = load(policy.save(tmp_path / "policy"), net=Table())
    assert loaded.clock_fields == ("observation[4]",)
    assert natively(loaded) == PREDICTED
    with pytest.raises(MasklessError, match="Unknown observation field 'time'"):
        make(clock_fields=("time",))
    with pytest.raises(MasklessError, match=r"within the shape \[5\]"):
        make(clock_fields=("observation[5]",))


def test_without_a_classifier_nothing_is_predicted(policy):
    blind = make(classifier=False, clone=False)
    observation = np.eye(5, dtype=np.float32)[0]
    for masks in (None, "predicted"):
        with pytest.raises(MasklessError, match=r"masks='none'.*maskless finish"):
            blind.act(observation, greedy=True, masks=masks)
    assert blind.act(observation, greedy=True, masks=np.array([0, 0, 1, 1]))[0] == C
    assert natively(make(classifier=False)) == CLONED
    run = stablehlo_runner(blind, to_stablehlo(blind))
    inputs = {"observation": observation[None], "allowed": np.ones((1, 4), bool)}
    outputs = run(inputs | {"excluded": np.array([[0, 1, 0, 0]], bool)})
    np.testing.assert_array_equal(outputs["mask"], [[1, 0, 1, 1]])
    assert "clone_log_probs" not in outputs


def test_an_integer_is_a_key(policy):
    observation = np.eye(5, dtype=np.float32)[[0] * 8]
    numbered = policy.act(observation, None, 3, masks="none")[0]
    np.testing.assert_array_equal(
        numbered, policy.act(observation, None, jax.random.key(3), masks="none")[0]
    )
