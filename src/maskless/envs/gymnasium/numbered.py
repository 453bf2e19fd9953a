"""`Discrete` actions in place of `MultiDiscrete` or `MultiBinary` ones: every combination of the
single choices gets a number.

    training = maskless.train(lambda: Numbered(MyEnv()))
    env.unwrapped.step(Numbered(env).action(number))      # what a number stands for

The mask of a combination is that of its parts: valid is what is valid in each of them. The parts'
masks come one after the other, as sb3-contrib has them: `MultiDiscrete([3, 2])` has five entries.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import gymnasium
import gymnasium.utils
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Integer

from maskless.envs.gymnasium.observations import MASK
from maskless.errors import MasklessError

_MOST_ACTIONS = 2**14


class Numbered(gymnasium.ActionWrapper, gymnasium.utils.RecordConstructorArgs):
    """An environment whose actions are the combinations of several choices, numbered as in C: the
    last choice changes fastest."""

    def __init__(self, env: gymnasium.Env):
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        gymnasium.ActionWrapper.__init__(self, env)
        space: Any = env.action_space
        if isinstance(space, spaces.MultiBinary):
            sizes, start = np.full(space.shape, 2), np.zeros(space.shape, int)
        elif isinstance(space, spaces.MultiDiscrete):
            sizes, start = space.nvec, space.start
        else:
            raise MasklessError(f"{space} is neither MultiDiscrete nor MultiBinary.")
        self._sizes, self._start, self._dtype = sizes.ravel(), start, space.dtype
        count = math.prod(map(int, self._sizes))
        if count > _MOST_ACTIONS:
            raise MasklessError(
                f"{space} has {count:,} combinations, and at most {_MOST_ACTIONS:,} can be"
                " numbered: let the environment ask for one choice after the other."
            )
        self.action_space = spaces.Discrete(count)
        self.action_names = tuple(
            ",".join(map(str, self.action(number).ravel())) for number in range(count)
        )
        # Where the environment has no such method, a wrapper must not seem to have one.
        if env.has_wrapper_attr("action_masks"):
            self.action_masks: Callable[[], np.ndarray] = self._combined_masks

    def action(self, action: int) -> Integer[np.ndarray, "..."]:
        """The choices that a number stands for, as the environment takes them."""
        choices = np.array(np.unravel_index(int(action), self._sizes))
        return (choices.reshape(self._start.shape) + self._start).astype(self._dtype)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return self._with_mask(observation), self._with_mask(info)

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(self.action(action))
        return self._with_mask(observation), reward, terminated, truncated, self._with_mask(info)

    def _combined_masks(self) -> Bool[np.ndarray, " actions"]:
        return self._combined(self.env.get_wrapper_attr("action_masks")())

    def _with_mask(self, given: Any) -> Any:
        """An observation, or an info, whose mask is of combinations, if it has one."""
        if not isinstance(given, dict) or MASK not in given:
            return given
        return given | {MASK: self._combined(given[MASK])}

    def _combined(self, masks: Any) -> Bool[np.ndarray, " actions"]:
        """The mask of all combinations, from those of all choices one after the other."""
        entries = np.asarray(masks).ravel()
        if entries.size != self._sizes.sum() or not np.isin(entries, (0, 1)).all():
            raise MasklessError(
                f"A mask of {self.env.action_space} must have {self._sizes.sum()} entries, 1 or"
                " True for valid and 0 or False for not, those of each choice one after the other."
            )
        parts = np.split(entries.astype(bool), np.cumsum(self._sizes)[:-1])
        return functools.reduce(np.logical_and.outer, parts).ravel()
