"""`make(id)`: every environment by name, your own included."""

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from maskless.envs.base import Environment
from maskless.envs.contract import check_members
from maskless.errors import MasklessError, UnknownNameError

GYMNASIUM = "gymnasium:"
"""What the ids of Gymnasium's environments begin with."""
_OURS = "maskless.envs."
_CORRIDOR = "maskless.envs.minihack:make_corridor"
_GYMNASIUM = "maskless.envs.gymnasium.env:HostEnvironment"
HOST_OPTIONS = ("workers", "on_invalid")
"""Options that every environment of Gymnasium has, beside those of its constructor."""
# "module:factory", imported on first use: Craftax loads textures when imported. A factory that
# makes several environments takes the id as an argument of that name.
_REGISTRY: dict[str, str | Callable[..., Environment]] = {
    "craftax": "maskless.envs.craftax:Craftax",
    "craftax-classic": "maskless.envs.craftax:CraftaxClassic",
    **{f"corridor-r{rooms}": _CORRIDOR for rooms in (2, 3, 5)},
    **{f"minihack-corridor-r{rooms}": _CORRIDOR for rooms in (2, 3, 5)},
    **{f"mazewalk-{size}": _CORRIDOR for size in ("9x9", "15x15", "45x19")},
    "staircase": "maskless.envs.staircase:Staircase",
    **{f"mazewalk-{size}-mapped": _CORRIDOR for size in ("9x9", "15x15", "45x19")},
}


def ids() -> list[str]:
    """The names `make` knows, sorted."""
    return sorted(_REGISTRY)


def register(id: str, factory: str | Callable[..., Environment]) -> None:
    """Adds an environment: a callable, or "module:name" to be imported when it is first made."""
    _REGISTRY[id] = factory


def make(id: str, **options: Any) -> Environment:
    """The environment called `id`, e.g. `make("craftax-classic", rules="exact")`.

    `env.made_from` remembers `(id, options)`, so that a training can be resumed.

    Your own needs no registration: `make("your_package.your_module:YourEnvironment")`, for JAX or
    for Gymnasium. Neither does one of Gymnasium's: `make("gymnasium:Taxi-v3")`.
    """
    if not isinstance(id, str):
        raise MasklessError(f"An environment id is a string such as 'craftax', not {id!r}.")
    if id not in _REGISTRY and ":" not in id:
        raise UnknownNameError("environment", id, _REGISTRY)
    if id.startswith("object:"):
        raise MasklessError(
            f"The environment {id.removeprefix('object:')!r} was given as an object, which no name"
            " can make again: give the object again, from Python."
        )
    factory = _REGISTRY.get(id, _GYMNASIUM if id.startswith(GYMNASIUM) else id)
    if isinstance(factory, str):
        factory = _import_factory(factory)
    parameters = inspect.signature(factory).parameters
    own = {name: x for name, x in options.items() if name in parameters or name not in HOST_OPTIONS}
    _check_options(id, parameters, own)
    if inspect.isabstract(factory):
        check_members(factory, id)
    make_one: Callable[..., Any] = functools.partial(
        factory, **({"id": id} if "id" in parameters else {}), **own
    )
    # A class of Gymnasium's is not called for nothing.
    env: Any = factory if is_gymnasium(factory) else make_one()
    if is_gymnasium(env):
        from maskless.envs.gymnasium.env import HostEnvironment  # needs Gymnasium

        rest = {name: value for name, value in options.items() if name not in own}
        env = HostEnvironment.of(make_one, id=id, **rest)
    else:
        _check_options(id, parameters, options)
    check_members(env, id)
    complete(env)
    env.made_from = (id, options)
    return env


def complete(env: Any) -> None:
    """Gives an object that imitates an `Environment` what it inherits otherwise."""
    for name, value in vars(Environment).items():
        if not name.startswith("_") and not hasattr(env, name):
            bound = hasattr(value, "__get__") and not isinstance(value, type)
            setattr(env, name, value.__get__(env, type(env)) if bound else value)
    if not hasattr(env, "id"):
        env.id = type(env).__name__


def built_in_factory(id: str) -> Callable[..., Environment] | None:
    """What makes an environment of ours; None: it is somebody else's."""
    factory = _REGISTRY.get(id)
    ours = isinstance(factory, str) and factory.startswith(_OURS)
    return _import_factory(factory) if isinstance(factory, str) and ours else None


def is_gymnasium(env: Any) -> bool:
    """Whether it is an environment of Gymnasium, or a class of them."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None:
        return False
    return issubclass(env if isinstance(env, type) else type(env), gymnasium.Env)


def _import_factory(path: str) -> Callable[..., Environment]:
    module_name, _, attribute = path.partition(":")
    if path == _GYMNASIUM and importlib.util.find_spec("gymnasium") is None:
        raise MasklessError("Gymnasium is not installed: run pip install gymnasium.")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise MasklessError(
            f"Cannot load {path!r} as an environment ({error}): write it as"
            " 'importable.module:ClassOrFunction'."
        ) from error


def _check_options(
    id: str, parameters: Mapping[str, inspect.Parameter], options: dict[str, Any]
) -> None:
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    known = [name for name in parameters if name != "id"]
    for name in options:
        if name not in known:
            raise UnknownNameError(f"option of {id}", name, known or ["(it takes none)"])
