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
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

import gymnasium
import jax
from gymnasium import spaces

from maskless.envs.base import Environment, Observation
from maskless.envs.gymnasium.game import (
    Game,
    MaskSource,
    OnInvalid,
    find_mask_source,
    game_error,
    reason,
)
from maskless.envs.gymnasium.observations import encodings
from maskless.errors import MasklessError
from maskless.failures import check_clock_fields

PREFIX = "gymnasium:"
_MOST_WORKERS = 4096
_SECONDS_TO_CLOSE = 10.0
Factory = Callable[[], gymnasium.Env]
_FAILURES = (Exception, SystemExit)
"""What the code of an environment may end with. One that leaves would take the program along."""
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
    largest_number: float
    """In a first observation, without sign."""
    encodings: Mapping[str, Mapping[str, Any]]
    """How the fields of an observation are made of what the environment shows."""
    on_invalid: str | None
    """The option; None: every action is the environment's own affair."""

    def __init__(
        self,
        id: str,
        *,
        workers: int | None = None,
        on_invalid: str | None = None,
        clock_fields: str | Sequence[str] | None = None,
        **options: Any,
    ):
        """`id`: "gymnasium:" and what `gymnasium.make` takes, "module:Name-v0" included.
        `workers`: processes that play, by default one per core; 0 plays in this process.
        `on_invalid`: for environments that raise at invalid actions, "noop", "penalty=-0.1" or
        "end": they are not asked to take them. `clock_fields`: what changes by itself in its
        observations (`Environment.clock_fields`), by default its own attribute of this name.
        `options` go to `gymnasium.make`."""
        name = id.removeprefix(PREFIX)
        try:
            adapter = _adapter(name)
            # Its checker looks at every step of every game, and warns about other conventions.
            options = {"disable_env_checker": True, **adapter.options, **options}
            env = gymnasium.make(name, **options)
            assert env.spec is not None
        except _FAILURES as error:  # anything can go wrong in other people's constructors
            raise MasklessError(
                f"Gymnasium cannot make {name!r} ({reason(error)}): check the name, the options,"
                " and that the package it comes from is installed."
            ) from error
        self._describe(id, env, partial(gymnasium.make, env.spec), workers, on_invalid, adapter)
        if clock_fields is not None:
            self._set_clocks(clock_fields)

    @classmethod
    def of(
        cls,
        env: gymnasium.Env | Factory,
        *,
        id: str | None = None,
        workers: int | None = None,
        on_invalid: str | None = None,
    ) -> "HostEnvironment":
        """An environment object, or a class or function that makes one, also when it is defined in
        a notebook. An object is not played itself: its games are made from its `spec` if that can
        be made again, and are deep copies otherwise. `workers`, `on_invalid`: as above."""
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
        except _FAILURES as error:
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
        id = id or f"object:{type(game.unwrapped).__name__}"
        host._describe(id, game, factory, workers, on_invalid, Adapter())
        return host

    def _describe(
        self,
        id: str,
        env: gymnasium.Env,
        make: Factory,
        workers: int | None,
        on_invalid: str | None,
        adapter: Adapter,
    ) -> None:
        """Sets all attributes from `env`, which is closed afterwards; `make` makes others."""
        if workers is not None and (
            not isinstance(workers, int) or not 0 <= workers <= _MOST_WORKERS
        ):
            raise MasklessError(
                f"workers must be a number of processes, at most {_MOST_WORKERS}, not {workers!r}."
            )
        if not isinstance(env.action_space, spaces.Discrete):
            raise MasklessError(
                f"{id} has the action space {env.action_space}: masks need discrete actions; wrap"
                " it so that its actions are numbered (maskless.envs.gymnasium.Numbered does so for"
                " MultiDiscrete and MultiBinary)."
            )
        self.id, self.workers, self._make, self._adapter = id, workers, make, adapter
        self.on_invalid, self._refusal = on_invalid, OnInvalid.parse(on_invalid)
        self.episode_limit = (env.spec.max_episode_steps if env.spec else None) or 0
        self.action_names = _action_names(env, int(env.action_space.n))
        try:
            self.mask_source = find_mask_source(env, *env.reset(seed=0))
            observation, _ = self._game(env).reset(seed=0)
        except _FAILURES as error:
            raise game_error(id, "reset", error) from error
        finally:
            _close(env)  # it has shown all that it was asked for
        self.has_masks = self.mask_source != "none"
        if self._refusal is not None and not self.has_masks:
            raise MasklessError(f"{id} has no action masks: on_invalid needs them.")
        self._shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), observation)
        # A game of its own shows something else.
        self.encodings = encodings(env.observation_space) if adapter.game is Game else {}
        self.largest_number = max(
            float(abs(x).max(initial=0)) for x in jax.tree.leaves(observation)
        )
        for name, value in adapter.attributes.items():
            setattr(self, name, value)
        self._set_clocks(getattr(env.unwrapped, "clock_fields", self.clock_fields))

    def _set_clocks(self, clock_fields: str | Sequence[str]) -> None:
        clocks = (clock_fields,) if isinstance(clock_fields, str) else tuple(clock_fields)
        check_clock_fields(clocks, self._shapes)
        self.clock_fields = clocks

    @property
    def observation_shapes(self) -> Observation:
        return self._shapes

    def never_asked_invalid(self) -> "HostEnvironment":
        """The same world, where invalid actions change nothing unless the option says otherwise."""
        return self if self.on_invalid is not None else self.refusing("noop")

    def refusing(self, on_invalid: str) -> "HostEnvironment":
        """The same world with this option `on_invalid`."""
        if not self.has_masks:
            raise MasklessError(f"{self.id} has no action masks: on_invalid needs them.")
        spared = copy.copy(self)
        spared.on_invalid, spared._refusal = on_invalid, OnInvalid.parse(on_invalid)
        return spared

    def play(self) -> Game:
        """One new game, to be played in this process."""
        return self._game(self._make())

    def _game(self, env: gymnasium.Env) -> Game:
        return self._adapter.game(self.id, env, self.mask_source, self._refusal)

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


def _close(env: gymnasium.Env) -> None:
    def close() -> None:
        with contextlib.suppress(*_FAILURES):
            env.close()

    in_time(close)


def in_time(close: Callable[[], None]) -> None:
    """What does not end in time is left alone: it is about leaving, and matters to nobody."""
    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(_SECONDS_TO_CLOSE)


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
    """The names that the environment, or a wrapper, gives its actions, under one of the two usual
    attributes."""
    for attribute in ("action_names", "get_action_meanings"):
        value: Any = env.get_wrapper_attr(attribute) if env.has_wrapper_attr(attribute) else None
        names = [str(name) for name in (value() if callable(value) else value or ())]
        if len(names) == count:
            return tuple(names)
    return tuple(f"action-{number}" for number in range(count))
