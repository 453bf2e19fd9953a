"""One step of a policy as a program for other runtimes, its predicted mask inside.

Inputs: the fields of the observation, for networks with a memory also the carry and `reset`.
Outputs: `log_probs` (-1e9 where masked), `validity`, `mask`, and the next carry. Everything begins
with the batch axis. The caller draws the action and passes the carry on.
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
import numpy as np
from jaxtyping import Array

from maskless import masking
from maskless.errors import MasklessError
from maskless.policy.acting import Policy

NEXT = "next_"
"""The output `next_NAME` is the input NAME of the step after."""
TOLERANCE = 1e-4
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
        """What somebody needs to use it, as text."""
        return {
            "action_names": json.dumps(list(policy.action_names)),
            "inputs": json.dumps(
                {name: [str(x.dtype), list(x.shape)] for name, x in self.inputs.items()}
            ),
            "outputs": json.dumps(list(self.outputs)),
            "thresholds": json.dumps(list(policy.artifact.thresholds)),
            "overrides": json.dumps([str(rule) for rule in policy.overrides]),
            "carry": json.dumps(list(self.carry)),
        }


def step_function(policy: Policy) -> StepFunction:
    """One step of the policy under its predicted mask, with its weights inside."""
    one = policy.initial_carry(1)
    names = [
        "carry." + jax.tree_util.keystr(path, simple=True, separator=".")
        for path, _ in jax.tree_util.tree_leaves_with_path(one)
    ]
    carry_names = tuple(name.rstrip(".") for name in names)
    leaves, structure = jax.tree.flatten(one)
    inputs = {f.name: jax.ShapeDtypeStruct(f.shape, f.dtype) for f in policy.fields}
    for name, leaf in zip(carry_names, leaves, strict=True):
        inputs[name] = jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)
    recurrent = getattr(policy.net, "recurrent", True)
    if recurrent:
        inputs["reset"] = jax.ShapeDtypeStruct((), np.bool_)
    fields = len(policy.fields)

    def call(*arrays: Array) -> tuple[Array, ...]:
        observed, memory = arrays[:fields], arrays[fields : fields + len(leaves)]
        reset = arrays[-1] if recurrent else jax.numpy.zeros(observed[0].shape[:1], bool)
        memory = jax.tree.unflatten(structure, memory)
        carry, heads = policy.forward(policy.params, memory, observed, reset)
        made = policy.predict_mask(observed, heads.validity)
        log_probs = masking.masked_log_softmax(heads.logits, made.mask)
        return log_probs, made.validity, made.mask, *jax.tree.leaves(carry)

    outputs = ("log_probs", "validity", "mask", *(NEXT + name for name in carry_names))
    return StepFunction(call, inputs, outputs, carry_names)


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
    jax2onnx = _needed("jax2onnx")
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
    return type(policy.net).__name__ == "Hybrid"


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
    onnxruntime = _needed("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of constants that it removes
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = {entry.name for entry in session.get_inputs()}

    def run(inputs: dict[str, np.ndarray]) -> Outputs:
        used = {name: array for name, array in inputs.items() if name in wanted}
        return dict(zip(names, session.run(None, used), strict=True))

    return run


def compare(
    policy: Policy, run: Runner, *, batch: int = 16, steps: int = 4, seed: int = 0
) -> tuple[float, int]:
    """Steps an exported policy beside the native one on random observations, with resets.

    The largest difference of log-probabilities, validities and carries; and how many entries of
    the masks differ, apart from predictions so close to a threshold that rounding decides.
    """
    dice = np.random.default_rng(seed)
    step = step_function(policy)
    native = jax.jit(step.call)
    carry = {
        name: np.zeros((batch, *step.inputs[name].shape), step.inputs[name].dtype)
        for name in step.carry
    }
    difference, wrong = 0.0, 0
    for _ in range(steps):
        inputs = {
            n: carry[n] if n in carry else _random(dice, batch, x) for n, x in step.inputs.items()
        }
        ours = dict(zip(step.outputs, map(np.asarray, native(*inputs.values())), strict=True))
        theirs = run(inputs)
        near = _near_threshold(policy, ours["validity"])
        wrong += int(np.sum((ours["mask"] != theirs["mask"]) & ~near))
        comparable = (ours["mask"] == theirs["mask"]).all(-1)
        for name in step.outputs:
            one, other = ours[name][comparable], theirs[name][comparable]
            if name != "mask" and one.size:
                gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
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
        np.any(np.abs(validity[:, n, None] - np.array(all_of)) < _AT_THRESHOLD, axis=-1)
        for n, all_of in enumerate(thresholds)
    ]
    return np.any(near, axis=0)[:, None]


def _random(dice: np.random.Generator, batch: int, like: jax.ShapeDtypeStruct) -> np.ndarray:
    shape = (batch, *like.shape)
    if like.dtype == np.bool_:
        return dice.random(shape) < 0.3
    if np.issubdtype(like.dtype, np.integer):
        return dice.integers(0, 10, shape).astype(like.dtype)
    return dice.normal(size=shape).astype(like.dtype)


def write_export(
    policy: Policy, path: Path, format: str, batch: int | None = None
) -> tuple[float, int]:
    """Writes "stablehlo" or "onnx" to `path` once it has been seen to do what the policy does.
    What `compare` found."""
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise MasklessError(f"Cannot write {path} ({error.strerror}).") from error
    return difference, wrong


def _needed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MasklessError(
            f"This needs the package {module}: pip install 'maskless[export]'."
        ) from error
