"""Small worlds with known answers, for testing what works on any environment."""

import copy

import jax
import jax.numpy as jnp
from flax import struct

from maskless.envs.base import Environment

GOAL = 5


@struct.dataclass
class TowerState:
    level: jax.Array  # a random number that tells levels apart
    height: jax.Array
    energy: jax.Array
    time: jax.Array


class Tower(Environment):
    """Climb five rungs. On even levels `climb` works, on odd ones `jump`; each costs energy.

    The observation shows everything the masks depend on, so that a mask which belongs to another
    state can be told from the observation. `rules="wrong"` has three known mistakes.
    """

    id = "tower"
    action_names = ("wait", "climb", "jump", "rest", "gamble")
    rule_sets = ("exact", "wrong")
    noop_action = 0
    achievement_names = ("left the ground", "reached the top")
    start_energy = 9

    def __init__(self, rules: str = "exact", episode_limit: int = 12):
        self.rules = self.with_rules(rules).rules
        self.episode_limit = episode_limit

    def reset(self, key, params=None):
        level = jax.random.randint(key, (), 0, 2**30)
        zero = jnp.int32(0)
        state = TowerState(level, zero, jnp.int32(self.start_energy), zero)
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        self.check_action(action)
        lucky = (action == 4) & (jax.random.uniform(key) < 0.5)
        able = self._able(state)
        up = (action == 1) & able[1] | (action == 2) & able[2]
        rested = (action == 3) & able[3]
        state = TowerState(
            level=state.level,
            height=state.height + up,
            energy=jnp.clip(state.energy - up + rested + lucky, 0, self.start_energy),
            time=state.time + 1,
        )
        top = state.height >= GOAL
        out_of_time = state.time >= self.episode_limit
        reward = jnp.where(top, 1.0, 0.0) - 0.125 * (action != 0)
        return (
            self.observe(state),
            state,
            reward,
            top | out_of_time,
            {"truncated": out_of_time & ~top},
        )

    def observe(self, state):
        return jnp.stack([state.level, state.height, state.energy])

    def _able(self, state):
        even, strong = state.level % 2 == 0, state.energy > 0
        tired = state.energy < self.start_energy
        return jnp.stack([jnp.bool_(True), even & strong, ~even & strong, tired, tired])

    def validity(self, state, params=None):
        able = self._able(state)
        if self.rules == "wrong":
            able = able.at[2].set(False)  # masks what works
            able = able.at[3].set(True)  # allows what does nothing when rested
            able = able.at[4].set(state.height > 0)
        return able

    def waivers(self, state):
        if self.rules == "wrong":
            return {}
        return {"a gamble is lost half of the time": jnp.arange(5) == 4}

    def achievements(self, state):
        return jnp.stack([state.height > 0, state.height >= GOAL])

    def perturb(self, key, state):
        return state.replace(energy=jax.random.randint(key, (), 0, self.start_energy + 1))


def mask_from_observation(observation):
    """The exact mask of a tower state, from what is seen of it. [..., 3] -> [..., 5]"""
    level, energy = observation[..., 0], observation[..., 2]
    even, strong, tired = level % 2 == 0, energy > 0, energy < Tower.start_energy
    return jnp.stack([jnp.ones_like(even), even & strong, ~even & strong, tired, tired], -1)


class Unfinished(Environment):
    """Half of an environment."""

    def reset(self, key, params=None):
        raise NotImplementedError

    def step(self, key, state, action, params=None):
        raise NotImplementedError


class Lame:
    """Not an environment: it lacks most of the contract."""

    action_names = ("go",)


@struct.dataclass
class BanditState:
    context: jax.Array


class MaskedBandit(Environment):
    """Three contexts, four arms, one pull. In each context the best arm of all is invalid (and
    pays nothing when pulled), so the optimum needs the mask: 0.5, 0.6 and 0.7 by context."""

    id = "masked-bandit"
    action_names = ("first", "second", "third", "fourth")
    episode_limit = 1
    payoffs = jnp.array([[0.9, 0.5, 0.1, 0.2], [0.1, 0.9, 0.6, 0.3], [0.7, 0.2, 0.9, 0.4]])
    masks = jnp.array([[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 0]], bool)
    optimum = (0.5 + 0.6 + 0.7) / 3

    def reset(self, key, params=None):
        state = BanditState(jax.random.randint(key, (), 0, 3))
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        reward = jnp.where(self.validity(state)[action], self.payoffs[state.context, action], 0.0)
        return self.observe(state), state, reward, jnp.bool_(True), {}

    def observe(self, state):
        return jax.nn.one_hot(state.context, 3)

    def validity(self, state, params=None):
        return self.masks[state.context]


@struct.dataclass
class RecallState:
    cue: jax.Array
    time: jax.Array


class Recall(Environment):
    """A cue is shown once; after `delay` steps of nothing the right answer pays 1. Without a
    memory no policy earns more than 1/2 on average."""

    id = "recall"
    action_names = ("left", "right", "wait")

    def __init__(self, delay: int = 6):
        self.delay = delay
        self.episode_limit = delay + 1

    def reset(self, key, params=None):
        state = RecallState(jax.random.randint(key, (), 0, 2), jnp.int32(0))
        return self.observe(state), state

    def step(self, key, state, action, params=None):
        asked = state.time == self.delay
        reward = jnp.where(asked & (action == state.cue), 1.0, 0.0)
        state = RecallState(state.cue, state.time + 1)
        return self.observe(state), state, reward, asked, {}

    def observe(self, state):
        shown = jax.nn.one_hot(state.cue, 2) * (state.time == 0)
        return jnp.append(shown, state.time == self.delay)

    def validity(self, state, params=None):
        asked = state.time == self.delay
        return jnp.stack([asked, asked, ~asked])


class Exploding(MaskedBandit):
    """A bandit whose reward is infinite once in about five hundred pulls."""

    id = "exploding"

    def step(self, key, state, action, params=None):
        observation, state, reward, done, info = super().step(key, state, action)
        boom = jax.random.uniform(key) < 1 / 500
        return observation, state, jnp.where(boom, jnp.inf, reward), done, info


def starting_from(env, levels):
    """`env`, but every episode begins in one of these states [levels, ...] of it.

    For tests of what comes after a reset: making levels takes longer to compile than playing them,
    and a VectorEnv has it in each of its programs.
    """
    count = len(jax.tree.leaves(levels)[0])

    def choose(key, params=None):
        number = jax.random.randint(key, (), 0, count)
        state = jax.tree.map(lambda x: x[number], levels)
        return env.observe(state), state

    other = copy.copy(env)
    other.reset = choose
    return other
