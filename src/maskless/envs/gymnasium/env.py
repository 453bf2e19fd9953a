"""Any Gymnasium environment: `maskless.make("gymnasium:Taxi-v3")`.

Such an environment is a Python object and not a pure function, so it cannot be compiled: it is
played in worker processes (vector.py) and learned in by `maskless.training.gymnasium_program`.

Its mask comes from `env.action_masks()`, `info["action_mask"]` or `obs["action_mask"]`, whichever
it has, in this order. One that has none can be trained `unmasked`, and a policy that predicts its
own masks can act in it.
"""

import importlib
import re
from typing import Any, ClassVar, Literal, NoReturn

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float

from maskless.envs.base import Environment, Observation
from maskless.errors import MasklessError
from minihax import from_nle

PREFIX = "gymnasium:"
MASK = "action_mask"
"""The key of the mask in `info` or in a dict observation."""
MaskSource = Literal["method", "info", "observation", "none"]
Seen = tuple[Observation, Bool[np.ndarray, " actions"]]
"""An observation and the mask of the same state."""

# Importing these registers their environments.
_REGISTERED_BY = {"MiniHack-": "minihack", "NetHack": "nle"}
_NETHACK_KEYS = ("glyphs", "blstats", "message")
_ABORTED = -1  # NLE's end_status of an episode that ran out of time


