"""Does an environment keep the contract? What a new one gets wrong is said in one sentence."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskless.envs.base import Environment
from maskless.errors import MasklessError
from maskless.failures import check_clock_fields
from maskless.nets.encoders import Encoded

_REQUIRED = ("reset", "step", "observe", "validity", "action_names", "id", "episode_limit")


def check_members(env: Any, name: str) -> None:
    """Refuses an environment, or a class of them, called `name` that lacks a required member."""
    if isinstance(env, type):
        missing = [
            member for member in _REQUIRED if member in getattr(env, "__abstractmethods__", ())
        ]
    else:
        missing = [member for member in _REQUIRED if not hasattr(env, member)]
    if missing:
        raise MasklessError(
            f"{name} does not follow the environment contract: it has no"
            f" {', '.join(map(repr, missing))} (see maskless.envs.base.Environment)."
        )


def check_contract(env: Environment, *, first_state: bool = True) -> None:
    """Refuses an environment whose functions do not fit together, with what to mend.

    They are traced, not run: shapes and types only. With `first_state` one `reset` is also run,
    which takes as long as compiling it, and what it gives is looked at.
    """
    check_members(env, getattr(env, "id", type(env).__name__))
    key = jax.random.key(0)
    observation, state = _trace(env, "reset", 2, key)
    mask = _trace(env, "validity", None, state, env.default_params)
    if _kind(mask) != f"bool[{env.num_actions}]":
        raise MasklessError(
            f"{env.id}: validity must give bool[{env.num_actions}], one entry per action name;"
            f" it gives {_kind(mask)}."
        )
    next_observation, next_state, reward, done, _ = _trace(env, "step", 5, key, state, jnp.int32(0))
    _check_same(env, "step changes the type of the state", state, next_state)
    different = "and reset give different observations"
    _check_same(env, f"step {different}", observation, next_observation)
    _check_same(env, f"observe {different}", observation, _trace(env, "observe", None, state))
    _check_same(
        env,
        "the encoder reads what record gives otherwise than an observation",
        _features(env, observation),
        _features(env, _trace(env, "record", None, state)),
    )
    check_clock_fields(env.clock_fields, observation)
    if _kind(done) != "bool[]" or reward.shape != ():
        raise MasklessError(
            f"{env.id}: step must give a reward of shape () and a done of type bool[];"
            f" it gives {_kind(reward)} and {_kind(done)}."
        )
    if first_state:
        _check_first_state(env)


def _check_first_state(env: Environment) -> None:
    observation, state = jax.jit(env.reset)(jax.random.key(0))
    if not np.asarray(env.validity(state)).any():
        raise MasklessError(
            f"{env.id}: no action is valid in the first state; at least one action must be valid in"
            " every state, if need be one that does nothing."
        )
    for path, leaf in jax.tree.leaves_with_path(observation):
        if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
            name = jax.tree_util.keystr(path)
            raise MasklessError(
                f"{env.id}: the first observation{name and ' at ' + name} holds a number that is"
                " not finite; networks cannot read NaN or infinity."
            )


def _trace(env: Environment, name: str, outputs: int | None, *arguments: Any) -> Any:
    """Shapes and types of what a method gives; `outputs`: how many, None: any one thing."""
    try:
        result = jax.eval_shape(getattr(env, name), *arguments)
    except jax.errors.JAXTypeError as error:
        raise MasklessError(
            f"{env.id}: {name} cannot be compiled ({str(error).splitlines()[0].rstrip('.')}):"
            " write it with jax.numpy, without Python's if and while on values of the state."
        ) from error
    except TypeError as error:
        if f"{name}()" not in str(error):  # not about how it is called
            raise
        raise MasklessError(
            f"{env.id}: {name} is not called as maskless.Environment has it ({error})."
        ) from error
    if outputs is not None and not (isinstance(result, tuple) and len(result) == outputs):
        expected = "observation, state" + ", reward, done, info" * (outputs == 5)
        raise MasklessError(f"{env.id}: {name} must give the {outputs} values {expected}.")
    return result


def _features(env: Environment, record: Any) -> Any:
    """What the environment's encoder makes of one observation, or of what is recorded of it."""
    encoded = Encoded(env.encoder, env.num_actions)
    sequence = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, 1, *x.shape), x.dtype), record)
    return jax.eval_shape(encoded.init_with_output, jax.random.key(0), sequence)[0]


def _check_same(env: Environment, problem: str, expected: Any, actual: Any) -> None:
    expected_leaves = dict(jax.tree.leaves_with_path(expected))
    actual_leaves = dict(jax.tree.leaves_with_path(actual))
    if expected_leaves.keys() != actual_leaves.keys():
        differing = expected_leaves.keys() ^ actual_leaves.keys()
        fields = ", ".join(sorted(jax.tree_util.keystr(path) for path in differing)[:3])
        raise MasklessError(f"{env.id}: {problem}: only one of them has {fields}.")
    for path, leaf in expected_leaves.items():
        if _kind(leaf) != _kind(actual_leaves[path]):
            raise MasklessError(
                f"{env.id}: {problem}: {jax.tree_util.keystr(path) or 'it'} is {_kind(leaf)}"
                f" first and then {_kind(actual_leaves[path])}."
            )


def _kind(leaf: Any) -> str:
    if not hasattr(leaf, "dtype"):
        return f"no array but {type(leaf).__name__}"
    return f"{leaf.dtype}{list(leaf.shape)}".replace(" ", "")
