"""S5: a linear state-space layer that a parallel scan computes, with episode resets.

x' = diag(lambda) x + B u, y = C x + D u, in steps of a learned length each. The eigenvalues come
in conjugate pairs of which one is kept. Complex numbers are pairs (real part, imaginary part) of
arrays here: matrix products stay real, and exported networks need no complex types.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Complex, Float, PRNGKeyArray

from maskless.nets.layers import product

Pair = tuple[Array, Array]

LEAST_STEP, LARGEST_STEP = 1e-3, 1e-1


class S5Stack(nn.Module):
    """Layers on top of each other: a loop, since five parallel scans take long to compile."""

    width: int
    layers: int
    dtype: Any = None

    @nn.compact
    def __call__(
        self,
        states: Float[Array, "batch layers width"],
        inputs: Float[Array, "time batch width"],
        reset: Bool[Array, "time batch"],
    ) -> tuple[Float[Array, "batch layers width"], Float[Array, "time batch width"]]:
        """The last states (real parts, then imaginary parts) and the outputs."""
        loop = nn.scan(
            S5Layer,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(1, nn.broadcast),
            out_axes=1,
            length=self.layers,
        )
        outputs, states = loop(self.width, self.dtype, name="layers")(inputs, states, reset)
        return states, outputs


class S5Layer(nn.Module):
    """Layer norm, state space, gelu, gated output, residual. Width and state have equal size."""

    width: int
    dtype: Any = None

    @nn.compact
    def __call__(
        self,
        inputs: Float[Array, "time batch width"],
        state: Float[Array, "batch width"],
        reset: Bool[Array, "time batch"],
    ) -> tuple[Float[Array, "time batch width"], Float[Array, "batch width"]]:
        state, y = StateSpace(self.width, self.dtype, name="ssm")(
            state, nn.LayerNorm(name="norm")(inputs), reset
        )
        y = nn.gelu(y)
        gate = nn.Dense(self.width, name="gate", dtype=self.dtype)(y)
        return inputs + y * nn.sigmoid(gate).astype(y.dtype), state


class StateSpace(nn.Module):
    """The state space itself: `width` inputs, outputs and states (half as many pairs)."""

    width: int
    dtype: Any = None

    @nn.compact
    def __call__(
        self,
        state: Float[Array, "batch width"],
        inputs: Float[Array, "time batch width"],
        reset: Bool[Array, "time batch"],
    ) -> tuple[Float[Array, "batch width"], Float[Array, "time batch width"]]:
        pairs = self.width // 2
        # The real part of lambda is -exp(log_decay): no update can make the layer unstable.
        log_decay = self.param("log_decay", _log_decay, self.width)
        frequency = self.param("frequency", _frequency, self.width)
        log_step = self.param("log_step", _log_step, pairs)
        matrix_in = self.param("in", _matrix_in, self.width)
        matrix_out = self.param("out", _matrix_out, self.width)
        direct = self.param("direct", nn.initializers.normal(1.0), (self.width,))
        factor, gain = zero_order_hold((-jnp.exp(log_decay), frequency), jnp.exp(log_step))
        drive = times(gain, _split(product(inputs, matrix_in, self.dtype)))
        states = linear_scan(factor, _split(state), drive, reset)
        last = jnp.concatenate([part[-1] for part in states], axis=-1)
        outputs = product(jnp.concatenate(states, axis=-1), matrix_out, self.dtype)
        return last, outputs + direct * inputs


def times(a: Pair, b: Pair) -> Pair:
    """The complex product."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def zero_order_hold(eigenvalue: Pair, step: Float[Array, " states"]) -> tuple[Pair, Pair]:
    """What a step does to the state, exp(lambda step), and to B u, (exp(lambda step) - 1) / lambda,
    when u stays the same during the step."""
    real, imaginary = eigenvalue[0] * step, eigenvalue[1] * step
    factor = jnp.exp(real) * jnp.cos(imaginary), jnp.exp(real) * jnp.sin(imaginary)
    # exp - 1 without cancellation for short steps: cos = 1 - 2 sin^2 of half the angle.
    change = (
        jnp.expm1(real) * jnp.cos(imaginary) - 2.0 * jnp.sin(0.5 * imaginary) ** 2,
        factor[1],
    )
    squared = eigenvalue[0] ** 2 + eigenvalue[1] ** 2
    inverse = eigenvalue[0] / squared, -eigenvalue[1] / squared
    return factor, times(change, inverse)


