"""The GRU against the textbook, in float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.kernels import gru_steps as gru_kernel
from maskless.nets import gru
from maskless.nets.gru import GRULayer, run

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


def test_gru_equals_the_textbook():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(TIME, BATCH, INPUTS))
    state = random.normal(size=(BATCH, WIDTH))
    reset = random.random((TIME, BATCH)) < 0.3
    layer = GRULayer(WIDTH)
    arguments = jnp.float32(state), jnp.float32(inputs), jnp.asarray(reset)
    params = random_parameters(layer, *arguments)
    last, states = layer.apply(params, *arguments)
    expected = reference(params["params"], state, inputs, reset)
    np.testing.assert_allclose(states, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(last, states[-1])


def test_recurrent_weights_start_orthogonal():
    arguments = jnp.zeros((1, WIDTH)), jnp.zeros((1, 1, INPUTS)), jnp.zeros((1, 1), bool)
    kernel = jax.jit(GRULayer(WIDTH).init)(jax.random.key(0), *arguments)["params"]["recurrent"]
    for gate in np.split(np.asarray(kernel), 3, axis=1):
        np.testing.assert_allclose(gate @ gate.T, np.eye(WIDTH), atol=1e-5)


@pytest.fixture
def short_program(monkeypatch):
    """Compiles in a fraction of the time."""
    monkeypatch.setattr(gru, "UNROLL", 1)
    monkeypatch.setattr(gru_kernel, "UNROLL", 2)


def loss_and_slopes(*arguments):
    *arguments, reset = arguments

    def loss(*arguments):
        last, states = run(*arguments, reset)
        return jnp.sum(jnp.sin(states)) + jnp.sum(last**2)

    return jax.value_and_grad(loss, argnums=tuple(range(6)))(*arguments)


def two_runs():
    random = np.random.default_rng(1)
    weights = (INPUTS, 3 * WIDTH), (3 * WIDTH,), (WIDTH, 3 * WIDTH), (WIDTH,)
    shapes = *weights, (BATCH, WIDTH), (TIME, BATCH, INPUTS)
    runs = [jnp.float32(random.normal(size=(2, *shape))) for shape in shapes]
    return *runs, jnp.asarray(random.random((TIME, BATCH)) < 0.3)


@pytest.mark.usefixtures("short_program")
def test_runs_side_by_side_equal_each_alone():
    *runs, reset = two_runs()
    together = jax.jit(jax.vmap(loss_and_slopes, (0,) * 6 + (None,)))(*runs, reset)
    alone = [jax.jit(loss_and_slopes)(*(x[i] for x in runs), reset) for i in range(2)]
    for both, first, second in zip(*map(jax.tree.leaves, (together, *alone)), strict=True):
        np.testing.assert_allclose(both, np.stack([first, second]), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("short_program")
def test_runs_side_by_side_move_nothing():
    """Every slice in time is one slice of all runs."""
    *runs, reset = two_runs()
    program = str(jax.make_jaxpr(jax.vmap(loss_and_slopes, (0,) * 6 + (None,)))(*runs, reset))
    assert "dynamic_update_slice" in program
    assert not any(name in program for name in ("gather", "scatter"))
    assert f"2,{TIME},{BATCH},{3 * WIDTH}]" in program
    assert f"{TIME},2,{BATCH}" not in program


@pytest.mark.usefixtures("short_program")
def test_the_gpus_kernels_equal_the_loops():
    random = np.random.default_rng(2)
    time, batch, width = 6, 32, 32
    shapes = (width, 3 * width), (width,), (batch, width), (time, batch, 3 * width)
    kernel, bias, state, projected = (
        jnp.float32(random.normal(size=(2, *shape)) / 4) for shape in shapes
    )
    kernel, projected = kernel.astype(jnp.bfloat16), projected.astype(jnp.bfloat16)
    reset = jnp.asarray(random.random((2, time, batch)) < 0.3)
    wanted_last = jnp.float32(random.normal(size=(2, batch, width)))
    wanted = jnp.bfloat16(random.normal(size=(2, time, batch, width)))
    options = {"sizes": gru_kernel.Sizes(rows=16, columns=16, chunk=16), "interpret": True}

    def both(forward, backward):
        last, states, *kept = forward(kernel, bias, state, projected, reset)
        given = kernel, bias, projected, reset, *kept, wanted_last, wanted
        return last, states, *kept, *backward(*given)

    loops = jax.jit(lambda: both(gru._forward_loop, gru._backward_loop))()
    kernels = jax.jit(
        lambda: both(
            partial(gru_kernel.forward_loop, **options),
            partial(gru_kernel.backward_loop, **options),
        )
    )()
    for expected, ours in zip(loops, kernels, strict=True):
        assert expected.dtype == ours.dtype
        scale = np.abs(np.float32(expected)).max()
        np.testing.assert_allclose(np.float32(ours), np.float32(expected), atol=0.02 * scale)
