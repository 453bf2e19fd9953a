"""One Gymnasium environment with our conventions: arrays to look at, and a mask with each."""

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float, PyTree

from maskless.errors import MasklessError

MASK = "action_mask"
"""The key of the mask in `info` or in a dict observation."""
MaskSource = Literal["method", "info", "observation", "none"]
Observation = PyTree[np.ndarray]
MaskedObservation = tuple[Observation, Bool[np.ndarray, " actions"]]
"""An observation and the mask of the same state."""


class Game:
    """One environment that is played in this process. Actions are numbered from 0."""

    def __init__(self, id: str, env: gymnasium.Env, mask_source: MaskSource):
        self.id = id
        self.env = env
        self._mask_source = mask_source
        space: Any = env.action_space
        self._first_action, self._num_actions = int(space.start), int(space.n)

    def reset(self, seed: int) -> MaskedObservation:
        """A new episode, decided by `seed`."""
        return self._masked(*self.env.reset(seed=seed))

    def step(self, action: int) -> tuple[MaskedObservation | None, Observation, float, bool, bool]:
        """(what to act on next, None when the episode is over; the observation of the state that
        was reached; reward; terminated; truncated), never both of the last two."""
        raw, reward, terminated, truncated, info = self.env.step(self._first_action + int(action))
        truncated = self._truncated(terminated, truncated, info)
        over = bool(terminated or truncated)
        # Where an episode is over there is nothing to choose, and often no valid action.
        masked = None if over else self._masked(raw, info)
        observation = self._arrays(raw) if masked is None else masked[0]
        return masked, observation, float(reward), over and not truncated, truncated

    def close(self) -> None:
        self.env.close()

    def _truncated(self, terminated: bool, truncated: bool, info: dict[str, Any]) -> bool:
        return bool(truncated and not terminated)

    def _arrays(self, raw: Any) -> Observation:
        return arrays(self.env.observation_space, raw)

    def _masked(self, raw: Any, info: dict[str, Any]) -> MaskedObservation:
        return self._arrays(raw), self._mask(raw, info)

    def _mask(self, raw: Any, info: dict[str, Any]) -> Bool[np.ndarray, " actions"]:
        if self._mask_source == "none":
            return np.ones(self._num_actions, bool)
        if self._mask_source == "method":
            mask = self.env.get_wrapper_attr("action_masks")()
        else:
            mask = (info if self._mask_source == "info" else raw).get(MASK)
        if mask is None or np.shape(mask) != (self._num_actions,):
            description = "no mask" if mask is None else f"a mask of shape {np.shape(mask)}"
            raise MasklessError(
                f"{self.id} gave {description} with an observation: it must give one of shape"
                f" ({self._num_actions},) with each."
            )
        mask = np.asarray(mask).astype(bool)
        if not mask.any():
            raise MasklessError(
                f"{self.id} gave a mask without any valid action: at least one must be valid in"
                " every state that is not the end of an episode."
            )
        return mask


def find_mask_source(env: gymnasium.Env, raw: Any, info: dict[str, Any]) -> MaskSource:
    """Which of the conventions `env` follows; `raw` and `info` are what its `reset` gave."""
    if env.has_wrapper_attr("action_masks"):
        return "method"
    if MASK in info:
        return "info"
    return "observation" if isinstance(raw, dict) and MASK in raw else "none"


def arrays(space: spaces.Space, value: Any) -> Observation:
    """An element of `space` as arrays: float32, numbers from closed lists one-hot, images (all
    that is uint8) divided by the largest number their space allows, without an `action_mask`."""
    match space:
        case spaces.Dict():
            parts = {name: part for name, part in space.items() if name != MASK}
            return {name: arrays(part, value[name]) for name, part in parts.items()}
        case spaces.Tuple():
            return tuple(arrays(part, v) for part, v in zip(space.spaces, value, strict=True))
        case spaces.Discrete():
            return _one_hot(int(value) - int(space.start), int(space.n))
        case spaces.MultiDiscrete():
            numbers = (np.asarray(value) - space.start).ravel()
            sizes = space.nvec.ravel()
            return np.concatenate(
                [_one_hot(int(n), int(size)) for n, size in zip(numbers, sizes, strict=True)]
            )
        case spaces.Box() if space.dtype == np.uint8:
            return np.asarray(value, np.float32) / np.float32(max(space.high.max(), 1))
        case spaces.Box() | spaces.MultiBinary():
            return np.asarray(value, np.float32)
    raise MasklessError(
        f"An observation of the kind {type(space).__name__} is not understood: wrap the environment"
        " so that it shows arrays, numbers, or dicts and tuples of them."
    )


def _one_hot(number: int, size: int) -> Float[np.ndarray, " size"]:
    row = np.zeros(int(size), np.float32)
    row[number] = 1.0
    return row


def game_error(id: str, method: str, error: Exception) -> MasklessError:
    """The sentence about anything that an environment raised in `method`."""
    if isinstance(error, MasklessError):
        return error
    return MasklessError(
        f"{id} failed in {method} ({reason(error)}): mend the environment, or leave out what leads"
        " there."
    )


def reason(error: Exception) -> str:
    """An exception in one line, to be quoted inside a sentence."""
    return f"{type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"
