"""One Gymnasium environment with our conventions: arrays to look at, and a mask with each."""

import dataclasses
import math
from typing import Any, Literal

import gymnasium
import numpy as np
from jaxtyping import Bool

from maskless.envs.gymnasium.observations import MASK, Observation, arrays, check_finite
from maskless.errors import MasklessError

MaskSource = Literal["method", "info", "observation", "none"]
MaskedObservation = tuple[Observation, Bool[np.ndarray, " actions"]]
"""An observation and the mask of the same state."""
LIMIT_OF_REFUSALS = 1000
"""An episode without a time limit of its own ends after so many steps if some were refused."""


@dataclasses.dataclass(frozen=True)
class OnInvalid:
    """What an invalid action brings in a world that is not to be asked to take it."""

    reward: float = 0.0
    ends: bool = False
    """Whether it ends the episode; otherwise everything stays as it is."""

    @classmethod
    def parse(cls, text: Any) -> "OnInvalid | None":
        """`text`: "noop", "end" or "penalty=-0.1"; "step", or None: the world is asked."""
        kind, _, number = str(text).partition("=")
        if text is None or text == "step":
            return None
        if kind in ("noop", "end") and not number:
            return cls(ends=kind == "end")
        try:
            reward = float(number)
        except ValueError:
            reward = math.nan
        if kind != "penalty" or not math.isfinite(reward):
            raise MasklessError(
                f"on_invalid must be noop, end, penalty=NUMBER (such as penalty=-0.1) or step, not"
                f" {text!r}."
            )
        return cls(reward=reward)


class Game:
    """One environment that is played in this process. Actions are numbered from 0."""

    def __init__(
        self,
        id: str,
        env: gymnasium.Env,
        mask_source: MaskSource,
        on_invalid: OnInvalid | None = None,
    ):
        """`on_invalid`: what an invalid action brings; None: the environment decides."""
        self.id = id
        self.env = env
        self._mask_source = mask_source
        self._on_invalid = on_invalid
        self._limit = (env.spec.max_episode_steps if env.spec else None) or LIMIT_OF_REFUSALS
        space: Any = env.action_space
        self._first_action, self._num_actions = int(space.start), int(space.n)
        self._now: MaskedObservation
        self._steps = 0
        self._refused = False

    def reset(self, seed: int) -> MaskedObservation:
        """A new episode, decided by `seed`."""
        self._steps, self._refused = 0, False
        self._now = self._masked(*self.env.reset(seed=seed))
        return self._now

    def step(self, action: int) -> tuple[MaskedObservation | None, Observation, float, bool, bool]:
        """(what to act on next, None when the episode is over; the observation of the state that
        was reached; reward; terminated; truncated), never both of the last two."""
        self._steps += 1
        valid = bool(self._now[1][action])
        if self._on_invalid is not None and not valid:
            return self._refuse(self._on_invalid)
        raw, reward, terminated, truncated, info = self._ask(int(action), valid)
        # The environment has not seen the steps that were refused; its clock is late.
        truncated = self._truncated(terminated, truncated or self._out_of_time(), info)
        over = bool(terminated or truncated)
        if not math.isfinite(reward):
            raise MasklessError(
                f"{self.id} gave the reward {reward} in step {self._steps} of an episode: rewards"
                " must be finite numbers."
            )
        # Where an episode is over there is nothing to choose, and often no valid action.
        masked = None if over else self._masked(raw, info)
        self._now = masked or self._now
        observation = self._checked(raw) if masked is None else masked[0]
        return masked, observation, float(reward), over and not truncated, truncated

    def _ask(self, action: int, valid: bool) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step of the environment itself."""
        try:
            return self.env.step(self._first_action + action)
        except Exception as error:
            if valid:
                raise
            raise MasklessError(
                f"{self.id} raised {reason(error)} at action {action}, which its mask calls"
                " invalid: with on_invalid=noop (or penalty=-0.1, or end) it is not asked to take"
                " such actions; for training that is --env-options on_invalid=noop, for playing"
                " --on-invalid noop."
            ) from error

    def _refuse(
        self, instead: OnInvalid
    ) -> tuple[MaskedObservation | None, Observation, float, bool, bool]:
        """A step that the environment is not asked for."""
        self._refused = True
        truncated = not instead.ends and self._out_of_time()
        masked = None if instead.ends or truncated else self._now
        return masked, self._now[0], instead.reward, instead.ends, truncated

    def _out_of_time(self) -> bool:
        return self._refused and self._steps >= self._limit

    def close(self) -> None:
        self.env.close()

    def _truncated(self, terminated: bool, truncated: bool, info: dict[str, Any]) -> bool:
        return bool(truncated and not terminated)

    def _arrays(self, raw: Any) -> Observation:
        return arrays(self.env.observation_space, raw)

    def _checked(self, raw: Any) -> Observation:
        try:
            observation = self._arrays(raw)
            check_finite(observation)
        except MasklessError as error:
            raise MasklessError(f"{self.id}, step {self._steps} of an episode: {error}") from error
        return observation

    def _masked(self, raw: Any, info: dict[str, Any]) -> MaskedObservation:
        return self._checked(raw), self._mask(raw, info)

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
        entries = np.asarray(mask)
        mask = entries.astype(bool)
        if not np.array_equal(mask, entries):
            odd = entries[mask != entries][0]
            raise MasklessError(
                f"{self.id} gave a mask that holds {odd}: 1 or True is valid, 0 or False invalid,"
                " and nothing else is understood (an additive mask of 0 and -inf is mask == 0)."
            )
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


def game_error(id: str, method: str, error: BaseException) -> MasklessError:
    """The sentence about anything that an environment raised in `method`."""
    if isinstance(error, MasklessError):
        return error
    return MasklessError(
        f"{id} failed in {method} ({reason(error)}): mend the environment, or leave out what leads"
        " there."
    )


def reason(error: BaseException) -> str:
    """An exception in one line, to be quoted inside a sentence."""
    return f"{type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"
