"""Exported policies do what the native one does."""

import json

import jax
import numpy as np
import pytest
from deploy.made import corridor, make_policy

from maskless.commands.export import Export
from maskless.deploy.artifact import change_policy
from maskless.deploy.export import (
    compare,
    needs_batch,
    onnx_runner,
    stablehlo_runner,
    step_function,
    to_onnx,
    to_stablehlo,
    write_export,
)
from maskless.deploy.policy import load
from maskless.errors import MasklessError

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


@pytest.fixture(scope="module", params=["mlp", "gru", "hybrid"])
def policy(request, small, tmp_path_factory):
    """Every network; the GRU reads glyphs and other fields, the hybrid has rules."""
    if request.param == "mlp":
        return small
    folder = tmp_path_factory.mktemp("policy") / "policy"
    make_policy(folder, request.param, corridor() if request.param == "gru" else None, width=8)
    if request.param == "hybrid":
        change_policy(folder, CHANGES)
    return load(folder)


def check_equal(policy, run, batch):
    difference, wrong = compare(policy, run, batch=batch)
    assert difference <= 1e-4
    assert wrong == 0


def test_stablehlo_equals_native(policy):
    check_equal(policy, stablehlo_runner(policy, to_stablehlo(policy)), 7)


def test_onnx_equals_native_in_onnxruntime(policy):
    pytest.importorskip("jax2onnx")
    pytest.importorskip("onnxruntime")
    fixed = needs_batch(policy)
    if fixed:
        with pytest.raises(MasklessError, match="needs a fixed batch size"):
            to_onnx(policy)
    check_equal(policy, onnx_runner(to_onnx(policy, 7 if fixed else None)), 7)


def test_both_take_any_batch(small):
    run = stablehlo_runner(small, to_stablehlo(small))
    for batch in (1, 3):
        check_equal(small, run, batch)
    pytest.importorskip("jax2onnx")
    run = onnx_runner(to_onnx(small))
    for batch in (1, 3):
        check_equal(small, run, batch)


def test_the_step_is_what_act_does(tmp_path):
    policy = load(make_policy(tmp_path / "policy", "gru", width=8))
    step = step_function(policy)
    zeros = [np.zeros((7, *x.shape), x.dtype) for x in step.inputs.values()]
    outputs = dict(zip(step.outputs, jax.jit(step.call)(*zeros), strict=True))
    observation = {f.name: np.zeros((7, *f.shape), f.dtype) for f in policy.fields}
    _, carry, info = policy.act(observation, None, jax.random.key(0))
    np.testing.assert_allclose(np.exp(outputs["log_probs"]), info.probabilities, atol=1e-6)
    np.testing.assert_array_equal(outputs["mask"], info.mask)
    for name, leaf in zip(step.carry, jax.tree.leaves(carry), strict=True):
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
    monkeypatch.setattr("maskless.deploy.export.compare", lambda *a, **k: (0.5, 0))
    with pytest.raises(MasklessError, match="was not written"):
        write_export(policy, tmp_path / "policy.stablehlo", "stablehlo")
    assert not (tmp_path / "policy.stablehlo").exists()


def test_onnx_says_what_it_is(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("jax2onnx")
    policy = load(make_policy(tmp_path / "policy", width=8))
    model = onnx.load_from_string(to_onnx(policy))
    about = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert about["action_names"] == list(policy.action_names)
    assert [entry.name for entry in model.graph.input] == ["observation"]
    assert [entry.name for entry in model.graph.output] == ["log_probs", "validity", "mask"]
