"""The GRU against the textbook, in float64."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import kernels
from maskless.nets.gru import GRULayer

from nets.parameters import random_parameters

TIME, BATCH, INPUTS, WIDTH = 9, 4, 6, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(params, state, inputs, reset):
    """One gate, one row, one step at a time."""
    weights = params["input"]["kernel"], params["recurrent"]
    (w_r, w_z, w_n), (u_r, u_z, u_n) = (np.split(np.float64(w), 3, axis=1) for w in weights)
    b_r, b_z, b_n = np.split(np.float64(params["input"]["bias"]), 3)
    states = np.zeros((TIME, BATCH, WIDTH))
    for row in range(BATCH):
        h = np.float64(state[row])
        for t in range(TIME):
            if reset[t, row]:
                h = np.zeros(WIDTH)
            x = inputs[t, row]
            r = sigmoid(x @ w_r + b_r + h @ u_r)
            z = sigmoid(x @ w_z + b_z + h @ u_z)
            n = np.tanh(x @ w_n + b_n + r * (h @ u_n + np.float64(params["candidate_bias"])))
            h = (1 - z) * n + z * h
            states[t, row] = h
    return states


@pytest.mark.parametrize("implementation", ["plain", "twin"])
def test_gru_equals_the_textbook(implementation):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(TIME, BATCH, INPUTS))
    state = random.normal(size=(BATCH, WIDTH))
    reset = random.random((TIME, BATCH)) < 0.3
    layer = GRULayer(WIDTH)
    arguments = jnp.float32(state), jnp.float32(inputs), jnp.asarray(reset)
    params = random_parameters(layer, *arguments)
    with kernels.plain_only() if implementation == "plain" else nullcontext():
        last, states = layer.apply(params, *arguments)
    expected = reference(params["params"], state, inputs, reset)
    np.testing.assert_allclose(states, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(last, states[-1])


def test_recurrent_weights_start_orthogonal():
    arguments = jnp.zeros((1, WIDTH)), jnp.zeros((1, 1, INPUTS)), jnp.zeros((1, 1), bool)
    kernel = jax.jit(GRULayer(WIDTH).init)(jax.random.key(0), *arguments)["params"]["recurrent"]
    for gate in np.split(np.asarray(kernel), 3, axis=1):
        np.testing.assert_allclose(gate @ gate.T, np.eye(WIDTH), atol=1e-5)
