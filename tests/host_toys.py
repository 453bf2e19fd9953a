"""Small Gymnasium environments with known answers. Workers import them as
`gymnasium:host_toys:NAME-v0`."""

import os
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces

LIMIT = 6


def mask_from_observation(observation):
    """The mask of a `Steps` state, from what is seen of it. [..., 2] -> [..., 3]"""
    odd = np.asarray(observation)[..., 0] % 2 == 1
    return np.stack([np.ones_like(odd), odd, ~odd], -1)


class Steps(gymnasium.Env):
    """A number from 0 to 4 grows by the action and by chance, modulo 5; at 4 the game ends.

    The observation is the number and the time. Odd numbers allow action 1, even ones action 2.
    `masks`: which convention it follows. `trouble`: what goes wrong at time 3.
    """

    action_names = ("stay", "one", "two")

    def __init__(self, masks="method", trouble=None):
        self.action_space = spaces.Discrete(3)
        seen = spaces.Box(0, 10, (2,), np.float64)
        self.observation_space = seen
        self._masks, self._trouble = masks, trouble
        if masks == "method":
            self.action_masks = self._mask
        if masks == "observation":
            self.observation_space = spaces.Dict(
                {"seen": seen, "action_mask": spaces.MultiBinary(3)}
            )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._number, self._time = int(self.np_random.integers(4)), 0
        return self._look()

    def step(self, action):
        self._number = (self._number + int(action) + int(self.np_random.integers(2))) % 5
        self._time += 1
        if self._time == 3 and self._trouble == "raises":
            raise ValueError("the ladder is broken.\nBadly.")
        if self._time == 3 and self._trouble == "crashes":
            os._exit(7)
        if self._time == 3 and self._trouble == "exits":
            sys.exit(5)
        if self._time == 3 and self._trouble == "hangs":
            time.sleep(60)
        over = self._number == 4
        reward, (seen, info) = float(action), self._look()
        if self._time == 3 and self._trouble == "nan reward":
            reward = float("nan")
        if self._time == 3 and self._trouble == "nan seen":
            seen[1] = np.nan
        if self._time == 3 and self._trouble == "wide":
            seen = np.append(seen, 0.0)
        return seen, reward, over, False, info

    def _mask(self):
        mask = mask_from_observation([self._number, self._time]).astype(np.int8)
        if self._time == 3 and self._trouble == "nothing valid":
            mask[:] = 0
        if self._time == 3 and self._trouble == "additive mask":
            return np.where(mask, 0.0, -np.inf)
        return mask[:2] if self._time == 3 and self._trouble == "short mask" else mask

    def _look(self):
        seen = np.array([self._number, self._time], np.float64)
        if self._masks == "observation":
            return {"seen": seen, "action_mask": self._mask()}, {}
        return seen, {"action_mask": self._mask()} if self._masks == "info" else {}


def make_steps():
    """A function that makes one."""
    return Steps()


class Gallery(gymnasium.Env):
    """Shows one observation of the given space for ever; actions are numbered from 5."""

    def __init__(self, space, shown):
        self.observation_space, self._shown = space, shown
        self.action_space = spaces.Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        return self._shown, {}

    def step(self, action):
        assert self.action_space.contains(np.int64(action))
        return self._shown, 0.0, False, False, {}


class Steering(Gallery):
    def __init__(self):
        super().__init__(spaces.Box(0, 1, (1,)), np.zeros(1, np.float32))
        self.action_space = spaces.Box(-1, 1, (1,))


gymnasium.register("Steps-v0", Steps, max_episode_steps=LIMIT)
gymnasium.register("Gallery-v0", Gallery)
gymnasium.register("Steering-v0", Steering)
gymnasium.register("Blind-v0", Steps, max_episode_steps=LIMIT, kwargs={"masks": "none"})
