"""Every network keeps the contract: steps equal sequences, episodes are apart, rows are apart."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless import kernels
from maskless.errors import MasklessError, UnknownNameError
from maskless.nets import GRU, MLP, Heads, Hybrid, make_net
from minihax.look.observation import Observation

from nets.parameters import random_parameters

ACTIONS, TIME, BATCH = 6, 12, 5

# The hybrid gets three windows, and a memory that is no multiple of the window.
SMALL = {
    "mlp": MLP(num_actions=ACTIONS, width=16),
    "gru": GRU(num_actions=ACTIONS, width=16),
    "hybrid": Hybrid(num_actions=ACTIONS, width=16, memory=6, window=4, s5_layers=2),
}
every_net = pytest.mark.parametrize("name", SMALL)
every_memory = pytest.mark.parametrize("name", ["gru", "hybrid"])


def observations(seed, time=TIME, batch=BATCH):
    """Two leaves of different shape and type."""
    random = np.random.default_rng(seed)
    return {
        "map": jnp.asarray(random.integers(0, 3, (time, batch, 2, 2)), jnp.int8),
        "senses": jnp.asarray(random.normal(size=(time, batch, 3)), jnp.float32),
    }


def resets(pattern, time=TIME, batch=BATCH):
    """Random ones, at the start, two in a row, in every step, none: another one per row."""
    rows = np.random.default_rng(pattern).random((time, batch)) < 0.25
    if pattern == 1:
        rows[:, 0], rows[:, 1], rows[:, 2] = False, True, False
        rows[0, 0] = rows[5:7, 2] = rows[-1, 2] = True
    return jnp.asarray(rows)


@functools.cache
def applied(net):
    """`net.apply`, compiled once for all tests."""
    return jax.jit(net.apply)


@functools.cache
def prepared(name):
    """Network, parameters, and a carry that has a past."""
    net = SMALL[name]
    obs, reset = observations(100), resets(100)
    params = random_parameters(net, net.initial_carry(BATCH), obs, reset)
    carry, _ = applied(net)(params, net.initial_carry(BATCH), obs, reset)
    return net, params, carry


def stepped(net, params, carry, obs, reset):
    """The same as `net.apply`, one step at a time."""
    outputs = []
    for t in range(reset.shape[0]):
        now = jax.tree.map(lambda x, t=t: x[t : t + 1], (obs, reset))
        carry, heads = applied(net)(params, carry, *now)
        outputs.append(heads)
    return carry, jax.tree.map(lambda *x: jnp.concatenate(x), *outputs)


def assert_same(ours, expected, tolerance=1e-5):
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@every_net
@pytest.mark.parametrize("pattern", range(3))
def test_stepping_equals_the_sequence(name, pattern):
    net, params, carry = prepared(name)
    obs, reset = observations(pattern), resets(pattern)
    whole = applied(net)(params, carry, obs, reset)
    assert_same(stepped(net, params, carry, obs, reset), whole)


@every_net
def test_three_rollouts_equal_one(name):
    net, params, start = prepared(name)
    obs, reset = observations(1), resets(2)
    carry, parts = start, []
    for t in range(0, TIME, 4):
        part = jax.tree.map(lambda x, t=t: x[t : t + 4], (obs, reset))
        carry, heads = applied(net)(params, carry, *part)
        parts.append(heads)
    joined = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    assert_same((carry, joined), applied(net)(params, start, obs, reset))


@every_net
def test_a_batch_equals_its_rows(name):
    net, params, start = prepared(name)
    obs, reset = jax.tree.map(lambda x: x[:4], (observations(2), resets(2)))
    carry, heads = applied(net)(params, start, obs, reset)
    for row in range(BATCH):
        rows, columns = np.s_[row : row + 1], np.s_[:, row : row + 1]
        alone = (start, obs, reset), (rows, columns, columns)
        picked = (jax.tree.map(lambda x, i=i: x[i], x) for x, i in zip(*alone, strict=True))
        carry_alone, heads_alone = applied(net)(params, *picked)
        assert_same(carry_alone, jax.tree.map(lambda x, i=rows: x[i], carry))
        assert_same(heads_alone, jax.tree.map(lambda x, i=columns: x[i], heads))


@every_net
def test_runs_side_by_side(name):
    net, _, carry = prepared(name)
    obs, reset = observations(3), resets(3)
    runs = [random_parameters(net, carry, obs, reset, seed=seed) for seed in range(2)]
    params = jax.tree.map(lambda *x: jnp.stack(x), *runs)
    apply = jax.jit(jax.vmap(net.apply, in_axes=(0, None, None, None)))
    together = apply(params, carry, obs, reset)
    for run in range(2):
        pick = lambda tree, run=run: jax.tree.map(lambda x: x[run], tree)  # noqa: E731
        assert_same(applied(net)(runs[run], carry, obs, reset), pick(together))


@every_net
def test_twins_change_no_numbers(name):
    """The network as it is read, without any of `maskless.kernels`: values and gradients."""
    net, params, carry = prepared(name)
    obs, reset = observations(6), resets(6)

    def both():
        def total(params):
            after, heads = net.apply(params, carry, obs, reset)
            return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(heads)), (after, heads)

        return jax.jit(jax.grad(total, has_aux=True))(params)

    with kernels.plain_only():
        plain = both()
    assert_same(both(), plain, tolerance=1e-4)


@every_memory
def test_nothing_crosses_a_reset(name):
    """Neither values nor gradients, from observations or from the carry; but all do without."""
    net, params, carry = prepared(name)
    obs = observations(4)["senses"]

    leaves, structure = jax.tree.flatten(carry)
    floats = [x for x in leaves if x.dtype == jnp.float32]

    def later(obs, floats, reset):
        """Everything said from step 6 on, its sum first."""
        rest = iter(floats)
        states = [next(rest) if x.dtype == jnp.float32 else x for x in leaves]
        full = {"map": observations(4)["map"], "senses": obs}
        _, heads = net.apply(params, jax.tree.unflatten(structure, states), full, reset)
        said = jnp.concatenate([x[6:].ravel() for x in jax.tree.leaves(heads)])
        return said.sum(), said

    both = jax.jit(jax.value_and_grad(later, argnums=(0, 1), has_aux=True))
    other = obs.at[:6].multiply(-2.0), [2.0 * x + 1.0 for x in floats]
    connected = jnp.zeros((TIME, BATCH), bool)
    (_, said), (of_obs, of_floats) = both(obs, floats, connected)
    (_, said_other), _ = both(*other, connected)
    assert np.abs(of_obs[:6]).max(axis=(0, 2)).min() > 0
    assert max(np.abs(x).max() for x in of_floats) > 0
    assert not np.array_equal(said, said_other)

    separated = connected.at[6].set(True)
    (_, said), (of_obs, of_floats) = both(obs, floats, separated)
    (_, said_other), _ = both(*other, separated)
    assert (of_obs[:6] == 0).all()
    assert (of_obs[6:] != 0).any()
    assert all((x == 0).all() for x in of_floats)
    np.testing.assert_array_equal(said, said_other)


@every_net
def test_a_step_belongs_to_its_own_row(name):
    net, params, carry = prepared(name)
    obs, reset = observations(5), resets(5)
    other = {**obs, "senses": obs["senses"].at[:, 1].add(1.0)}
    _, heads = applied(net)(params, carry, obs, reset)
    _, changed = applied(net)(params, carry, other, reset)
    assert not np.array_equal(heads.value[:, 1], changed.value[:, 1])
    np.testing.assert_array_equal(heads.value[:, [0, 2, 3, 4]], changed.value[:, [0, 2, 3, 4]])


@every_net
def test_shapes_and_types(name):
    net, params, carry = prepared(name)
    assert all(x.shape[0] == BATCH for x in jax.tree.leaves(carry))
    empty = jax.eval_shape(lambda: net.initial_carry(BATCH))
    assert jax.tree.map(lambda x: (x.shape, x.dtype), empty) == jax.tree.map(
        lambda x: (x.shape, x.dtype), carry
    )
    _, heads = applied(net)(params, carry, observations(0), resets(0))
    assert heads.logits.shape == heads.validity.shape == (TIME, BATCH, ACTIONS)
    assert heads.value.shape == heads.intrinsic_value.shape == (TIME, BATCH)
    assert heads.features.shape == heads.hidden.shape == (TIME, BATCH, 16)
    assert net.recurrent == (name != "mlp") == bool(jax.tree.leaves(carry))


@every_net
def test_every_head_reads_its_layer(name):
    """logits = W hidden + b and validity = W features + b: what the diagnostics rely on."""
    net, params, carry = prepared(name)
    _, heads = applied(net)(params, carry, observations(0), resets(0))
    layers = params["params"]["heads"]
    for said, read, layer in (
        (heads.logits, heads.hidden, layers["logits"]),
        (heads.validity, heads.features, layers["validity"]),
    ):
        assert_same(said, read @ layer["kernel"] + layer["bias"])
    if name == "mlp":
        np.testing.assert_array_equal(heads.features, heads.hidden)


def corridor_observations(time, batch):
    random = np.random.default_rng(0)
    draw = lambda high, *shape: random.integers(0, high, (time, batch, *shape))  # noqa: E731
    return Observation(
        glyphs=jnp.asarray(draw(20, 9, 9), jnp.int8),
        blstats=jnp.asarray(draw(30, 27), jnp.int32),
        message=jnp.asarray(draw(42), jnp.int32),
        previous_action=jnp.asarray(draw(12), jnp.int32),
    )


PAPER_WIDTH = {"mlp": 512, "gru": 512, "hybrid": 256}


@pytest.mark.parametrize(
    ("name", "encoder"), [("mlp", "flat"), ("gru", "glyphs"), ("hybrid", "flat")]
)
def test_paper_size(name, encoder):
    """Steps equal the sequence at full size too, and the first policy is near uniform."""
    random = np.random.default_rng(1)
    flat = jnp.asarray(random.normal(size=(4, 2, 40)), jnp.float32)
    obs = flat if encoder == "flat" else corridor_observations(4, 2)
    arguments = {"num_actions": 11, "encoder": encoder}
    net = make_net(name, **json.loads(json.dumps(arguments)))
    reset = jnp.zeros((4, 2), bool).at[2, 0].set(True)
    carry = net.initial_carry(2)
    params = jax.jit(net.init)(jax.random.key(0, impl="rbg"), carry, obs, reset)
    whole = applied(net)(params, carry, obs, reset)
    assert_same(stepped(net, params, carry, obs, reset), whole)
    heads = whole[1]
    assert heads.features.shape[-1] == PAPER_WIDTH[name]
    log_policy = jax.nn.log_softmax(heads.logits)
    assert np.abs(log_policy + np.log(11)).max() < 0.05
    assert np.abs(heads.validity).max() < 1.0
    np.testing.assert_array_equal(params["params"]["heads"]["validity"]["bias"], 0)


def test_wrong_names_and_sizes_get_a_sentence():
    with pytest.raises(UnknownNameError, match="did you mean 'gru'"):
        make_net("grru", num_actions=3)
    with pytest.raises(UnknownNameError, match="did you mean 'glyphs'"):
        make_net("gru", num_actions=3, encoder="glyph")
    with pytest.raises(MasklessError, match="num_actions must be at least 1"):
        make_net("gru", num_actions=0)
    with pytest.raises(MasklessError, match="width must be at least 1"):
        make_net("gru", num_actions=3, width=0)
    with pytest.raises(MasklessError, match="multiple of 8, not 20"):
        make_net("hybrid", num_actions=3, width=20)


@every_net
def test_wrong_shapes_get_a_sentence(wrong_shapes, name):
    net = SMALL[name]
    init = lambda obs, reset: net.init(  # noqa: E731
        jax.random.key(0), net.initial_carry(BATCH), obs, reset
    )
    with pytest.raises(MasklessError, match=r"\[time, batch\] sequences"):
        init(jnp.zeros((BATCH, 4)), jnp.zeros(BATCH, bool))
    with pytest.raises(MasklessError, match="must begin with the axes"):
        init(jnp.zeros((BATCH, 4)), jnp.zeros((1, BATCH), bool))
    with pytest.raises(MasklessError, match="no arrays"):
        init({}, jnp.zeros((1, BATCH), bool))


def test_heads_are_a_pytree():
    assert len(jax.tree.leaves(Heads(*range(6)))) == 6
