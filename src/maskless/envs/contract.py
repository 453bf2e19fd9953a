"""Does an environment keep the contract? Asked without playing: shapes and types only."""

from typing import Any

import jax
import jax.numpy as jnp

from maskless.envs.base import Environment
from maskless.errors import MasklessError
from maskless.nets.encoders import Encoded


def check_contract(env: Environment) -> None:
    """Refuses an environment whose functions do not fit together, with what to mend."""
    key = jax.random.key(0)
    observation, state = jax.eval_shape(env.reset, key)
    mask = jax.eval_shape(env.validity, state)
    if _kind(mask) != f"bool[{env.num_actions}]":
        raise MasklessError(
            f"{env.id}: validity must give bool[{env.num_actions}], one entry per action name;"
            f" it gives {_kind(mask)}."
        )
    seen, after, reward, done, _ = jax.eval_shape(env.step, key, state, jnp.int32(0))
    _same(env, "step changes the type of the state", state, after)
    _same(env, "step and reset give different observations", observation, seen)
    _same(
        env,
        "observe and reset give different observations",
        observation,
        jax.eval_shape(env.observe, state),
    )
    _same(
        env,
        "the encoder reads what record gives otherwise than an observation",
        _features(env, observation),
        _features(env, jax.eval_shape(env.record, state)),
    )
    if reward.shape != () or _kind(done) != "bool[]":
        raise MasklessError(
            f"{env.id}: step must give a reward of shape () and a done of type bool[];"
            f" it gives {_kind(reward)} and {_kind(done)}."
        )


def _features(env: Environment, seen: Any) -> Any:
    """What the environment's encoder makes of one observation, or of what is recorded of it."""
    encoded = Encoded(env.encoder, env.num_actions)
    sequence = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, 1, *x.shape), x.dtype), seen)
    return jax.eval_shape(encoded.init_with_output, jax.random.key(0), sequence)[0]


def _same(env: Environment, what: str, expected: Any, actual: Any) -> None:
    expected_leaves = dict(jax.tree.leaves_with_path(expected))
    actual_leaves = dict(jax.tree.leaves_with_path(actual))
    if expected_leaves.keys() != actual_leaves.keys():
        odd = expected_leaves.keys() ^ actual_leaves.keys()
        places = ", ".join(sorted(jax.tree_util.keystr(path) for path in odd)[:3])
        raise MasklessError(f"{env.id}: {what}: only one of them has {places}.")
    for path, leaf in expected_leaves.items():
        if _kind(leaf) != _kind(actual_leaves[path]):
            raise MasklessError(
                f"{env.id}: {what}: {jax.tree_util.keystr(path) or 'it'} is {_kind(leaf)}"
                f" first and then {_kind(actual_leaves[path])}."
            )


def _kind(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}".replace(" ", "")