def linear_scan(factor: Pair, state: Pair, drive: Pair, reset: Bool[Array, "time batch"]) -> Pair:
    """All x_t = factor x_{t-1} + drive_t, where a reset puts zero in the place of the factor.

    factor: [states]; state (x before the first step): [batch, states]; drive and result:
    [time, batch, states].
    """
    resets = reset[..., None]
    factors = jnp.where(resets, 0.0, factor[0]), jnp.where(resets, 0.0, factor[1])
    since_start, driven = _compose(factors, drive)
    carried = times(since_start, state)
    return carried[0] + driven[0], carried[1] + driven[1]


def _compose(factors: Pair, drive: Pair) -> tuple[Pair, Pair]:
    """For each t, the steps x -> factor x + drive from the first to t as one such step."""
    if drive[0].shape[0] == 1:
        return factors, drive  # acting, exported or not: no complex types
    # Complex numbers compile faster here than pairs and run four times as fast (on a CPU).
    steps = jax.lax.complex(*factors), jax.lax.complex(*drive)
    factor, drift = jax.lax.associative_scan(
        lambda earlier, later: (later[0] * earlier[0], later[0] * earlier[1] + later[1]), steps
    )
    return (factor.real, factor.imag), (drift.real, drift.imag)


@functools.lru_cache
def hippo(states: int) -> tuple[Complex[np.ndarray, " pairs"], Complex[np.ndarray, "states pairs"]]:
    """Eigenvalues and eigenvectors of the normal part of HiPPO-LegS, one of each conjugate pair.

    HiPPO-LegS is a state matrix that keeps a polynomial summary of all inputs so far. It is not
    diagonalisable in practice, but without a rank-one term it is: -1/2 plus an antisymmetric
    matrix, whose eigenvectors are orthogonal.
    """
    root = np.sqrt(2.0 * np.arange(states) + 1.0)
    antisymmetric = 0.5 * (np.triu(np.outer(root, root), 1) - np.tril(np.outer(root, root), -1))
    frequency, vectors = np.linalg.eigh(-1j * antisymmetric)
    positive = slice(states // 2, None)  # eigh sorts: the second half is the positive one
    return -0.5 + 1j * frequency[positive], vectors[:, positive]


def _log_decay(key: PRNGKeyArray, states: int) -> Float[Array, " pairs"]:
    return jnp.log(-jnp.asarray(hippo(states)[0].real, jnp.float32))


def _frequency(key: PRNGKeyArray, states: int) -> Float[Array, " pairs"]:
    return jnp.asarray(hippo(states)[0].imag, jnp.float32)


def _log_step(key: PRNGKeyArray, pairs: int) -> Float[Array, " pairs"]:
    """Log-uniform step lengths, so that some states forget fast and others slowly."""
    return jax.random.uniform(key, (pairs,), minval=np.log(LEAST_STEP), maxval=np.log(LARGEST_STEP))


def _matrix_in(key: PRNGKeyArray, width: int) -> Float[Array, "width parts"]:
    """B in the basis of the eigenvectors: real parts, then imaginary parts."""
    real = nn.initializers.lecun_normal()(key, (width, width), jnp.float32)
    vectors = hippo(width)[1].conj()
    return real @ jnp.asarray(np.concatenate([vectors.real, vectors.imag], axis=-1), jnp.float32)


def _matrix_out(key: PRNGKeyArray, width: int) -> Float[Array, "parts width"]:
    """C in that basis. The sum over a conjugate pair is twice the real part: 2 Re(C x)."""
    real = nn.initializers.lecun_normal()(key, (width, width), jnp.float32)
    vectors = hippo(width)[1]
    parts = np.concatenate([2.0 * vectors.real, -2.0 * vectors.imag], axis=-1).T
    return jnp.asarray(parts, jnp.float32) @ real


def _split(x: Float[Array, "... parts"]) -> Pair:
    real, imaginary = jnp.split(x, 2, axis=-1)
    return real, imaginary
