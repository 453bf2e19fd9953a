"""One step of a policy as a program for other runtimes, its predicted mask inside.

Inputs: the fields of the observation; `allowed`, what may be chosen at all; `excluded`, what has
just failed (`RECIPE`); for networks with a memory also the carry and `reset`. Outputs: `log_probs`
(-1e9 where masked), `validity`, `mask`, `logits` (before any mask), `clone_log_probs` where there
is a cloned head, and the next carry. Everything begins with the batch axis. The caller draws the
action and passes the carry on.
"""

import dataclasses
import importlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from maskless import masking
from maskless.errors import MasklessError
from maskless.files import output_folder, write_bytes
from maskless.nets import Hybrid
from maskless.policy.acting import Policy

NEXT = "next_"
"""The output `next_NAME` is the input NAME of the step after."""
RECIPE = (
    "allowed: all True, unless you know better. excluded: all False at the start of an episode;"
    " after each step, first all False if the observation has changed (apart from clock_fields) or"
    " if excluded[action] was True (then all had been tried), and then excluded[action] = True if"
    " it has not changed."
)
"""What the caller does with the inputs that no network computes. The same as `policy.act` does."""
TOLERANCE = 1e-4
_NO_CLASSIFIER = (
    "No classifier was trained, so that the mask allows all that no rule forbids and that is"
    " allowed and not excluded; validity means nothing."
)
_AT_THRESHOLD = 1e-5
"""So close to a threshold, rounding may decide."""

Outputs = dict[str, np.ndarray]
Runner = Callable[[dict[str, np.ndarray]], Outputs]


@dataclasses.dataclass(frozen=True)
class StepFunction:
    """A step of a policy as a function of arrays only."""

    call: Callable[..., tuple[Array, ...]]
    inputs: dict[str, jax.ShapeDtypeStruct]
    """Without the batch axis."""
    outputs: tuple[str, ...]
    carry: tuple[str, ...]
    """The inputs that are the memory: zeros (False) at the start."""

    def shapes(self, batch: Any) -> list[jax.ShapeDtypeStruct]:
        """Of the inputs for a batch of this size, a number or a symbol."""
        return [jax.ShapeDtypeStruct((batch, *x.shape), x.dtype) for x in self.inputs.values()]

    def describe(self, policy: Policy) -> dict[str, str]:
        """What a program needs to use it, as text."""
        about = {
            "action_names": policy.action_names,
            "inputs": {name: [str(x.dtype), x.shape] for name, x in self.inputs.items()},
            "encodings": {f.name: f.encoding for f in policy.fields if f.encoding},
            "outputs": self.outputs,
            "thresholds": policy.artifact.thresholds,
            "overrides": [str(rule) for rule in policy.overrides],
            "classifier": policy.artifact.classifier,
            "clock_fields": policy.clock_fields,
            "recipe": RECIPE if policy.artifact.classifier else f"{RECIPE} {_NO_CLASSIFIER}",
            "carry": self.carry,
        }
        return {name: json.dumps(value) for name, value in about.items()}


