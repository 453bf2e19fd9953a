"""Values and gradients against references that share nothing with them: simulation, JAX, loops."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import MasklessError
from maskless.envs.staircase import DESCEND, Staircase, StaircaseState
from maskless_paper.theory import (
    Training,
    aligned_features,
    ascend,
    complex_step_gradient,
    entropy,
    evaluate,
    follow,
    gradient,
    log_policy,
    objective,
    policy_at,
    random_problems,
    staircase_mdp,
    staircase_problem,
    with_bias,
)


def problem_and_theta(count=3, **options):
    rng = np.random.default_rng(5)
    problem = random_problems(rng, count, **options)
    return problem, rng.normal(size=problem.zeros().shape)


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_equal_autodiff_of_another_implementation(masked):
    problem, theta = problem_and_theta(1)
    problem = dataclasses.replace(
        problem, mdp=dataclasses.replace(problem.mdp, discount=np.array([0.9]))
    )
    with jax.enable_x64(True):

        def by_scan(theta):
            mdp, features = problem.mdp, problem.features[0]
            logits = features @ theta.T
            logits = jnp.where(mdp.valid[0], logits, -1e9) if masked else logits
            log_pi = jax.nn.log_softmax(logits)
            pi = jnp.exp(log_pi)
            rewards = (pi * (mdp.reward[0] - 0.1 * log_pi)).sum(-1)

            def step(carry, _):
                states, weight = carry
                onward = jnp.einsum("s,sa,sat->t", states, pi, mdp.transition[0])
                return (onward, 0.9 * weight), weight * states @ rewards

            start = (jnp.asarray(mdp.start[0]), jnp.asarray(0.1))
            return jax.lax.scan(step, start, length=600)[1].sum()

        value, slope = jax.value_and_grad(by_scan)(jnp.asarray(theta[0]))
    options = {"beta": 0.1, "masked": masked}
    np.testing.assert_allclose(objective(problem, theta, **options)[0], value, atol=1e-13)
    full = gradient(problem, theta, kind="full", **options)
    np.testing.assert_allclose(full[0], slope, atol=1e-13)
    np.testing.assert_allclose(
        complex_step_gradient(problem, theta, **options)[0], slope, atol=1e-13
    )


def test_the_per_state_bonus_equals_finite_differences_with_the_visitation_held():
    problem, theta = problem_and_theta()
    visitation = evaluate(problem.mdp, policy_at(problem, theta)).visitation

    def bonus(theta):
        return (visitation * entropy(policy_at(problem, theta))).sum(-1)

    slope = np.zeros_like(theta)
    for index in np.ndindex(theta.shape[1:]):
        move = np.zeros_like(theta)
        move[(slice(None), *index)] = 1e-5
        slope[(slice(None), *index)] = (bonus(theta + move) - bonus(theta - move)) / 2e-5
    difference = gradient(problem, theta, beta=0.7) - gradient(problem, theta)
    np.testing.assert_allclose(difference, 0.7 * slope, atol=1e-9)


def test_values_and_visitation_equal_sums_over_time():
    problem, theta = problem_and_theta()
    log_pi = policy_at(problem, theta)
    result = evaluate(problem.mdp, log_pi)
    for number, discount in enumerate(problem.mdp.discount):
        pi = np.exp(log_pi[number])
        moves = np.einsum("sa,sat->st", pi, problem.mdp.transition[number])
        rewards = (pi * problem.mdp.reward[number]).sum(-1)
        values, visitation = np.zeros(5), np.zeros(5)
        reached, states = np.eye(5), problem.mdp.start[number]
        for time in range(1500):
            values += discount**time * reached @ rewards
            visitation += (1 - discount) * discount**time * states
            reached, states = reached @ moves, states @ moves
        np.testing.assert_allclose(result.values[number], values, rtol=1e-12)
        np.testing.assert_allclose(result.visitation[number], visitation, rtol=1e-12)
    average = (np.exp(log_pi) * result.advantages).sum(-1)
    np.testing.assert_allclose(average, 0.0, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"optimizer": "adam"}, {"masked": True, "beta": 0.05}])
def test_training_improves_the_objective(options):
    problem, _ = problem_and_theta(20)
    training = Training(100, rate=0.05, entropy="full", **options)
    *_, last = ascend(problem, training)
    kinds = {"beta": options.get("beta", 0.0), "masked": options.get("masked", False)}
    before = objective(problem, problem.zeros(), **kinds)
    assert (objective(problem, last.theta, **kinds) > before).all()


def test_sampled_updates_are_right_on_average():
    problem, _ = problem_and_theta(1)
    many = dataclasses.replace(problem, features=np.tile(problem.features, (4000, 1, 1)))
    training = Training(1, beta=0.3)
    (exact,) = ascend(problem, training)
    (sampled,) = ascend(many, dataclasses.replace(training, samples=8), np.random.default_rng(0))
    error = sampled.change.std(0) / np.sqrt(4000)
    assert (np.abs(sampled.change.mean(0) - exact.change[0]) < 5 * error + 1e-12).all()
    with pytest.raises(MasklessError, match="rng"):
        list(ascend(problem, Training(1, samples=8)))


def test_the_table_is_the_environment():
    env = Staircase(length=5, alignment=0.3, progress=0.1, goal=5.0)
    mdp = staircase_mdp(5, progress=0.1, goal=5.0, ladder=True)
    seen = aligned_features(6, np.asarray(0.3))
    step = jax.jit(env.step)
    for cell in range(6):
        state = StaircaseState(jnp.int32(cell), jnp.bool_(False), jnp.int32(0))
        np.testing.assert_array_equal(mdp.valid[cell], env.validity(state))
        np.testing.assert_allclose(seen[cell], env.observe(state), atol=1e-7)
        for action in range(env.num_actions):
            _, after, reward, done, _ = step(jax.random.key(0), state, action)
            expected = np.zeros(6) if done else np.eye(6)[int(after.cell)]
            np.testing.assert_array_equal(mdp.transition[cell, action], expected)
            np.testing.assert_allclose(mdp.reward[cell, action], reward, atol=1e-6)
    corridor = staircase_mdp(5, progress=0.1, goal=5.0)  # ends at the ladder
    np.testing.assert_array_equal(corridor.transition, mdp.transition[:5, :, :5])
    np.testing.assert_array_equal(corridor.reward, mdp.reward[:5])


def test_features_have_the_alignment_asked_for():
    for rho in (0.0, 0.3, 1.0):
        seen = aligned_features(4, np.asarray(rho))
        np.testing.assert_allclose(seen @ seen.T, rho + (1 - rho) * np.eye(4), atol=1e-15)
        biased = with_bias(seen)
        np.testing.assert_allclose(biased @ biased.T, seen @ seen.T + 1, atol=1e-15)
    turned = aligned_features(4, np.asarray(-0.3))
    np.testing.assert_allclose(turned[-1] @ turned[:-1].T, -0.3, atol=1e-15)
    np.testing.assert_allclose(turned[0] @ turned[1], 0.3, atol=1e-15)


def test_masked_policies_have_no_invalid_action():
    log_pi = log_policy(np.array([[5.0, 1.0, 900.0]]), np.array([[True, True, False]]))
    np.testing.assert_allclose(np.exp(log_pi), [[1 / (1 + np.exp(-4)), 1 / (1 + np.exp(4)), 0]])
    assert np.isfinite(entropy(log_pi)).all()


def test_several_coefficients_are_several_runs():
    both = follow(staircase_problem(), Training(50, beta=np.array([0.0, 0.1])))
    one = follow(staircase_problem(), Training(50, beta=0.1))
    np.testing.assert_allclose(both.log_probability[:, 1], one.log_probability, rtol=1e-12)
    assert staircase_problem().action == DESCEND
