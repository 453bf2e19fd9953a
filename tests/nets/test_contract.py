"""Networks and encoders of a user's own."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.errors import MasklessError, UnknownNameError
from maskless.nets import (
    MLP,
    NETS,
    Encoder,
    Heads,
    ModuleEncoder,
    as_network,
    check_network,
    complete,
    is_recurrent,
    make_net,
)

from nets.parameters import random_parameters

ACTIONS, TIME, BATCH = 4, 3, 2
OBSERVATION = jax.ShapeDtypeStruct((6,), jnp.float32)


class Linear(nn.Module):
    """No subclass of Network: the smallest one that keeps the contract."""

    num_actions: int = ACTIONS

    @nn.nowrap
    def initial_carry(self, batch):
        return ()

    @nn.compact
    def __call__(self, carry, obs, reset):
        x = nn.relu(nn.Dense(8)(obs))
        return carry, Heads(
            logits=nn.Dense(self.num_actions)(x),
            value=nn.Dense(1)(x)[..., 0],
            validity=nn.Dense(self.num_actions)(x),
            features=x,
        )


class Counting(Linear):
    """Remembers how many steps it has seen."""

    @nn.nowrap
    def initial_carry(self, batch):
        return {"steps": jnp.zeros(batch, jnp.int32)}

    @nn.compact
    def __call__(self, carry, obs, reset):
        _, heads = Linear(self.num_actions)((), obs, reset)
        return {"steps": carry["steps"] + len(reset)}, heads


class Features(nn.Module):
    """An encoder."""

    width: int = 5

    @nn.compact
    def __call__(self, obs):
        return nn.relu(nn.Dense(self.width)(obs))


def sequence():
    obs = jnp.float32(np.random.default_rng(0).normal(size=(TIME, BATCH, 6)))
    return obs, jnp.zeros((TIME, BATCH), bool)


@pytest.mark.parametrize(
    "net", [Linear(), Counting(), *(m(ACTIONS, width=8) for m in NETS.values())]
)
def test_networks_that_keep_the_contract(net):
    check_network(net, ACTIONS, OBSERVATION)
    assert is_recurrent(net) == (not isinstance(net, MLP) and type(net) is not Linear)


def test_what_a_network_leaves_out_is_filled_in():
    net, (obs, reset) = Linear(), sequence()
    params = random_parameters(net, (), obs, reset)
    _, heads = net.apply(params, (), obs, reset)
    assert heads.hidden is heads.intrinsic_value is None
    full = complete(heads)
    assert full.hidden is heads.features
    np.testing.assert_array_equal(full.intrinsic_value, jnp.zeros((TIME, BATCH)))
    assert complete(full) is full


def changed(**changes):
    """`Linear` with something else in its answer."""

    class Changed(Linear):
        @nn.nowrap
        def initial_carry(self, batch):
            return changes.get("start", lambda batch: ())(batch)

        @nn.compact
        def __call__(self, carry, obs, reset):
            _, heads = Linear(self.num_actions)((), obs, reset)
            if "outputs" in changes:
                return changes["outputs"](carry, heads)
            new = {name: f(heads) for name, f in changes.items() if name != "start"}
            return carry, heads.replace(**new)

    return Changed()


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (Features(), "Features is no network"),
        (changed(start=lambda batch: jnp.zeros(7)), "must begin with batch"),
        (changed(outputs=lambda carry, heads: heads), r"must return \(carry, Heads\)"),
        (changed(outputs=lambda carry, heads: (jnp.ones(3), heads)), "a carry like initial_carry"),
        (changed(logits=lambda heads: heads.logits[..., 1:]), r"logits must be .* \[2, 3, 4\]"),
        (changed(value=lambda heads: heads.logits), "value must be floats"),
        (changed(validity=lambda heads: heads.validity > 0), "validity must be floats"),
        (changed(features=lambda heads: heads.value), "features must be floats"),
        (changed(intrinsic_value=lambda heads: heads.features), "intrinsic_value must be"),
    ],
)
def test_networks_that_do_not_get_a_sentence(net, sentence):
    with pytest.raises(MasklessError, match=sentence):
        check_network(net, ACTIONS, OBSERVATION)


def test_names_networks_and_encoders_become_networks():
    options = {"num_actions": ACTIONS, "width": 8}
    assert as_network("gru", **options) == make_net("gru", **options)
    own = Linear()
    assert as_network(own, **options) is own
    mlp = as_network(Features(), **options, precision="bfloat16")
    assert mlp == MLP(ACTIONS, ModuleEncoder(Features()), width=8, precision="bfloat16")
    hybrid = as_network("hybrid", **options, encoder=Features())
    assert hybrid.encoder == ModuleEncoder(Features())
    assert as_network("mlp", **options, encoder=Encoder()).encoder == Encoder()
    with pytest.raises(UnknownNameError, match="did you mean 'gru'"):
        as_network("grru", **options)
    with pytest.raises(MasklessError, match="an instance of a Flax module, not <class"):
        as_network(Linear, **options)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NETS)
def test_a_module_as_encoder(name, precision):
    """Its parameters are the network's; actor and critic of the MLP have a copy each."""
    net = as_network(name, num_actions=ACTIONS, encoder=Features(), width=8, precision=precision)
    obs, reset = sequence()
    check_network(net, ACTIONS, OBSERVATION)
    carry = net.initial_carry(BATCH)
    params = jax.jit(net.init)(jax.random.key(0), carry, obs, reset)
    copies = [params["params"][x] for x in params["params"] if x.endswith("encoder")]
    assert len(copies) == (2 if name == "mlp" else 1)
    kernels = [copy["module"]["Dense_0"]["kernel"] for copy in copies]
    assert all(kernel.shape == (6, 5) for kernel in kernels)
    assert not any(np.array_equal(kernels[0], other) for other in kernels[1:])

    def total(params):
        heads = net.apply(params, carry, obs, reset)[1]
        return jnp.sum(heads.logits) + jnp.sum(heads.value)

    gradient = jax.jit(jax.grad(total))(params)["params"]
    for encoder in (x for x in gradient if x.endswith("encoder")):
        assert np.abs(gradient[encoder]["module"]["Dense_0"]["kernel"]).max() > 0


def test_an_encoder_that_gives_no_features_gets_a_sentence():
    class Sum(nn.Module):
        def __call__(self, obs):
            return obs.sum((0, 2))

    net = as_network(Sum(), num_actions=ACTIONS)
    with pytest.raises(MasklessError, match=r"one array \[time, batch, features\].*Sum gives"):
        check_network(net, ACTIONS, OBSERVATION)
