import dataclasses
import itertools
import multiprocessing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskless
from maskless import MasklessError
from maskless.config import Config
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.evaluation.episodes import mask_source
from maskless.evaluation.player import play_runs
from maskless.evaluation.runs import EvaluatedRun, Runs, check_fit
from maskless.evaluation.summary import evaluate_runs
from maskless.hyperparameters import Hyperparameters
from maskless.nets import Heads, Network, apply, make_net
from maskless.policy.observations import fields_of
from maskless.training import checkpoints
from maskless.training.gymnasium_program import GymnasiumProgram
from maskless.training.log import read_metrics
from maskless.training.program import Program, of_run
from maskless.training.request import make_request, request_again
from maskless.training.session import make_program

from host_toys import Steps, mask_from_observation

STEPS = "gymnasium:host_toys:Steps-v0"
PPO = Hyperparameters(num_envs=4, rollout=8, minibatches=2, epochs=1, bootstrap_truncated=True)


def configuration(**changes):
    config = Config(
        env=STEPS,
        env_options={"workers": 0},
        net="gru",
        width=8,
        conditions=("masked-loop", "unmasked"),
        seeds=1,
        frames=96,
        ppo=PPO,
    )
    return dataclasses.replace(config, **changes)


def runs_of(env, net, params, threshold=0.5):
    """One policy, as evaluation takes it."""
    run = EvaluatedRun(
        folder=None,
        name="policy",
        seed=0,
        update=None,
        params=params,
        thresholds=(threshold,) * env.num_actions,
        has_classifier=True,
    )
    return Runs(None, env, net, [run], env.id)


def play(env, net, params, masks, *, envs, per_env=1, threshold=0.5, **how):
    """The record of complete episodes under one kind of masks. [envs, episodes]"""
    sources = [mask_source(masks, env.num_actions)]
    runs = runs_of(env, net, params, threshold)
    return of_run(of_run(play_runs(runs, sources, envs=envs, per_env=per_env, **how), 0), 0)


def random_params(net, observation):
    """Some parameters, without the time it takes to compile good ones."""
    reset, random = jnp.ones((1, 1), bool), np.random.default_rng(0)
    shapes = jax.eval_shape(net.init, jax.random.key(0), net.initial_carry(1), observation, reset)
    return jax.tree.map(lambda x: 0.1 * random.standard_normal(x.shape, np.float32), shapes)


@pytest.fixture(scope="module")
def program():
    program = GymnasiumProgram(request_again(configuration()))
    yield program
    program.close()


@pytest.fixture(scope="module")
def trained(program):
    """Two updates: the states before, between and after them, and the metrics."""
    start = program.start()
    middle, first = program.advance(start, 1)
    end, second = program.advance(middle, 1)
    return start, middle, end, {name: np.concatenate([first[name], second[name]]) for name in first}


def test_runs_train_side_by_side_and_their_states_are_plain_arrays(program, trained):
    start, _, end, metrics = trained
    assert metrics["policy_loss"].shape == (2, 2)
    assert np.isfinite(metrics["policy_loss"]).all()
    assert metrics["valid_share"].shape == (2, 2, 3)
    assert (np.asarray(end.update) == 2).all()
    assert np.isfinite(metrics["return"]).all()
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), program.like())
    for states in (start, end):
        assert jax.tree.map(lambda x: (x.shape, x.dtype), of_run(states, 0)) == shapes


def test_the_same_seeds_train_the_same_and_resumed_runs_meet_new_episodes(program, trained):
    start, middle, end, metrics = trained
    program.close()
    again, numbers = program.advance(start, 2)
    jax.tree.map(np.testing.assert_array_equal, numbers, metrics)
    jax.tree.map(np.testing.assert_array_equal, again.params, end.params)
    program.close()
    resumed, _ = program.advance(middle, 1)
    assert (np.asarray(resumed.update) == 2).all()
    seen = [np.asarray(state.actor.now.observation) for state in (end, resumed)]
    assert (seen[0] != seen[1]).any()


