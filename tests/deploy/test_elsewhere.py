"""An artifact made with another Python and another JAX (see elsewhere.py) loads here
and answers as it did there."""

import json

import jax
import numpy as np
import pytest

import maskless

from deploy.elsewhere import BATCH, FOLDER, STEPS, answers
from deploy.made import tower_observations


@pytest.mark.parametrize("name", ["mlp", "gru"])
def test_a_policy_from_elsewhere_answers_as_it_did_there(name):
    there = json.loads((FOLDER / f"{name}.json").read_text())
    observations = tower_observations(STEPS * BATCH).reshape(STEPS, BATCH, -1)
    steps, carry = answers(maskless.load(FOLDER / name), observations)
    assert steps == there["steps"]
    # A GPU multiplies with 10 bits of each number unless it is told otherwise: 5e-4 on an H200.
    near = 1e-5 if jax.default_backend() == "cpu" else 2e-3
    for ours, theirs in zip(jax.tree.leaves(carry), jax.tree.leaves(there["carry"]), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=near)
