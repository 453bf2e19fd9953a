"""An artifact made with another Python and another JAX (see elsewhere.py) loads here
and answers as it did there."""

import json

import jax
import numpy as np
import pytest
from policy.elsewhere import BATCH, FOLDER, STEPS, answers
from policy.made import tower_observations

import maskless


@pytest.mark.parametrize("name", ["mlp", "gru"])
def test_a_policy_from_elsewhere_answers_as_it_did_there(name):
    there = json.loads((FOLDER / f"{name}.json").read_text())
    observations = tower_observations(STEPS * BATCH).reshape(STEPS, BATCH, -1)
    with jax.default_matmul_precision("float32"):  # a GPU would multiply 10 bits of each number
        steps, carry = answers(maskless.load(FOLDER / name), observations)
    assert steps == there["steps"]
    for ours, theirs in zip(jax.tree.leaves(carry), jax.tree.leaves(there["carry"]), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
