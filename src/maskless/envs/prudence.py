"""Masks in parts: what is feasible, and the prudent rules of an environment, each of which forbids
something that would work. Which rules apply is a number, so that it can differ from run to run in
one program: the sum of 1 for the first rule, 2 for the second, 4 for the third, and so on.

    env.prudent_rules                      # {"tool-again": why, "table-by-table": why, ...}
    with_prudence(env, 0)                  # the same environment under its feasible mask
    with_prudence(env, 5)                  # and under its first and third prudent rule
"""

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from maskless.envs.base import Environment, State
from maskless.errors import MasklessError


def with_prudence(env: Environment, number: float | Float[Array, ""]) -> Environment:
    """A copy of the environment whose mask has these parts; the environment itself if the number
    is below 0, or if it has no such rules. The number may be traced."""
    as_made = isinstance(number, int | float) and number < 0
    if as_made or not prudent_rules(env):
        return env
    other = copy.copy(env)
    other.validity = partial(_validity, env, number)  # type: ignore[method-assign]
    return other


def _validity(env: Environment, number: Any, state: State, params: Any = None) -> Array:
    as_made = env.validity(state, params)
    return jnp.where(number < 0, as_made, in_parts(env, number, state, params))


def in_parts(
    env: Environment, number: float | Float[Array, ""], state: State, params: Any = None
) -> Bool[Array, " actions"]:
    """What is feasible, without what the rules of this number forbid."""
    valid, waste = env.feasible(state, params), env.waste(state)
    for place, name in enumerate(env.prudent_rules):
        applies = jnp.floor(number / 2.0**place) % 2 == 1
        valid = valid & ~(waste[name] & applies)
    return valid


def prudent_rules(env: Any) -> Mapping[str, str]:
    """Those of anything that follows the contract: name -> reason."""
    return getattr(env, "prudent_rules", {})


def check_prudence(env: Any, number: float, name: str) -> None:
    """Refuses a number, asked for by the condition `name`, that stands for no rules of `env`."""
    rules = prudent_rules(env)
    if number >= 0 and not rules:
        raise MasklessError(
            f"{env.id} has no prudent rules (Environment.prudent_rules), which {name!r} asks for."
        )
    if number >= 2 ** len(rules):
        listed = " + ".join(f"{2**place} ({rule})" for place, rule in enumerate(rules))
        raise MasklessError(
            f"prudence in {name!r} must be at most {2 ** len(rules) - 1} in {env.id}: {listed}."
        )
