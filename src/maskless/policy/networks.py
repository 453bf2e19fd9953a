"""How policy.json names the network that its weights belong to, and how it is made again.

A network of ours is rebuilt from its name and sizes. Of a user's own class the file has only the
name: the caller of `load` passes the network (or its encoder), and nothing is ever imported because
a file says so.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict
from jaxtyping import Array, PRNGKeyArray

from maskless.artifact.fields import Field
from maskless.artifact.folder import POLICY, STUDENT, check_weight
from maskless.errors import MasklessError, require
from maskless.nets import ENCODERS, NETS, Encoder, ModuleEncoder, Network, make_net
from maskless.nets.deployable import Deployable
from maskless.policy.observations import rebuild

CUSTOM = "custom"
"""The name of networks and encoders that are not ours."""
_USUAL = ("num_actions", "encoder", "width", "precision", "parent", "name")
_LARGEST_OPTION = 2**16


def acting_net(net: Any) -> Any:
    """The network as it acts: the weights are float32, and outside training so is the rest."""
    if isinstance(net, Deployable):
        return net.clone(policy=acting_net(net.policy))
    return net.clone(precision="float32") if type(net) in NETS.values() else net


def describe_net(net: Any, num_actions: int) -> dict[str, Any]:
    """The entry "net" of policy.json."""
    if isinstance(net, Deployable):
        student = {"width": net.student_width}
        if net.comparisons:  # left out otherwise, as in artifacts from before there were any
            student["comparisons"] = net.comparisons
        return describe_net(net.policy, num_actions) | {STUDENT: student}
    name = next((name for name, kind in NETS.items() if type(net) is kind), CUSTOM)
    if name == CUSTOM:
        return {"name": CUSTOM, "class": _class_name(net), "num_actions": num_actions}
    encoder = net.encoder.for_policy()
    own = ENCODERS.get(encoder.name) != encoder
    entry = {
        "name": name,
        "num_actions": num_actions,
        "encoder": CUSTOM if own else encoder.name,
        "width": net.width,
    }
    if own:
        module = encoder.module if isinstance(encoder, ModuleEncoder) else encoder
        entry["encoder_class"] = _class_name(module)
    options = {
        field.name: getattr(net, field.name)
        for field in dataclasses.fields(net)
        if field.name not in _USUAL and getattr(net, field.name) != field.default
    }
    return entry | ({"options": options} if options else {})


def restore_net(
    entry: Mapping[str, Any],
    num_actions: int,
    fields: tuple[Field, ...],
    weights: Mapping[str, np.ndarray],
    net: Any = None,
    encoder: Any = None,
) -> Any:
    """The network that an entry describes, its weights checked.

    `net`, `encoder`: those of the user's own, if the policy has such; for a network of ours they
    must be what the file says.
    """
    if isinstance(net, nn.Module) and not hasattr(net, "initial_carry"):
        net, encoder = None, net  # as `maskless.train` takes it
    if isinstance(encoder, nn.Module):
        encoder = ModuleEncoder(encoder)
    if STUDENT in entry:
        return _with_student(entry, num_actions, fields, weights, net, encoder)
    if entry.get("name") == CUSTOM:
        restored = _own_net(entry, num_actions, net, encoder)
    else:
        encoder = getattr(net, "encoder", None) if encoder is None else encoder
        restored = _our_net(entry, num_actions, fields, weights, encoder)
        require(
            net is None or acting_net(net) == restored,
            f"it was saved from {_short(restored)}, and the network given is {_short(net)}",
        )
    _check_all_weights(restored, fields, weights)
    return restored


def _check_all_weights(
    net: Any, fields: tuple[Field, ...], weights: Mapping[str, np.ndarray]
) -> None:
    try:
        expected = _expected_weights(net, fields)
    except TypeError:  # a module of the user's own that has no hash
        expected = _expected_weights.__wrapped__(net, fields)
    _check_weights(weights, expected)


def _with_student(
    entry: Mapping[str, Any],
    num_actions: int,
    fields: tuple[Field, ...],
    weights: Mapping[str, np.ndarray],
    net: Any,
    encoder: Any,
) -> Deployable:
    """The policy's network as above, and the student beside it."""
    inner = {name: value for name, value in entry.items() if name != STUDENT}
    about = entry[STUDENT]
    width: Any = about.get("width") if isinstance(about, dict) else None
    sizes = {size for array in weights.values() for size in array.shape}
    require(
        type(width) is int and width in sizes, f"no weights have the width {width!r} of its student"
    )
    slots: Any = about.get("comparisons", 0)
    require(
        type(slots) is int and (slots == 0 or slots in sizes),
        f"no weights are of the {slots!r} comparisons of its student",
    )
    prefix = f"{POLICY}/"
    of_policy = {
        name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)
    }
    net = net.policy if isinstance(net, Deployable) else net
    policy = restore_net(inner, num_actions, fields, of_policy, net, encoder)
    restored = Deployable.of(policy, num_actions, width=width, comparisons=slots)
    _check_all_weights(restored, fields, weights)
    return restored