def test_a_rollout_is_what_the_network_did_under_the_masks(program, trained):
    """Everything the learner gets, computed again from whole sequences."""
    _, _, end, _ = trained
    net = program.learner.net
    _, rollout = program._collect(end, jax.random.split(jax.random.key(5), 2))
    np.testing.assert_array_equal(rollout.valid, mask_from_observation(rollout.observation))
    np.testing.assert_array_equal(rollout.reset[1:], rollout.done[:-1])
    for run in range(2):
        mine = jax.tree.map(lambda x, run=run: x[:, run], rollout)
        sequence = jax.tree.map(jnp.asarray, (mine.observation, mine.reset))
        params, carry = of_run((end.params, end.actor.carry), run)
        _, heads = apply(net, params, carry, *sequence)
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), heads, mine.heads
        )
        expected = mine.valid.copy() if run == 0 else np.ones_like(mine.valid)
        if run == 0:  # a quarter of the environments act under the predicted mask
            expected[:, 0] = mine.heads.validity[:, 0] > 0
        expected |= ~expected.any(-1, keepdims=True)  # a mask that allows nothing is not applied
        np.testing.assert_array_equal(mine.applied, expected)
        logits = np.where(mine.applied, mine.heads.logits, -np.inf)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        chosen = np.take_along_axis(log_probs, mine.action[..., None], -1)[..., 0]
        np.testing.assert_allclose(mine.log_prob, chosen, rtol=1e-4, atol=1e-5)
        # The reward is the action's number; where time ran out, what would have come is added.
        more = mine.reward - mine.action
        assert (more[~mine.done] == 0).all()
        assert (more != 0).any()


def test_masks_are_asked_of_those_conditions_only_that_need_them():
    options = {"workers": 0, "masks": "none"}
    for name in ("masked", "unmasked-kl"):
        with pytest.raises(MasklessError, match=f"no action masks, which '{name}' learns from"):
            request_again(configuration(env_options=options, conditions=(name,)))
    request_again(configuration(env_options=options, conditions=("unmasked",)))


def test_the_environment_decides_which_program_trains_in_it():
    assert type(make_program(request_again(configuration()))) is GymnasiumProgram
    assert type(make_program(make_request("staircase", "masked"))) is Program


def test_train_and_resume_as_everywhere(tmp_path):
    config = configuration(
        conditions=("masked",), net="mlp", env_options={"workers": 1}, diagnostics=False
    )
    folder, said = tmp_path / "run", []
    training = maskless.train(config, folder=folder)
    assert training.complete
    assert training.metrics["policy_loss"].shape == (1, 3)
    assert multiprocessing.active_children() == []
    log = (folder / "masked" / "seed-0" / "metrics.jsonl").read_text()
    assert len(log.splitlines()) == 3
    assert (folder / "masked" / "seed-0" / "policy" / "weights.safetensors").exists()
    assert maskless.train(folder=folder, resume=True, trust=True, warn=said.append).complete
    assert any("go on with new episodes" in sentence for sentence in said)
    assert log == (folder / "masked" / "seed-0" / "metrics.jsonl").read_text()


def test_what_was_trained_before_an_environment_failed_is_saved(tmp_path):
    steps = itertools.count()

    class Fragile(Steps):
        def step(self, action):
            if next(steps) == 2 * PPO.num_envs * PPO.rollout:
                raise ValueError("worn out")
            return super().step(action)

    env = HostEnvironment.of(Fragile, workers=0)
    how = {"net": "mlp", "width": 8, "frames": 96, "ppo": PPO, "diagnostics": False, "show": False}
    with pytest.raises(MasklessError, match="worn out"):
        maskless.train(env, "masked", folder=tmp_path / "run", **how)
    run = tmp_path / "run" / "masked" / "seed-0"
    assert [row["update"] for row in read_metrics(run)] == [1, 2]
    assert checkpoints.updates(run / "checkpoints") == [2]  # and not only every five minutes


class PerfectNet(Network):
    """Knows the masks of `Steps`, and prefers the actions in the order of the environment's
    number. No parameters."""

    def initial_carry(self, batch):
        return jnp.zeros((batch, 0))

    def __call__(self, carry, obs, reset):
        odd = obs[..., 0] % 2 == 1
        valid = jnp.stack([jnp.ones_like(odd), odd, ~odd], -1)
        logits = jnp.stack([jnp.zeros_like(obs[..., 0]), 0.3 * obs[..., 1], obs[..., 0]], -1)
        zeros = jnp.zeros_like(obs[..., 0])
        validity = jnp.where(valid, 5.0, -5.0)
        return carry, Heads(logits, zeros, validity, logits, logits, zeros)


