"""Exported policies do what the native one does."""

import json

import jax
import numpy as np
import pytest
from policy.made import CorridorLike, make_policy

from maskless.cli.export import Export
from maskless.errors import MasklessError
from maskless.policy.acting import load
from maskless.policy.artifact import change_policy
from maskless.policy.export import (
    compare,
    onnx_runner,
    stablehlo_runner,
    step_function,
    to_onnx,
    to_stablehlo,
    write_export,
)

RULES = [
    {"action": "jump", "effect": "never", "threshold": None, "when": "observation[1] >= 3"},
    {"action": "rest", "effect": "threshold", "threshold": 0.2, "when": None},
    {"action": "wait", "effect": "always", "threshold": None, "when": "observation[2] != 5"},
]
CHANGES = {"thresholds": [0.5, 0.4, None, 0.6, 0.5], "overrides": RULES}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An MLP with thresholds and rules."""
    folder = make_policy(tmp_path_factory.mktemp("small") / "policy", width=8)
    change_policy(folder, CHANGES)
    return load(folder)


@pytest.fixture(scope="module")
def on_glyphs(tmp_path_factory):
    """A GRU with many observation fields."""
    folder = tmp_path_factory.mktemp("glyphs") / "policy"
    return load(make_policy(folder, "gru", CorridorLike(), width=8))


def check_equal(policy, run, batch):
    difference, wrong = compare(policy, run, batch=batch)
    assert difference <= 1e-4
    assert wrong == 0


def test_stablehlo_equals_native_for_any_batch(small):
    run = stablehlo_runner(small, to_stablehlo(small))
    for batch in (1, 7):
        check_equal(small, run, batch)


def test_onnx_equals_native_for_any_batch(small, on_glyphs):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("jax2onnx")
    pytest.importorskip("onnxruntime")
    content = to_onnx(small)
    check_equal(small, onnx_runner(content), 1)
    check_equal(on_glyphs, onnx_runner(to_onnx(on_glyphs)), 7)
    model = onnx.load_from_string(content)
    about = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert about["action_names"] == list(small.action_names)
    assert [entry.name for entry in model.graph.input] == [
        "observation",
        "allowed",
        "excluded",
    ]
    assert [entry.name for entry in model.graph.output] == [
        "log_probs",
        "validity",
        "mask",
        "logits",
    ]
    assert "excluded" in about["recipe"]


def test_onnx_of_the_hybrid_equals_native_for_a_fixed_batch(tmp_path):
    pytest.importorskip("jax2onnx")
    pytest.importorskip("onnxruntime")
    folder = make_policy(tmp_path / "policy", "hybrid", width=8)
    change_policy(folder, CHANGES)
    policy = load(folder)
    with pytest.raises(MasklessError, match="needs a fixed batch size"):
        to_onnx(policy)
    check_equal(policy, onnx_runner(to_onnx(policy, 3)), 3)


def test_the_step_is_what_act_does(on_glyphs):
    policy = on_glyphs
    step = step_function(policy)
    inputs = {name: np.zeros((7, *x.shape), x.dtype) for name, x in step.inputs.items()}
    inputs["allowed"] = ~inputs["allowed"]
    outputs = dict(zip(step.outputs, jax.jit(step.call)(*inputs.values()), strict=True))
    observation = {f.name: np.zeros((7, *f.shape), f.dtype) for f in policy.fields}
    _, carry, info = policy.act(observation, None, jax.random.key(0))
    np.testing.assert_allclose(np.exp(outputs["log_probs"]), info.probabilities, atol=1e-6)
    np.testing.assert_array_equal(outputs["mask"], info.mask)
    for name, leaf in zip(step.carry, jax.tree.leaves(carry.network), strict=True):
        np.testing.assert_allclose(outputs["next_" + name], leaf, atol=1e-6)


def test_compare_notices_differences(small):
    step = step_function(small)
    native = jax.jit(step.call)

    def changed(**changes):
        def run(inputs):
            outputs = map(np.asarray, native(*inputs.values()))
            named = dict(zip(step.outputs, outputs, strict=True))
            return named | {name: change(named[name]) for name, change in changes.items()}

        return run

    assert compare(small, changed(), batch=3) == (0.0, 0)
    assert compare(small, changed(mask=np.invert), batch=3)[1] > 0
    assert compare(small, changed(validity=lambda x: x + 1e-2), batch=3)[0] > 1e-3


def test_the_command_writes_what_it_checked(tmp_path, capsys):
    folder = make_policy(tmp_path / "run" / "policy", width=8)
    Export(tmp_path / "run", "stablehlo").run()
    assert (folder / "policy.stablehlo").stat().st_size > 1000
    Export(tmp_path / "run", out=tmp_path / "copy").run()
    assert load(tmp_path / "copy").action_names == load(folder).action_names
    with pytest.raises(MasklessError, match="--batch is for"):
        Export(tmp_path / "run", batch=2).run()


def test_nothing_is_written_that_differs(tmp_path, monkeypatch):
    policy = load(make_policy(tmp_path / "policy", width=8))
    monkeypatch.setattr("maskless.policy.export.compare", lambda *a, **k: (0.5, 0))
    with pytest.raises(MasklessError, match="was not written"):
        write_export(policy, tmp_path / "policy.stablehlo", "stablehlo")
    assert not (tmp_path / "policy.stablehlo").exists()
