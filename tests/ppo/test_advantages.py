"""GAE against the definition, written out in float64."""

import jax.numpy as jnp
import numpy as np

from maskless.ppo.advantages import gae


def reference(rewards, values, ends, last_value, discount, gae_lambda):
    """A_t = sum_k (discount lambda)^k delta_{t+k} up to the end of the episode, term by term."""
    time, envs = rewards.shape
    values = np.vstack([values, last_value])
    advantages = np.zeros((time, envs))
    for env in range(envs):
        for t in range(time):
            weight = 1.0
            for k in range(t, time):
                goes_on = 0.0 if ends[k, env] else 1.0
                delta = rewards[k, env] + discount * goes_on * values[k + 1, env] - values[k, env]
                advantages[t, env] += weight * delta
                weight *= discount * gae_lambda * goes_on
    return advantages


def test_equals_the_definition():
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 23, 6))
    ends = rng.random((23, 6)) < 0.2
    ends[:, 0], ends[:, 1] = False, True  # never an end; an end after every step
    last = rng.normal(size=6)
    for discount, gae_lambda in [(0.99, 0.8), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)]:
        ours = gae(
            jnp.array(rewards, jnp.float32),
            jnp.array(values, jnp.float32),
            jnp.array(ends),
            jnp.array(last, jnp.float32),
            discount=discount,
            gae_lambda=gae_lambda,
        )
        expected = reference(rewards, values, ends, last, discount, gae_lambda)
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_lambda_one_is_the_discounted_return_minus_the_value():
    rewards = jnp.array([[1.0], [0.0], [2.0]])
    values = jnp.array([[0.5], [0.5], [0.5]])
    ours = gae(
        rewards, values, jnp.array([[False], [False], [True]]), jnp.array([9.0]),
        discount=0.5, gae_lambda=1.0,
    )  # fmt: skip
    np.testing.assert_allclose(ours[:, 0], [1.5 - 0.5, 1.0 - 0.5, 2.0 - 0.5])