def test_evaluation_plays_the_very_episodes_that_the_seed_decides():
    env, net = maskless.make(STEPS, workers=0), PerfectNet(num_actions=3)
    record = play(env, net, {}, "oracle", envs=3, per_env=4, seed=9, greedy=True)
    game = env.play()
    for slot in range(3):
        dice = np.random.default_rng([9, slot])
        for episode in range(4):
            seen, rewards, solved = game.reset(int(dice.integers(2**31))), [], False
            while seen is not None:
                (number, clock), mask = seen
                logits = np.where(mask, [0.0, 0.3 * clock, number], -np.inf)
                seen, _, reward, terminated, _ = game.step(int(logits.argmax()))
                rewards.append(reward)
                solved = terminated and reward > 0
            assert record.returns[slot, episode] == sum(rewards)
            assert record.lengths[slot, episode] == len(rewards)
            assert record.solved[slot, episode] == solved


def test_with_perfect_predictions_the_oracle_is_not_missed():
    env, net = maskless.make(STEPS, workers=0), PerfectNet(num_actions=3)
    kinds = ("oracle", "predicted", "none")
    oracle, predicted, none = (play(env, net, {}, masks, envs=8, per_env=3) for masks in kinds)
    jax.tree.map(np.testing.assert_array_equal, oracle, predicted)
    for field in ("invalid", "changed", "wrong", "fallbacks"):
        assert (getattr(oracle, field) == 0).all()
    assert (oracle.finished == 1).all()
    assert none.invalid.sum() > 0
    assert (none.invalid <= none.changed).all()
    # Nothing can be predicted valid above a probability of 1: then there is no mask.
    nothing = play(env, net, {}, "predicted-forgetful", envs=8, per_env=3, threshold=1.0)
    np.testing.assert_array_equal(nothing.returns, none.returns)
    np.testing.assert_array_equal(nothing.fallbacks, nothing.lengths)


def test_without_an_oracle_nobody_knows_what_is_invalid():
    env, net = maskless.make(STEPS, workers=0, masks="none"), PerfectNet(num_actions=3)
    with pytest.raises(MasklessError, match="there is no oracle"):
        evaluate_runs(runs_of(env, net, {}), masks=("oracle",))
    record = play(env, net, {}, "predicted", envs=2)
    for field in ("invalid", "changed", "wrong"):
        assert np.isnan(getattr(record, field)).all()


def test_a_policy_for_other_actions_or_observations_is_refused():
    env = maskless.make(STEPS, workers=0)
    check_fit(env.action_names, fields_of(env), env)
    with pytest.raises(MasklessError, match="has other actions"):
        check_fit((*env.action_names, "fly"), fields_of(env), env)
    with pytest.raises(MasklessError, match="has other observations"):
        check_fit(env.action_names, fields_of(maskless.make("staircase")), env)


def test_a_policy_made_for_our_corridors_acts_in_the_real_game():
    pytest.importorskip("minihack")
    # tests/envs/test_host.py: the shapes and names are those of minihack-corridor-r3.
    real = maskless.make("gymnasium:MiniHack-Corridor-R3-v0", workers=0, max_episode_steps=20)
    net = make_net("mlp", num_actions=real.num_actions, encoder=real.encoder, width=8)
    zeros = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), real.observation_shapes)
    params = random_params(net, zeros)
    records = [play(real, net, params, masks, envs=2) for masks in ("predicted", "none")]
    for record in records:
        assert (record.lengths == 20).all()
        assert ((record.returns <= 0) & (record.returns >= -0.2001)).all()
    assert records[0].returns.shape == (2, 1)


TAXI = Hyperparameters(
    num_envs=128,
    rollout=32,
    minibatches=4,
    epochs=4,
    learning_rate=3e-3,
    discount=0.97,
    gae_lambda=0.95,
    entropy=0.02,
    bootstrap_truncated=True,
)


@pytest.mark.slow
def test_taxi_is_solved_with_its_own_masks(long_play):
    """The optimum is about 7.9; without having learned, an episode returns about -140."""
    name = "gymnasium:Taxi-v3"
    config = Config(env=name, width=64, frames=200_000, ppo=TAXI, diagnostics=False)
    env = maskless.make(name, workers=0)  # its step is cheaper than a message to a worker
    program = GymnasiumProgram(request_again(config, env=env))
    states = program.start()
    states, _ = program.advance(states, config.updates)
    program.close()
    record = play(env, program.learner.net, of_run(states.params, 0), "oracle", envs=64, per_env=8)
    assert record.invalid.sum() == 0
    assert record.returns.mean() >= 7.0
