"""S5 against float64 loops, matrix exponentials and the definition of HiPPO-LegS."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from maskless.nets import s5

from nets.parameters import random_parameters

TIME, BATCH, WIDTH = 13, 3, 8


def legs(states):
    """The state matrix of HiPPO-LegS, entry by entry."""
    matrix = np.zeros((states, states))
    for n in range(states):
        for k in range(n):
            matrix[n, k] = -np.sqrt((2 * n + 1) * (2 * k + 1))
        matrix[n, n] = -(n + 1)
    return matrix


@pytest.mark.parametrize("states", [2, 16, 256])
def test_hippo_is_diagonalised(states):
    values, vectors = s5.hippo(states)
    low_rank = np.sqrt(np.arange(states) + 0.5)
    normal = legs(states) + np.outer(low_rank, low_rank)
    scale = np.abs(values).max()
    np.testing.assert_allclose(normal @ vectors, vectors * values, atol=1e-9 * scale)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(states // 2), atol=1e-9)
    assert (values.real < 0).all()
    assert (values.imag > 0).all()
    both = np.concatenate([values, values.conj()])  # with their conjugates they are all of them
    expected = np.linalg.eigvals(normal)
    np.testing.assert_allclose(np.sort(both.imag), np.sort(expected.imag), atol=1e-8 * scale)


def test_discretisation_equals_the_matrix_exponential():
    """exp([[lambda, 1], [0, 0]] step) = [[factor, gain], [0, 1]] for each state."""
    values = s5.hippo(16)[0]
    steps = np.geomspace(s5.LEAST_STEP, s5.LARGEST_STEP, len(values))
    pair = jnp.float32(values.real), jnp.float32(values.imag)
    factor, gain = s5.zero_order_hold(pair, jnp.float32(steps))
    for i, (value, step) in enumerate(zip(values, steps, strict=True)):
        exact = scipy.linalg.expm(np.array([[value, 1.0], [0.0, 0.0]]) * step)
        for ours, expected in ((factor, exact[0, 0]), (gain, exact[0, 1])):
            got = complex(ours[0][i], ours[1][i])
            assert abs(got - expected) < 3e-6 * abs(expected)


def parameters(random):
    """A state space with random parameters, and what to give it."""
    layer = s5.StateSpace(WIDTH)
    arguments = (
        jnp.float32(random.normal(size=(BATCH, WIDTH))),
        jnp.float32(random.normal(size=(TIME, BATCH, WIDTH))),
        jnp.asarray(random.random((TIME, BATCH)) < 0.25),
    )
    params = random_parameters(layer, *arguments)
    return layer, params, arguments


def reference(params, state, inputs, reset):
    """Complex128, one row and one step at a time, with every state's conjugate written out."""
    half = WIDTH // 2
    p = {name: np.float64(value) for name, value in params["params"].items()}
    value = -np.exp(p["log_decay"]) + 1j * p["frequency"]
    step = np.exp(p["log_step"])
    matrix_in = p["in"][:, :half] + 1j * p["in"][:, half:]
    matrix_out = (p["out"][:half] - 1j * p["out"][half:]) / 2
    value = np.concatenate([value, value.conj()])
    step = np.concatenate([step, step])
    matrix_in = np.concatenate([matrix_in, matrix_in.conj()], axis=1)
    matrix_out = np.concatenate([matrix_out, matrix_out.conj()])
    outputs, states = np.zeros((TIME, BATCH, WIDTH)), np.zeros((TIME, BATCH, WIDTH))
    for row in range(BATCH):
        kept = np.float64(state[row, :half]) + 1j * np.float64(state[row, half:])
        x = np.concatenate([kept, kept.conj()])
        for t in range(TIME):
            factor = np.zeros(WIDTH) if reset[t, row] else np.exp(value * step)
            u = np.float64(inputs[t, row])
            x = factor * x + (np.exp(value * step) - 1) / value * (u @ matrix_in)
            y = x @ matrix_out + p["direct"] * u
            assert np.abs(y.imag).max() < 1e-12
            outputs[t, row] = y.real
            states[t, row] = np.concatenate([x.real[:half], x.imag[:half]])
    return states, outputs


def test_scan_equals_a_loop():
    layer, params, arguments = parameters(np.random.default_rng(0))
    last, outputs = jax.jit(layer.apply)(params, *arguments)
    states, expected = reference(params, *arguments)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(last, states[-1], rtol=1e-5, atol=1e-5)


def test_the_beginning_is_hippo():
    """In the basis of the eigenvectors, A is HiPPO's normal part; B and C are real matrices."""
    arguments = jnp.zeros((1, WIDTH)), jnp.zeros((1, 1, WIDTH)), jnp.zeros((1, 1), bool)
    params = jax.jit(s5.StateSpace(WIDTH).init)(jax.random.key(3), *arguments)["params"]
    values, vectors = s5.hippo(WIDTH)
    np.testing.assert_allclose(-np.exp(params["log_decay"]), values.real, rtol=1e-6)
    np.testing.assert_allclose(params["frequency"], values.imag, rtol=1e-6)
    steps = np.exp(params["log_step"])
    assert (steps >= s5.LEAST_STEP).all()
    assert (steps <= s5.LARGEST_STEP).all()
    half = WIDTH // 2
    matrix_in = np.asarray(params["in"])[:, :half] + 1j * np.asarray(params["in"])[:, half:]
    real_b = 2 * (vectors @ matrix_in.T).real  # with the conjugates: V V^H B = B
    np.testing.assert_allclose(vectors.conj().T @ real_b, matrix_in.T, atol=1e-5)


def test_a_layer_can_never_blow_up():
    """However far an optimiser pushes the parameters, the state decays without input."""
    eigenvalue = jnp.array([-1e-4, -1.0, -50.0]), jnp.array([1e3, 0.0, -3.0])
    factor, gain = s5.zero_order_hold(eigenvalue, jnp.array([10.0, 1e-3, 1.0]))
    assert (np.hypot(*factor) < 1).all()
    assert np.isfinite(gain).all()