def step_function(policy: Policy) -> StepFunction:
    """One step of the policy under its predicted mask, with its weights inside."""
    start = policy.net.initial_carry(1)
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(start)]
    keystr = jax.tree_util.keystr
    carry_names = tuple(
        f"carry.{keystr(path, simple=True, separator='.')}".rstrip(".") for path in paths
    )
    leaves, structure = jax.tree.flatten(start)
    recurrent = getattr(policy.net, "recurrent", True)
    inputs = {f.name: jax.ShapeDtypeStruct(f.shape, f.dtype) for f in policy.fields}
    per_action = jax.ShapeDtypeStruct((len(policy.action_names),), np.bool_)
    others = {"allowed": per_action, "excluded": per_action}
    for name, leaf in zip(carry_names, leaves, strict=True):
        others[name] = jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)
    if recurrent:
        others["reset"] = jax.ShapeDtypeStruct((), np.bool_)
    for name in inputs.keys() & others.keys():
        raise MasklessError(f"The observation field {name!r} has the name of another input.")
    inputs |= others

    def call(*arrays: Array) -> tuple[Array, ...]:
        given = dict(zip(inputs, arrays, strict=True))
        observed = arrays[: len(policy.fields)]
        reset = given["reset"] if recurrent else jnp.zeros(observed[0].shape[:1], bool)
        carry = jax.tree.unflatten(structure, [given[name] for name in carry_names])
        carry, heads = policy.forward(policy.params, carry, observed, reset)
        how: Any = {"allowed": given["allowed"], "tried": given["excluded"].astype(jnp.int32)}
        predicted = policy.make_mask(observed, heads.validity, **how)
        log_probs = masking.masked_log_softmax(heads.logits, predicted.mask)
        outputs = [log_probs, predicted.validity, predicted.mask, heads.logits]
        if policy.artifact.clone:
            free = policy.make_mask(observed, heads.validity, "clone", **how)
            outputs.append(masking.masked_log_softmax(heads.clone, free.mask))
        return *outputs, *jax.tree.leaves(carry)

    clone = ["clone_log_probs"] if policy.artifact.clone else []
    next_carry = [NEXT + name for name in carry_names]
    names = ("log_probs", "validity", "mask", "logits", *clone, *next_carry)
    return StepFunction(call, inputs, names, carry_names)


def to_stablehlo(policy: Policy) -> bytes:
    """For `jax.export.deserialize(...).call(*inputs)`, on CPUs and NVIDIA GPUs, any batch size."""
    step = step_function(policy)
    (batch,) = jax.export.symbolic_shape("batch")
    exported = jax.export.export(jax.jit(step.call), platforms=("cpu", "cuda"))
    return bytes(exported(*step.shapes(batch)).serialize())


def to_onnx(policy: Policy, batch: int | None = None) -> bytes:
    """An ONNX model, for any batch size or for this one.

    The hybrid needs a number: the exporter cannot pad arrays whose batch size is open.
    """
    if batch is not None and batch < 1:
        raise MasklessError(f"batch must be at least 1, not {batch}.")
    if batch is None and needs_batch(policy):
        raise MasklessError(
            "ONNX export of the hybrid needs a fixed batch size: say which, such as --batch 1."
        )
    jax2onnx = _optional("jax2onnx")
    logging.getLogger("onnx_ir.serde").setLevel(logging.ERROR)  # notes on its own graph, no errors
    step = step_function(policy)
    shapes = step.shapes(jax.export.symbolic_shape("batch")[0] if batch is None else batch)
    call = step.call
    if batch is not None:
        # Traced here, since the exporter replaces functions of jax.numpy that flax's scan relies
        # on. For an open batch size the exporter must do it: it pads arrays by those functions.
        traced = jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(call)(*shapes))

        def call(*arrays: Array) -> tuple[Array, ...]:
            return tuple(traced(*arrays))

    model = jax2onnx.to_onnx(
        call,
        shapes,
        model_name="policy",
        input_names=list(step.inputs),
        output_names=list(step.outputs),
    )
    for key, value in step.describe(policy).items():
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()


def needs_batch(policy: Policy) -> bool:
    """Whether ONNX export works for a fixed batch size only."""
    return isinstance(policy.net, Hybrid)


def stablehlo_runner(policy: Policy, content: bytes) -> Runner:
    """Runs what `to_stablehlo` made: named arrays in, named arrays out."""
    step = step_function(policy)
    exported = jax.export.deserialize(bytearray(content))

    def run(inputs: dict[str, np.ndarray]) -> Outputs:
        outputs = exported.call(*(inputs[name] for name in step.inputs))
        return dict(zip(step.outputs, map(np.asarray, outputs), strict=True))

    return run