def _own_net(entry: Mapping[str, Any], num_actions: int, net: Any, encoder: Any) -> Any:
    own = str(entry.get("class"))
    require(
        net is not None and encoder is None,
        f"it was saved from a network of your own, {own}: pass that network, as in"
        f" load(..., net={own.rpartition(':')[2]}(...))",
    )
    follows = isinstance(net, nn.Module) and hasattr(net, "initial_carry")
    require(follows, "the network given is no Flax module with `initial_carry`")
    actions = getattr(net, "num_actions", num_actions)
    same = actions == num_actions
    require(same, f"the network given has {actions} actions, and the policy {num_actions}")
    return net


def _our_net(
    entry: Any,
    num_actions: int,
    fields: tuple[Field, ...],
    weights: Mapping[str, np.ndarray],
    encoder: Encoder | None,
) -> Network:
    """Sizes must be seen in the weights before anything of that size is made."""
    name, reads, width = (entry.get(key) for key in ("name", "encoder", "width"))
    named = isinstance(name, str) and isinstance(reads, str) and type(width) is int
    require(named, f"its network is not one of {', '.join(NETS)} with a width")
    sizes = {size for array in weights.values() for size in array.shape}
    require(width in sizes, f"no weights have the width {width} of its network")
    inputs = sum(math.prod(field.shape) for field in fields)
    readable = reads != "flat" or inputs in sizes
    require(readable, f"no weights read the {inputs} numbers of its observation")
    own = str(entry.get("encoder_class"))
    require(
        reads != CUSTOM or encoder is not None,
        f"its network reads observations with an encoder of your own, {own}: pass that encoder, as"
        f" in load(..., encoder={own.rpartition(':')[2]}())",
    )
    require(
        reads == CUSTOM or encoder in (None, ENCODERS.get(reads)),
        f"its network reads observations with the encoder {reads!r}, not the one given",
    )
    chosen: Any = encoder if reads == CUSTOM else reads
    net: Any = make_net(name, num_actions=num_actions, encoder=chosen, width=width)
    return net.clone(**_check_options(net, entry.get("options", {})))


def _check_options(net: Network, options: Any) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(net)} - set(_USUAL)
    right = (
        isinstance(options, dict)
        and options.keys() <= known
        and all(_fits(getattr(net, name), value) for name, value in options.items())
    )
    require(right, f"the options {options!r} are none of its network")
    return options


def _fits(usual: Any, value: Any) -> bool:
    """Switches are switches, and sizes are sizes."""
    return type(value) is type(usual) and 1 <= value <= _LARGEST_OPTION


@functools.lru_cache(maxsize=8)
def _expected_weights(net: Any, fields: tuple[Field, ...]) -> dict[str, jax.ShapeDtypeStruct] | str:
    """Shape and type of all weights of the network; a sentence when it cannot read such fields."""
    leaves = [jax.ShapeDtypeStruct((1, 1, *field.shape), field.dtype) for field in fields]

    def init(key: PRNGKeyArray, leaves: list[Array]) -> Any:
        observation = rebuild(getattr(net, "encoder", None), fields, leaves)
        return net.init(key, net.initial_carry(1), observation, jnp.ones((1, 1), bool))

    try:
        shapes = jax.eval_shape(init, jax.random.key(0), leaves)
    except MasklessError as error:
        return str(error)
    except Exception as error:  # the user's code can fail in any way
        return f"its network cannot read its observation ({type(error).__name__}: {error})"
    return flatten_dict(shapes["params"], sep="/")


def _check_weights(
    weights: Mapping[str, np.ndarray], expected: dict[str, jax.ShapeDtypeStruct] | str
) -> None:
    if isinstance(expected, str):
        raise MasklessError(expected)
    for name in sorted(expected.keys() | weights.keys()):
        require(name in expected, f"its weights and its network differ in {name!r}")
        check_weight(name, weights, expected[name].shape, expected[name].dtype)


def _class_name(module: Any) -> str:
    return f"{type(module).__module__}:{type(module).__qualname__}"


def _short(net: Any) -> str:
    """A network in one line."""
    if not dataclasses.is_dataclass(net):
        return str(net)
    shown = [f for f in dataclasses.fields(net) if f.name not in ("parent", "name", "precision")]
    return f"{type(net).__name__}({', '.join(f'{f.name}={getattr(net, f.name)}' for f in shown)})"
