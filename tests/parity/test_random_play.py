"""How uniformly random play ends, compared with 300 real episodes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from level_batches import corridor_levels

from minihax.game import step as game
from minihax.game.rules import REAL
from minihax.level.corridors import REAL_GAME

from parity import recordings

EPISODES = 1024
STATISTICS = ("success", "death", "timeout", "mean_return", "mean_len", "frozen_fraction")
# All intervals of all environments hold at once with a probability of 99 %.
LIMIT = scipy.stats.norm.ppf(1 - 0.01 / 2 / (3 * len(STATISTICS)))


@jax.jit
@jax.vmap
def _episodes(hero_key, play_key, level):
    """Return, length, frozen steps, and the end of random episodes, one on each level."""
    state = game.new_game(REAL, hero_key, level)

    def step(carry, key):
        state, running, total = carry
        action_key, step_key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, REAL.num_actions)
        after, result = game.step(REAL, step_key, state, action)
        frozen = (after.turn == state.turn) & ~result.died
        won = result.reached_goal & ~result.truncated
        ends = [won, result.died, result.truncated]
        step_total = jnp.stack([result.reward, 1.0, frozen, *ends])
        return (after, running & ~result.done, total + running * step_total), None

    keys = jax.random.split(play_key, REAL.episode_limit)
    (_, running, total), _ = jax.lax.scan(step, (state, jnp.bool_(True), jnp.zeros(6)), keys)
    return total, running


@pytest.mark.parametrize("environment", recordings.ROOMS_BY_ENV)
def test_random_play_ends_as_in_reality(environment):
    real = recordings.summary("corridor_stats")["random_policy_uniform_11_actions"][environment]
    rooms = recordings.ROOMS_BY_ENV[environment]
    keys = jax.vmap(lambda key: jax.random.split(key, 3))(
        jax.random.split(jax.random.key(0), EPISODES)
    )
    levels, _ = corridor_levels(keys[:, 0], rooms, REAL_GAME)
    totals, running = _episodes(keys[:, 1], keys[:, 2], levels)
    assert not running.any()
    returns, lengths, frozen, won, died, late = np.asarray(totals, np.float64).T
    share = frozen.sum() / lengths.sum()
    # The share of frozen steps is a ratio of sums: its error is that of the residuals.
    ours = {
        "success": (won.mean(), won),
        "death": (died.mean(), died),
        "timeout": (late.mean(), late),
        "mean_return": (returns.mean(), returns),
        "mean_len": (lengths.mean(), lengths),
        "frozen_fraction": (share, (frozen - share * lengths) / lengths.mean()),
    }
    surprises = {}
    for name in STATISTICS:
        value, spread = ours[name]
        error = spread.std() * np.sqrt(1 / EPISODES + 1 / real["episodes"])
        surprises[name] = float((value - real[name]) / error)
    assert all(abs(s) < LIMIT for s in surprises.values()), surprises
