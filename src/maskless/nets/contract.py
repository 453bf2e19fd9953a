"""Does a network keep the contract of nets/base.py? Asked by shapes and types alone."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from maskless.errors import MasklessError
from maskless.nets.heads import Heads, complete


def check_network(net: Any, num_actions: int, observation_shapes: PyTree) -> None:
    """Refuses a network that does not keep the contract, with what to mend.

    `observation_shapes`: of one observation, as `env.observation_shapes` gives them.
    """
    time, batch = 2, 3
    name = type(net).__name__
    if not isinstance(net, nn.Module) or not hasattr(net, "initial_carry"):
        raise MasklessError(f"{name} is no network: it must be a Flax module with initial_carry.")
    carry = jax.eval_shape(lambda: net.initial_carry(batch))
    if any(x.shape[:1] != (batch,) for x in jax.tree.leaves(carry)):
        raise MasklessError(f"{name}: every array of initial_carry(batch) must begin with batch.")
    obs = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((time, batch, *x.shape), x.dtype), observation_shapes
    )
    reset = jax.ShapeDtypeStruct((time, batch), bool)
    outputs, _ = jax.eval_shape(net.init_with_output, jax.random.key(0), carry, obs, reset)
    if not (isinstance(outputs, tuple) and len(outputs) == 2 and isinstance(outputs[1], Heads)):
        raise MasklessError(f"{name}: a call must return (carry, Heads).")
    after, heads = outputs[0], jax.eval_shape(complete, outputs[1])
    same_structure = str(jax.tree.structure(after)) == str(jax.tree.structure(carry))
    if not same_structure or _kinds(after) != _kinds(carry):
        raise MasklessError(
            f"{name}: a call must return a carry like initial_carry, {_kinds(carry)}; it returns"
            f" {_kinds(after)}."
        )
    one_each = {"value": (), "intrinsic_value": ()}
    one_per_action = {"logits": (num_actions,), "validity": (num_actions,)}
    if heads.clone is not None:
        one_per_action["clone"] = (num_actions,)
    vectors = {"features": ("n",), "hidden": ("n",)}
    for head, last_axes in (one_each | one_per_action | vectors).items():
        array, shape = getattr(heads, head), (time, batch, *last_axes)
        fits = len(array.shape) == len(shape) and all(
            expected in ("n", size) for expected, size in zip(shape, array.shape, strict=True)
        )
        if not fits or not jnp.issubdtype(array.dtype, jnp.floating):
            raise MasklessError(
                f"{name}: {head} must be floats [{', '.join(map(str, shape))}] for sequences"
                f" [{time}, {batch}] and {num_actions} actions; it is {_kinds(array)[0]}."
            )


def _kinds(tree: PyTree) -> list[str]:
    return [f"{x.dtype}{list(x.shape)}" for x in jax.tree.leaves(tree)]
