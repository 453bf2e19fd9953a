"""From whatever a user has, an id, an object or a factory, to an environment."""

import sys
from collections.abc import Mapping
from typing import Any

from maskless.envs.base import Environment
from maskless.envs.contract import check_contract, check_members
from maskless.envs.registry import (
    HOST_OPTIONS,
    built_in_factory,
    complete,
    is_gymnasium,
    make,
)
from maskless.errors import MasklessError

OBJECT = "object:"
"""What the name of an environment begins with that was given as an object."""


def as_environment(env: Any, options: Mapping[str, Any] | None = None) -> Environment:
    """`env`: an id; an `Environment` or what imitates one; a Gymnasium environment; or a class or
    function that makes one of these. Checked before anything is compiled."""
    if isinstance(env, str):
        world = make(env, **(options or {}))
        if not world.runs_on_host and built_in_factory(env) is None:
            check_contract(world)
        return world
    options = dict(options or {})
    if isinstance(env, type) and issubclass(env, Environment):
        check_members(env, env.__name__)
        env = env()
    if not _follows_contract(env) and not is_gymnasium(env) and callable(env):
        factory, env = env, env()
        if is_gymnasium(env):
            env.close()
            env = factory
    if _follows_contract(env):
        complete(env)
        if options != _object_options(env):
            _refuse_options(options)
        if not env.runs_on_host:
            check_contract(env, first_state=env.made_from is None)
        return env
    if "gymnasium" in sys.modules and (is_gymnasium(env) or callable(env)):
        from maskless.envs.gymnasium.env import HostEnvironment  # needs Gymnasium

        _refuse_options({name: x for name, x in options.items() if name not in HOST_OPTIONS})
        # In this process: a script need not be importable, and most own worlds are light.
        return HostEnvironment.of(env, **{"workers": 0, **options})
    raise MasklessError(
        f"{env!r} is no environment: give an id (see `maskless envs`), an object with the methods"
        " of maskless.Environment, a Gymnasium environment, or a function that makes one."
    )


def _refuse_options(options: Mapping[str, Any]) -> None:
    if options:
        raise MasklessError("Options are for an environment given by its id: make yours with them.")


def _object_options(env: Any) -> dict[str, Any]:
    """What decides how a Gymnasium environment that was given as an object is played."""
    on_invalid = getattr(env, "on_invalid", None)
    return {} if on_invalid is None else {"on_invalid": on_invalid}


def name_and_options(env: Environment) -> tuple[str, dict[str, Any]]:
    """How `make` makes it again; "object:NAME" where only its owner can."""
    if env.made_from is not None:
        id, options = env.made_from
        return id, dict(options)
    name = env.id if env.id.startswith(OBJECT) else f"{OBJECT}{type(env).__name__}"
    return name, _object_options(env)


def _follows_contract(env: Any) -> bool:
    methods = ("reset", "step", "observe", "validity", "action_names")
    return not isinstance(env, type) and all(hasattr(env, name) for name in methods)
