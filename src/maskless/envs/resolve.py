"""From whatever a user has, an id, an object or a factory, to an environment."""

import sys
from collections.abc import Mapping
from typing import Any

from maskless.envs.base import Environment
from maskless.envs.contract import check_contract, check_members
from maskless.envs.registry import make
from maskless.errors import MasklessError

OBJECT = "object:"
"""What the name of an environment begins with that was given as an object."""


def as_environment(env: Any, options: Mapping[str, Any] | None = None) -> Environment:
    """`env`: an id; an `Environment` or what imitates one; a Gymnasium environment; or a class or
    function that makes one of these. Checked before anything is compiled."""
    if isinstance(env, str):
        return make(env, **(options or {}))
    if options:
        raise MasklessError("Options are for an environment given by its id: make yours with them.")
    if isinstance(env, type) and issubclass(env, Environment):
        check_members(env, env.__name__)
        env = env()
    if not _follows_contract(env) and not _is_gymnasium(env) and callable(env):
        factory, env = env, env()
        if _is_gymnasium(env):
            env.close()
            env = factory
    if _follows_contract(env):
        _complete(env)
        if not env.runs_on_host:
            check_contract(env, first_state=env.made_from is None)
        return env
    if "gymnasium" in sys.modules and (_is_gymnasium(env) or callable(env)):
        from maskless.envs.gymnasium.env import HostEnvironment  # needs Gymnasium

        # In this process: a script need not be importable, and most own worlds are light.
        return HostEnvironment.of(env, workers=0)
    raise MasklessError(
        f"{env!r} is no environment: give an id (see `maskless envs`), an object with the methods"
        " of maskless.Environment, a Gymnasium environment, or a function that makes one."
    )


def _complete(env: Any) -> None:
    """Gives an object that imitates an `Environment` what it inherits otherwise."""
    for name, value in vars(Environment).items():
        if not name.startswith("_") and not hasattr(env, name):
            bound = hasattr(value, "__get__") and not isinstance(value, type)
            setattr(env, name, value.__get__(env, type(env)) if bound else value)
    if not hasattr(env, "id"):
        env.id = type(env).__name__


def name_and_options(env: Environment) -> tuple[str, dict[str, Any]]:
    """How `make` makes it again; "object:NAME" where only its owner can."""
    if env.made_from is not None:
        id, options = env.made_from
        return id, dict(options)
    return env.id if env.id.startswith(OBJECT) else f"{OBJECT}{type(env).__name__}", {}


def _follows_contract(env: Any) -> bool:
    methods = ("reset", "step", "observe", "validity", "action_names")
    return not isinstance(env, type) and all(hasattr(env, name) for name in methods)


def _is_gymnasium(env: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(env, gymnasium.Env)
