"""The GRU's own derivative and loops equal the plain scan; its GPU kernels equal the loops."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.kernels import gru as twin
from maskless.kernels import gru_steps
from maskless.nets.gru import gru

from nets.twins import assert_twins

TIME, BATCH, INPUTS, WIDTH = 9, 4, 6, 5


@pytest.fixture(autouse=True)
def short_program(monkeypatch):
    """Compiles in a fraction of the time."""
    monkeypatch.setattr(twin, "UNROLL", 2)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_derivative_is_that_of_the_scan(dtype):
    random = np.random.default_rng(0)
    weights = (INPUTS, 3 * WIDTH), (3 * WIDTH,), (WIDTH, 3 * WIDTH), (WIDTH,)
    shapes = *weights, (BATCH, WIDTH), (TIME, BATCH, INPUTS)
    floats = [random.normal(size=shape) / 2 for shape in shapes]
    reset = jnp.asarray(random.random((TIME, BATCH)) < 0.2)

    def cast(function):
        def of(weights, bias, recurrent, candidate_bias, state, inputs, reset):
            products = recurrent.astype(dtype), candidate_bias, state, inputs.astype(dtype)
            return function(weights, bias, *products, reset)

        return of

    assert_twins(cast(gru.__wrapped__), cast(twin.gru), floats, reset, dtype=dtype)


def loss_and_gradients(*arguments):
    *arguments, reset = arguments

    def loss(*arguments):
        last, states = twin.gru(*arguments, reset)
        return jnp.sum(jnp.sin(states)) + jnp.sum(last**2)

    return jax.value_and_grad(loss, argnums=tuple(range(6)))(*arguments)


def two_runs():
    random = np.random.default_rng(1)
    weights = (INPUTS, 3 * WIDTH), (3 * WIDTH,), (WIDTH, 3 * WIDTH), (WIDTH,)
    shapes = *weights, (BATCH, WIDTH), (TIME, BATCH, INPUTS)
    runs = [jnp.float32(random.normal(size=(2, *shape))) for shape in shapes]
    return *runs, jnp.asarray(random.random((TIME, BATCH)) < 0.3)


def test_runs_side_by_side_equal_each_alone():
    *runs, reset = two_runs()
    together = jax.jit(jax.vmap(loss_and_gradients, (0,) * 6 + (None,)))(*runs, reset)
    alone = [jax.jit(loss_and_gradients)(*(x[i] for x in runs), reset) for i in range(2)]
    for both, first, second in zip(*map(jax.tree.leaves, (together, *alone)), strict=True):
        np.testing.assert_allclose(both, np.stack([first, second]), rtol=1e-5, atol=1e-5)


def test_runs_side_by_side_move_nothing():
    """Every slice in time is one slice of all runs."""
    *runs, reset = two_runs()
    program = str(jax.make_jaxpr(jax.vmap(loss_and_gradients, (0,) * 6 + (None,)))(*runs, reset))
    assert "dynamic_update_slice" in program
    assert not any(name in program for name in ("gather", "scatter"))
    assert f"2,{TIME},{BATCH},{3 * WIDTH}]" in program
    assert f"{TIME},2,{BATCH}" not in program


def test_the_gpu_kernels_equal_the_loops():
    random = np.random.default_rng(2)
    time, batch, width = 6, 32, 32
    shapes = (width, 3 * width), (width,), (batch, width), (time, batch, 3 * width)
    kernel, bias, state, wx = (jnp.float32(random.normal(size=(2, *shape)) / 4) for shape in shapes)
    kernel, wx = kernel.astype(jnp.bfloat16), wx.astype(jnp.bfloat16)
    reset = jnp.asarray(random.random((2, time, batch)) < 0.3)
    d_last = jnp.float32(random.normal(size=(2, batch, width)))
    d_states = jnp.bfloat16(random.normal(size=(2, time, batch, width)))
    options = {"sizes": gru_steps.Sizes(rows=16, columns=16, chunk=16), "interpret": True}

    def both(forward, backward):
        last, states, *residuals = forward(kernel, bias, state, wx, reset)
        arguments = kernel, bias, wx, reset, *residuals, d_last, d_states
        return last, states, *residuals, *backward(*arguments)

    loops = jax.jit(lambda: both(twin.gru_forward, twin.gru_backward))()
    kernels = jax.jit(
        lambda: both(
            partial(gru_steps.gru_forward, **options),
            partial(gru_steps.gru_backward, **options),
        )
    )()
    for expected, ours in zip(loops, kernels, strict=True):
        assert expected.dtype == ours.dtype
        scale = np.abs(np.float32(expected)).max()
        np.testing.assert_allclose(np.float32(ours), np.float32(expected), atol=0.02 * scale)
