"""The NumPy runtime needs nothing of JAX, and refuses what it cannot use in a sentence."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from policy.made import make_policy

from maskless import runtime
from maskless.errors import MasklessError
from maskless.policy import artifact

STORED = Path(__file__).parents[1] / "data" / "policies"
UNWANTED = ("jax", "jaxlib", "flax", "optax", "craftax", "gymnasium", "jaxtyping", "matplotlib")
FRESH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {unwanted}:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import maskless
policy = maskless.runtime.load({folder!r})
action, carry, info = policy.act([1, 2, 3], policy.initial_carry(), 0)
assert info.probabilities[action] > 0
print(sorted({{name.partition(".")[0] for name in sys.modules}} & set({unwanted})))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_policy(tmp_path_factory.mktemp("made") / "policy", "gru", width=4)


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "policy"))


def edit(folder, **changes):
    about = json.loads((folder / "policy.json").read_text()) | changes
    (folder / "policy.json").write_text(json.dumps(artifact._sealed(about)))


def edit_net(folder, **changes):
    edit(folder, net=json.loads((folder / "policy.json").read_text())["net"] | changes)


@pytest.mark.parametrize("name", ["mlp", "gru"])
def test_a_fresh_process_loads_nothing_of_jax(name):
    code = FRESH.format(unwanted=UNWANTED, folder=str(STORED / name))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "[]", run.stderr


@pytest.mark.parametrize("name", ["mlp", "gru"])
def test_a_policy_from_elsewhere_has_the_masks_that_it_had_there(name):
    """tests/policy/elsewhere.py has made these with other versions."""
    from policy.elsewhere import BATCH, STEPS
    from policy.made import tower_observations

    there = json.loads((STORED / f"{name}.json").read_text())
    policy = runtime.load(STORED / name)
    observations = tower_observations(STEPS * BATCH).reshape(STEPS, BATCH, -1)
    carry = policy.initial_carry(BATCH)
    for observation, step in zip(observations, there["steps"], strict=True):
        _, carry, info = policy.act(observation, carry, memory=False)
        np.testing.assert_array_equal(info.mask, step["mask"])
    if name == "gru":
        np.testing.assert_allclose(carry.network, there["carry"], atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "hybrid"}, "has the networks mlp and gru, and not 'hybrid': export the .* ONNX"),
        ({"name": "custom", "class": "os:system"}, "and not 'custom': export the policy to ONNX"),
        ({"encoder": "custom"}, "has no encoder 'custom': .* to ONNX"),
        ({"encoder": "glyphs"}, "The glyphs encoder reads glyphs, blstats"),
        ({"width": 10**9}, "its network needs"),
        ({"width": "4"}, "with a width"),
        ({"options": {"cloned": True}}, "its weights and its network differ in 'clone/"),
        ({"options": {"window": 3}}, "are none of its network"),
        ({"student": {"width": 4}}, "differ in 'policy/"),
    ],
)
def test_networks_that_it_does_not_have_are_refused(folder, changes, says):
    edit_net(folder, **changes)
    with pytest.raises(MasklessError, match=says):
        runtime.load(folder)


def test_weights_that_no_network_reads_are_refused(folder):
    weights = safetensors.numpy.load_file(folder / "weights.safetensors")
    content = safetensors.numpy.save(weights | {"more": np.zeros(1, np.float32)})
    (folder / "weights.safetensors").write_bytes(content)
    edit(folder, weights_sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(MasklessError, match="its weights and its network differ in 'more'"):
        runtime.load(folder)


def test_arguments_are_checked_as_in_jax(folder):
    edit(folder, classifier=False)
    policy = runtime.load(folder)
    observation = np.int32([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(MasklessError, match="trained without a classifier"):
        policy.act(observation)
    with pytest.raises(MasklessError, match="no cloned head"):
        policy.act(observation, masks="clone")
    with pytest.raises(MasklessError, match="Unknown kind of masks 'nome'"):
        policy.act(observation, masks="nome")
    with pytest.raises(MasklessError, match=r"must be of bool\[2, 5\]"):
        policy.act(observation, masks=np.ones(5, bool))
    with pytest.raises(MasklessError, match="at least one must be valid"):
        policy.act(observation, masks=np.zeros((2, 5), bool))
    with pytest.raises(MasklessError, match=r"reset must be bool\[2\]"):
        policy.act(observation, masks="none", reset=[1, 0])
    with pytest.raises(MasklessError, match=r"policy.initial_carry\(2\)"):
        policy.act(observation, policy.initial_carry(), masks="none")
    with pytest.raises(MasklessError, match=r"must have the shape \[3\]"):
        policy.act(np.int32([1, 2]), masks="none")
    with pytest.raises(MasklessError, match="must hold int32, not float64"):
        policy.act(np.array([0.5, 1, 2]), masks="none")
    with pytest.raises(MasklessError, match="rng must be NumPy's generator or a seed, not str"):
        policy.act(observation, rng="dice", masks="none")
    with pytest.raises(MasklessError, match="missing: observation; unknown: left, right"):
        policy.act({"left": 1, "right": 2}, masks="none")