def onnx_runner(content: bytes) -> Runner:
    """Runs an ONNX model on the CPU: named arrays in, named arrays out."""
    onnxruntime = _optional("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of constants that it removes
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    needed = {entry.name for entry in session.get_inputs()}

    def run(inputs: dict[str, np.ndarray]) -> Outputs:
        used = {name: array for name, array in inputs.items() if name in needed}
        return dict(zip(names, session.run(None, used), strict=True))

    return run


def compare(
    policy: Policy, run: Runner, *, batch: int = 16, steps: int = 4, seed: int = 0
) -> tuple[float, int]:
    """Steps an exported policy beside the native one on random observations, with resets.

    The largest difference of log-probabilities, validities and carries (relative to numbers above
    1); and how many entries of
    the masks differ, apart from predictions so close to a threshold that rounding decides.
    """
    rng = np.random.default_rng(seed)
    step = step_function(policy)
    native = jax.jit(step.call)
    carry = {
        name: np.zeros((batch, *step.inputs[name].shape), step.inputs[name].dtype)
        for name in step.carry
    }
    difference, wrong = 0.0, 0
    for _ in range(steps):
        inputs = {
            n: carry[n] if n in carry else _random(rng, batch, x) for n, x in step.inputs.items()
        }
        ours = dict(zip(step.outputs, map(np.asarray, native(*inputs.values())), strict=True))
        theirs = run(inputs)
        near = _near_threshold(policy, ours["validity"])
        wrong += int(np.sum((ours["mask"] != theirs["mask"]) & ~near))
        comparable = (ours["mask"] == theirs["mask"]).all(-1)
        for name in step.outputs:
            one, other = ours[name][comparable], theirs[name][comparable]
            if name != "mask" and one.size:
                one, other = one.astype(np.float64), other.astype(np.float64)
                # Large numbers, such as the logits of what is certain, are rounded by their size.
                gap = np.abs(one - other) / np.maximum(1.0, np.abs(one))
                difference = max(difference, float(gap.max()))
        carry = {name: theirs[NEXT + name] for name in step.carry}
    return difference, wrong


def _near_threshold(policy: Policy, validity: np.ndarray) -> np.ndarray:
    """Rows are marked as a whole: one entry can make a fallback of a row."""
    thresholds: list[list[float]] = [[] if t is None else [t] for t in policy.artifact.thresholds]
    for rule in policy.overrides:
        if rule.threshold is not None:
            thresholds[policy.action_names.index(rule.action)].append(rule.threshold)
    near = [
        np.any(np.abs(validity[:, n, None] - np.array(of_action)) < _AT_THRESHOLD, axis=-1)
        for n, of_action in enumerate(thresholds)
    ]
    return np.any(near, axis=0)[:, None]


def _random(rng: np.random.Generator, batch: int, like: jax.ShapeDtypeStruct) -> np.ndarray:
    shape = (batch, *like.shape)
    if like.dtype == np.bool_:
        return rng.random(shape) < 0.3
    if np.issubdtype(like.dtype, np.integer):
        return rng.integers(0, 10, shape).astype(like.dtype)
    return rng.normal(size=shape).astype(like.dtype)


def write_export(
    policy: Policy, path: Path, format: str, batch: int | None = None
) -> tuple[float, int]:
    """Writes "stablehlo" or "onnx" to `path` if it does what the policy does. Returns what
    `compare` says."""
    if format == "stablehlo":
        content = to_stablehlo(policy)
        run = stablehlo_runner(policy, content)
    else:
        content = to_onnx(policy, batch)
        run = onnx_runner(content)
    difference, wrong = compare(policy, run, batch=16 if batch is None else batch)
    if not difference <= TOLERANCE or wrong:
        raise MasklessError(
            f"The exported policy differs from the native one by {difference:.1e} and in {wrong}"
            " entries of the mask, so it was not written: please report this."
        )
    output_folder(path.parent)
    write_bytes(path, content)
    return difference, wrong


def _optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MasklessError(
            f"This needs the package {module}: pip install onnx onnxruntime jax2onnx."
        ) from error
