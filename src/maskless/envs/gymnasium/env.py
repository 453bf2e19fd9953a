"""Any Gymnasium environment: `maskless.make("gymnasium:Taxi-v3")`, or `HostEnvironment.of(env)`.

Such an environment is a Python object and not a pure function, so it cannot be compiled: it is
played in worker processes (vector.py) and learned in by `maskless.training.gymnasium_program`.

Its mask comes from `env.action_masks()`, `info["action_mask"]` or `obs["action_mask"]`, whichever
it has, in this order. One that has none can be trained `unmasked`, and a policy that predicts its
own masks can act in it.
"""

import contextlib
import copy
import dataclasses
import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NoReturn

import gymnasium
import jax
from gymnasium import spaces

from maskless.envs.base import Environment, Observation
from maskless.envs.gymnasium.game import Game, MaskSource, find_mask_source, game_error, reason
from maskless.errors import MasklessError

PREFIX = "gymnasium:"
Factory = Callable[[], gymnasium.Env]
# The beginning of a name -> the module whose `adapter(name)` knows more about such environments
# than Gymnasium's conventions say.
_ADAPTER_MODULES = {
    "MiniHack-": "maskless.envs.gymnasium.nethack",
    "NetHack": "maskless.envs.gymnasium.nethack",
}


@dataclasses.dataclass(frozen=True)
class Adapter:
    """How to play an environment; by default as Gymnasium's conventions say."""

    game: type[Game] = Game
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of `gymnasium.make`, where the user gives no others."""
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of the `HostEnvironment`, instead of what the environment says of itself."""


class HostEnvironment(Environment):
    """What is known about a Gymnasium environment before it is played.

    It has the names and shapes of every other environment; what would play it inside JAX is
    refused.
    """

    rule_sets: ClassVar[tuple[str, ...]] = ("environment",)
    exact_rules: ClassVar[str | None] = None
    rules = "environment"
    runs_on_host = True
    mask_source: MaskSource

    def __init__(self, id: str, *, workers: int | None = None, **options: Any):
        """`id`: "gymnasium:" and what `gymnasium.make` takes, "module:Name-v0" included.
        `workers`: processes that play, by default one per core; 0 plays in this process.
        `options` go to `gymnasium.make`."""
        name = id.removeprefix(PREFIX)
        try:
            adapter = _adapter(name)
            # Its checker looks at every step of every game, and warns about other conventions.
            options = {"disable_env_checker": True, **adapter.options, **options}
            env = gymnasium.make(name, **options)
            assert env.spec is not None
        except Exception as error:  # anything can go wrong in other people's constructors
            raise MasklessError(
                f"Gymnasium cannot make {name!r} ({reason(error)}): check the name, the options,"
                " and that the package it comes from is installed."
            ) from error
        self._describe(id, env, partial(gymnasium.make, env.spec), workers, adapter)

    @classmethod
    def of(cls, env: gymnasium.Env | Factory, *, workers: int | None = None) -> "HostEnvironment":
        """An environment object, or a class or function that makes one, also when it is defined in
        a notebook. An object is not played itself: its games are made from its `spec` if that can
        be made again, and are deep copies otherwise. `workers`: as above."""
        if isinstance(env, gymnasium.Env):
            factory = _factory_of(env)
        elif callable(env):
            factory = env
        else:
            raise MasklessError(
                f"{env!r} is neither a Gymnasium environment nor a function that makes one."
            )
        try:
            game = factory()
        except Exception as error:
            name = getattr(env, "__name__", type(env).__name__)
            raise game_error(f"object:{name}", "its constructor", error) from error
        if not isinstance(game, gymnasium.Env):
            raise MasklessError(f"{env!r} makes {game!r}, which is no Gymnasium environment.")
        if callable(env) and factory().unwrapped is game.unwrapped:
            raise MasklessError(
                f"{env!r} returns the same environment again: make a new one in each call, or give"
                " the environment itself."
            )
        host = cls.__new__(cls)
        id = f"object:{type(game.unwrapped).__name__}"
        host._describe(id, game, factory, workers, Adapter())
        return host

    def _describe(
        self, id: str, env: gymnasium.Env, make: Factory, workers: int | None, adapter: Adapter
    ) -> None:
        """Sets all attributes from `env`, which is closed afterwards; `make` makes others."""
        if workers is not None and (not isinstance(workers, int) or workers < 0):
            raise MasklessError(f"workers must be a number of processes, not {workers!r}.")
        if not isinstance(env.action_space, spaces.Discrete):
            raise MasklessError(
                f"{id} has the action space {env.action_space}: masks need discrete actions; wrap"
                " it so that its actions are numbered."
            )
        self.id, self.workers, self._make, self._adapter = id, workers, make, adapter
        self.episode_limit = (env.spec.max_episode_steps if env.spec else None) or 0
        self.action_names = _action_names(env, int(env.action_space.n))
        try:
            self.mask_source = find_mask_source(env, *env.reset(seed=0))
            observation, _ = self._game(env).reset(seed=0)
        except Exception as error:
            raise game_error(id, "reset", error) from error
        finally:
            env.close()
        self.has_masks = self.mask_source != "none"
        self._shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), observation)
        for name, value in adapter.attributes.items():
            setattr(self, name, value)

    @property
    def observation_shapes(self) -> Observation:
        return self._shapes

    def play(self) -> Game:
        """One new game, to be played in this process."""
        return self._game(self._make())

    def _game(self, env: gymnasium.Env) -> Game:
        return self._adapter.game(self.id, env, self.mask_source)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """In place of everything that would play inside JAX."""
        raise MasklessError(
            f"{self.id} is played in Python processes and not inside JAX: use it for training and"
            " evaluation (maskless.training.gymnasium_program), or play one yourself with play()."
        )

    reset = step = observe = validity = _refuse


def _adapter(name: str) -> Adapter:
    for prefix, module in _ADAPTER_MODULES.items():
        if name.startswith(prefix):
            return importlib.import_module(module).adapter(name)
    return Adapter()


def _factory_of(env: gymnasium.Env) -> Factory:
    """Makes environments like `env`, in this process and in others."""
    spec = env.spec
    if spec is not None and not _defined_in_main(spec):
        make = partial(gymnasium.make, spec, disable_env_checker=True)
        with contextlib.suppress(Exception):  # a wrapper may not say how it was made
            make().close()
            return make
    try:
        return partial(copy.deepcopy, copy.deepcopy(env))  # the user may go on to use `env`
    except Exception as error:
        raise MasklessError(
            f"{env!r} cannot be copied ({reason(error)}): give a function that makes it instead,"
            " such as its class."
        ) from error


def _defined_in_main(spec: Any) -> bool:
    """Whether a worker process, which has another `__main__`, would look there in vain."""
    parts = (spec, *spec.additional_wrappers)
    return any(str(part.entry_point).startswith("__main__:") for part in parts)


def _action_names(env: gymnasium.Env, count: int) -> tuple[str, ...]:
    """The names that the environment gives its actions, under one of the two usual attributes."""
    for attribute in ("action_names", "get_action_meanings"):
        value: Any = getattr(env.unwrapped, attribute, None)
        names = [str(name) for name in (value() if callable(value) else value or ())]
        if len(names) == count:
            return tuple(names)
    return tuple(f"action-{number}" for number in range(count))