class HostEnvironment(Environment):
    """What is known about a Gymnasium environment before it is played.

    It has the names and shapes of every other environment; what would play it inside JAX is
    refused. MiniHack's corridors and mazes show what our own ones show, so that a policy trained
    there can act here.
    """

    rule_sets: ClassVar[tuple[str, ...]] = ("its own",)
    exact_rules: ClassVar[str | None] = None
    rules = "its own"
    runs_on_host = True

    def __init__(self, id: str, *, workers: int | None = None, **options: Any):
        """`id`: "gymnasium:" and what `gymnasium.make` takes, "module:Name-v0" included.
        `workers`: processes that play, by default one per core; 0 plays in this process.
        `options` go to `gymnasium.make`."""
        if workers is not None and (not isinstance(workers, int) or workers < 0):
            raise MasklessError(f"workers must be a number of processes, not {workers!r}.")
        self.id = id
        self.workers = workers
        name = id.removeprefix(PREFIX)
        self._counterpart = _counterpart_id(name)
        if self._counterpart is not None:
            options = {"observation_keys": _NETHACK_KEYS, **options}
        env = _make(name, options)
        try:
            self._describe(env)
        finally:
            env.close()

    def _describe(self, env: gymnasium.Env) -> None:
        if env.spec is None:
            raise MasklessError(f"{self.id} has no spec, so that no worker could make it again.")
        if not isinstance(env.action_space, spaces.Discrete):
            raise MasklessError(
                f"{self.id} has the action space {env.action_space}: masks need discrete actions;"
                " wrap it so that its actions are numbered."
            )
        self.spec = env.spec
        self.episode_limit = env.spec.max_episode_steps or 0
        self.action_names = _action_names(env, int(env.action_space.n))
        raw, info = env.reset(seed=0)
        self.mask_source = _mask_source(env, raw, info)
        self.has_masks = self.mask_source != "none"
        game = self._game(env)
        if self._counterpart is not None:
            from maskless.envs.registry import make

            ours = make(self._counterpart)
            self.episode_limit, self.action_names = ours.episode_limit, ours.action_names
        observation, _ = game.reset(seed=0)
        self._shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), observation)

    @property
    def observation_shapes(self) -> Observation:
        return self._shapes

    def play(self) -> "Game":
        """One new game, to be played in this process."""
        return self._game(gymnasium.make(self.spec))

    def _game(self, env: gymnasium.Env) -> "Game":
        kind = Game if self._counterpart is None else NetHackGame
        return kind(self.id, env, self.mask_source)

    def _refuse(self) -> NoReturn:
        raise MasklessError(
            f"{self.id} is played in Python processes and not inside JAX: use it for training and"
            " evaluation (maskless.training.gymnasium_program), or play one yourself with play()."
        )

    def reset(self, key: Any, params: Any = None) -> NoReturn:
        """Refused."""
        self._refuse()

    def step(self, key: Any, state: Any, action: Any, params: Any = None) -> NoReturn:
        """Refused."""
        self._refuse()

    def observe(self, state: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def validity(self, state: Any, params: Any = None) -> NoReturn:
        """Refused."""
        self._refuse()


class Game:
    """One Gymnasium environment with our conventions: arrays to look at, and a mask with each."""

    def __init__(self, id: str, env: gymnasium.Env, mask_source: MaskSource):
        self.id = id
        self.env = env
        self._source = mask_source
        space: Any = env.action_space
        self._first_action, self._num_actions = int(space.start), int(space.n)

    def reset(self, seed: int) -> Seen:
        """A new episode, decided by `seed`."""
        return self._see(*self.env.reset(seed=seed))

    def step(self, action: int) -> tuple[Seen | None, Observation, float, bool, bool]:
        """What is seen now (None: the episode is over), the observation of this very state,
        the reward, and whether the episode was terminated or truncated (never both)."""
        raw, reward, terminated, truncated, info = self.env.step(self._first_action + int(action))
        truncated = self._truncated(terminated, truncated, info)
        over = bool(terminated or truncated)
        # Where an episode is over there is nothing to choose, and often no valid action.
        seen = None if over else self._see(raw, info)
        observation = self._arrays(raw) if seen is None else seen[0]
        return seen, observation, float(reward), over and not truncated, truncated

    def close(self) -> None:
        self.env.close()

    def _truncated(self, terminated: bool, truncated: bool, info: dict[str, Any]) -> bool:
        return bool(truncated and not terminated)

    def _arrays(self, raw: Any) -> Observation:
        return arrays(self.env.observation_space, raw)

    def _see(self, raw: Any, info: dict[str, Any]) -> Seen:
        return self._arrays(raw), self._mask(raw, info)

    def _mask(self, raw: Any, info: dict[str, Any]) -> Bool[np.ndarray, " actions"]:
        if self._source == "none":
            return np.ones(self._num_actions, bool)
        if self._source == "method":
            given = self.env.get_wrapper_attr("action_masks")()
        else:
            given = (info if self._source == "info" else raw).get(MASK)
        if given is None or np.shape(given) != (self._num_actions,):
            what = "no mask" if given is None else f"a mask of shape {np.shape(given)}"
            raise MasklessError(
                f"{self.id} gave {what} with an observation: it must give one of shape"
                f" ({self._num_actions},) with each."
            )
        mask = np.asarray(given).astype(bool)
        if not mask.any():
            raise MasklessError(
                f"{self.id} gave a mask without any valid action: at least one must be valid in"
                " every state that is not the end of an episode."
            )
        return mask


class NetHackGame(Game):
    """MiniHack's corridors and mazes, seen as our own ones are."""

    _previous_action: int | None = None

    def reset(self, seed: int) -> Seen:
        """A new episode, decided by `seed`."""
        # NLE ignores reset's seed; without `reseed` nothing but the seed decides the game.
        game: Any = self.env.unwrapped
        game.seed(seed, seed, reseed=False)
        self._previous_action = None
        return super().reset(seed)

    def step(self, action: int) -> tuple[Seen | None, Observation, float, bool, bool]:
        self._previous_action = int(action)
        return super().step(action)

    def _truncated(self, terminated: bool, truncated: bool, info: dict[str, Any]) -> bool:
        aborted = int(info["end_status"]) == _ABORTED
        return aborted or super()._truncated(terminated, truncated, info)

    def _arrays(self, raw: Any) -> Observation:
        return from_nle(raw, self._previous_action, num_actions=self._num_actions)


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
            return np.concatenate([_one_hot(*pair) for pair in zip(numbers, sizes, strict=True)])
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


def _make(name: str, options: dict[str, Any]) -> gymnasium.Env:
    try:
        for beginning, module in _REGISTERED_BY.items():
            if name.startswith(beginning):
                importlib.import_module(module)
        # Its checker looks at every step of every environment, and warns about other conventions.
        return gymnasium.make(name, disable_env_checker=True, **options)
    except Exception as error:  # anything can go wrong in other people's constructors
        reason = " ".join(str(error).split()).rstrip(".")
        raise MasklessError(
            f"Gymnasium cannot make {name!r} ({type(error).__name__}: {reason}): check the name,"
            " the options, and that the package it comes from is installed."
        ) from error


def _mask_source(env: gymnasium.Env, raw: Any, info: dict[str, Any]) -> MaskSource:
    if env.has_wrapper_attr("action_masks"):
        return "method"
    if MASK in info:
        return "info"
    return "observation" if isinstance(raw, dict) and MASK in raw else "none"


def _action_names(env: gymnasium.Env, count: int) -> tuple[str, ...]:
    """The environment's own names, where it has them under one of the two usual ones."""
    for attribute in ("action_names", "get_action_meanings"):
        found: Any = getattr(env.unwrapped, attribute, None)
        names = [str(name) for name in (found() if callable(found) else found or ())]
        if len(names) == count:
            return tuple(names)
    return tuple(f"action-{number}" for number in range(count))


def _counterpart_id(name: str) -> str | None:
    """The environment of ours that plays the same game, if there is one."""
    if found := re.fullmatch(r"MiniHack-Corridor-R([235])-v0", name):
        return f"minihack-corridor-r{found[1]}"
    if found := re.fullmatch(r"MiniHack-MazeWalk-(Mapped-)?(9x9|15x15|45x19)-v0", name):
        return f"mazewalk-{found[2]}" + ("-mapped" if found[1] else "")
    return None
