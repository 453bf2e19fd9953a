"""The Transformer-XL layer against slow attention, its span and its gradient window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.errors import MasklessError
from maskless.nets import Hybrid
from maskless.nets.transformer import Gate, GatedTransformerXL, Memory, empty_memory

from nets.parameters import random_parameters

HEADS, WIDTH, MEMORY, WINDOW = 2, 8, 6, 4


def layer_and_inputs(time, batch=2, memory=MEMORY, window=WINDOW):
    random = np.random.default_rng(0)
    layer = GatedTransformerXL(WIDTH, HEADS, window)
    past = Memory(
        jnp.float32(random.normal(size=(batch, memory, WIDTH))),
        jnp.asarray(np.arange(memory) >= [[2], [memory // 2]]),
    )
    inputs = jnp.float32(random.normal(size=(time, batch, WIDTH)))
    reset = jnp.asarray(random.random((time, batch)) < 0.15)
    params = random_parameters(layer, past, inputs, reset)
    return layer, params, past, inputs, reset


def norm(x, params):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * params["scale"] + params["bias"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gate(params, x, y):
    y_r, y_z, y_n = np.split(y @ params["y"]["kernel"], 3)
    x_r, x_z = np.split(x @ params["x"]["kernel"], 2)
    z = sigmoid(y_z + x_z - params["bias"])
    n = np.tanh(y_n + (sigmoid(y_r + x_r) * x) @ params["reset_x"]["kernel"])
    return (1 - z) * x + z * n


def reference_token(params, tokens):
    """The output for the last of `tokens`, all of which it sees; keys and values written out."""
    p = params["attention"]
    normed = [norm(x, params["attention_norm"]) for x in tokens]
    query = np.einsum("d,dhe->he", normed[-1], p["query"])
    scores = np.zeros((HEADS, len(tokens)))
    for j, x in enumerate(normed):
        angle = (len(tokens) - 1 - j) / 10_000 ** (np.arange(0, WIDTH, 2) / WIDTH)
        position = np.concatenate([np.sin(angle), np.cos(angle)])
        for h in range(HEADS):
            by_content = (query[h] + p["biases"][0, h]) @ (x @ p["key"][:, h])
            by_distance = (query[h] + p["biases"][1, h]) @ (position @ p["position"][:, h])
            scores[h, j] = (by_content + by_distance) / np.sqrt(WIDTH // HEADS)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    values = np.array([[x @ p["value"][:, h] for x in normed] for h in range(HEADS)])
    attended = np.einsum("hj,hje->he", weights, values).reshape(-1) @ p["out"]["kernel"]
    x = gate(params["attention_gate"], tokens[-1], attended)
    hidden = norm(x, params["feed_forward_norm"])
    for name, after in (("feed_forward", lambda x: np.maximum(x, 0)), ("feed_back", lambda x: x)):
        hidden = after(hidden @ params[name]["kernel"] + params[name]["bias"])
    return gate(params["feed_forward_gate"], x, hidden)


def reference(params, memory, inputs, reset):
    """The layer, one row and one step at a time, with a list of remembered tokens."""
    params = jax.tree.map(np.float64, params["params"])
    length = memory.inputs.shape[1]
    outputs = np.zeros(inputs.shape)
    for row in range(inputs.shape[1]):
        seen = list(np.float64(memory.inputs[row])[np.asarray(memory.alive[row])])
        for t in range(inputs.shape[0]):
            seen = [] if reset[t, row] else seen
            seen = [*seen[-length:], np.float64(inputs[t, row])]
            outputs[t, row] = reference_token(params, seen)
    return outputs


@pytest.mark.parametrize("time", [1, 3, 4, 20])
def test_layer_equals_slow_attention(time):
    layer, params, memory, inputs, reset = layer_and_inputs(time)
    _, outputs = jax.jit(layer.apply)(params, memory, inputs, reset)
    np.testing.assert_allclose(
        outputs, reference(params, memory, inputs, reset), rtol=1e-5, atol=1e-5
    )


def test_the_span_is_128_tokens():
    """At the paper's sizes: the token 128 back has an influence, the one 129 back has none."""
    layer = GatedTransformerXL(WIDTH, HEADS)
    time = 192
    inputs = jax.random.normal(jax.random.key(0), (time, 1, WIDTH))
    reset = jnp.zeros((time, 1), bool)
    memory = empty_memory(1, Hybrid.memory, WIDTH)
    params = random_parameters(layer, memory, inputs, reset)
    apply = jax.jit(layer.apply)
    _, outputs = apply(params, memory, inputs, reset)
    for changed in (0, 30, 63):
        other = inputs.at[changed].multiply(-1.0)  # a constant would vanish in the layer norm
        _, changed_outputs = apply(params, memory, other, reset)
        differs = np.any(np.asarray(outputs != changed_outputs), axis=(1, 2))
        assert differs[changed]
        assert differs[changed + 128]
        assert not differs[:changed].any()
        assert not differs[changed + 129 :].any()


