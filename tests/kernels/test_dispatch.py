"""Which implementation a call reaches."""

import importlib
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import kernels
from maskless.envs import vector
from maskless.kernels import gru as gru_twin
from maskless.nets import glyphs, gru, heads, layers

PLAIN = {
    **{name: getattr(layers, name) for name in ("dot_general", "linear", "linear_relu")},
    **{name: getattr(gru_twin, name) for name in ("gru_forward", "gru_backward")},
    **{n: getattr(glyphs, n) for n in ("embed_and_convolve", "convolve_padded", "project_parts")},
    "two_values": heads.two_values,
    "gru": gru.gru,
    "restart": vector.restart,
}


@pytest.mark.parametrize("name", kernels.TWINS)
def test_twins_have_the_signature_of_the_plain_function(name):
    plain = inspect.signature(PLAIN[name]).parameters
    for twin in kernels.TWINS[name]:
        module = importlib.import_module(f"maskless.kernels.{twin.module}")
        ours = list(inspect.signature(getattr(module, name)).parameters.values())
        assert [p.name for p in ours[: len(plain)]] == list(plain)
        assert all(p.default is not p.empty for p in ours[len(plain) :])  # how a kernel is divided


def test_the_first_twin_that_is_enabled_and_fits_is_used(monkeypatch):
    x = jnp.ones((2, 300), jnp.float32)
    kernel, bias = jnp.ones((300, 4)), jnp.ones(4)
    program = lambda: str(jax.make_jaxpr(lambda: layers.linear(x, kernel, bias))())  # noqa: E731
    assert "custom_vjp" in program()
    with kernels.plain_only():
        assert "custom_vjp" not in program()
    assert "custom_vjp" in program()
    monkeypatch.setitem(kernels.TWINS, "linear", ())
    assert kernels.dispatch(inspect.unwrap(layers.linear))(x, kernel, bias).shape == (2, 4)


def test_pallas_needs_the_switch_and_a_gpu(monkeypatch):
    monkeypatch.delenv(kernels.ENVIRONMENT_VARIABLE, raising=False)
    assert not kernels.pallas_requested()
    monkeypatch.setenv(kernels.ENVIRONMENT_VARIABLE, "1")
    assert kernels.pallas_requested()
    assert not kernels.pallas_enabled()  # on this CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert kernels.pallas_enabled()
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "x")
    with jax.sharding.set_mesh(mesh):
        assert kernels.pallas_enabled()  # one device


def test_a_kernel_that_does_not_fit_is_not_used(monkeypatch):
    """bfloat16 and whole blocks: what the Pallas kernels are written for."""
    from maskless.kernels import glyph_rows, gru_steps

    ids = jnp.zeros((3 * glyph_rows.FORWARD.block // 16, 9, 9), jnp.int8)
    assert glyph_rows.fits(ids, None, None, None, jnp.bfloat16)
    assert not glyph_rows.fits(ids, None, None, None, jnp.float32)
    assert not glyph_rows.fits(ids[:-1], None, None, None, jnp.bfloat16)
    recurrent, state = jnp.zeros((64, 192), jnp.bfloat16), jnp.zeros((128, 64))
    assert gru_steps.fits(recurrent, None, state)
    assert not gru_steps.fits(recurrent.astype(jnp.float32), None, state)
    assert not gru_steps.fits(recurrent, None, state[:100])
    assert not gru_steps.fits(recurrent[:40], None, state)