def test_gradients_stay_within_their_window():
    layer, params, memory, inputs, reset = layer_and_inputs(3 * WINDOW)
    reset = jnp.zeros_like(reset)

    def output(inputs, memory_inputs, t):
        past = Memory(memory_inputs, memory.alive)
        return jnp.sum(layer.apply(params, past, inputs, reset)[1][t] ** 2)

    gradient = jax.jit(jax.grad(output, argnums=(0, 1)))
    for t in range(3 * WINDOW):
        of_inputs, of_memory = gradient(inputs, memory.inputs, t)
        start = t - t % WINDOW
        reached = np.abs(of_inputs).max(axis=2)
        assert (reached[start : t + 1] > 0).all()
        assert (reached[:start] == 0).all()
        assert (reached[t + 1 :] == 0).all()
        assert (of_memory == 0).all()


def test_gradients_within_a_window_are_those_of_the_window_alone():
    layer, params, memory, inputs, reset = layer_and_inputs(2 * WINDOW)
    first, second = inputs[:WINDOW], inputs[WINDOW:]
    middle, _ = jax.jit(layer.apply)(params, memory, first, reset[:WINDOW])

    def whole(params, inputs):
        return jnp.sum(jax.jit(layer.apply)(params, memory, inputs, reset)[1][WINDOW:] ** 2)

    def alone(params, inputs):
        return jnp.sum(layer.apply(params, middle, inputs, reset[WINDOW:])[1] ** 2)

    of_params, of_inputs = jax.jit(jax.grad(whole, argnums=(0, 1)))(params, inputs)
    alone_params, alone_inputs = jax.jit(jax.grad(alone, argnums=(0, 1)))(params, second)
    np.testing.assert_allclose(of_inputs[WINDOW:], alone_inputs, rtol=1e-5, atol=1e-5)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4), of_params, alone_params
    )


def test_the_memory_holds_the_last_inputs_of_the_episode():
    layer, params, memory, inputs, reset = layer_and_inputs(WINDOW)
    reset = jnp.zeros_like(reset).at[1, 0].set(True)
    after, _ = jax.jit(layer.apply)(params, memory, inputs, reset)
    tokens = np.concatenate([memory.inputs, np.swapaxes(inputs, 0, 1)], axis=1)
    np.testing.assert_array_equal(after.inputs, tokens[:, -MEMORY:])
    np.testing.assert_array_equal(after.alive[0], np.arange(MEMORY) >= MEMORY - WINDOW + 1)
    np.testing.assert_array_equal(after.alive[1], [*memory.alive[1, WINDOW:], *([True] * WINDOW)])


def test_gates_start_close_to_the_identity():
    random = np.random.default_rng(0)
    x, y = jnp.float32(random.normal(size=(2, 50, 64)))
    params = jax.jit(Gate().init)(jax.random.key(1, impl="rbg"), x, y)
    passed = Gate().apply(params, x, y)
    np.testing.assert_array_equal(params["params"]["bias"], 2.0)
    assert np.corrcoef(x.ravel(), passed.ravel())[0, 1] > 0.95


@pytest.mark.parametrize("time", [65, 100, 127])
def test_a_sequence_that_does_not_split_gets_a_sentence(time):
    net = Hybrid(num_actions=3, width=8, s5_layers=1)
    obs, reset = jnp.zeros((time, 1, 2)), jnp.zeros((time, 1), bool)
    with pytest.raises(MasklessError, match=f"multiple of 64, its gradient window; got {time}"):
        jax.eval_shape(net.init, jax.random.key(0), net.initial_carry(1), obs, reset)
