"""Networks and encoders of the user's own, and ours with unusual sizes: saved, named and loaded."""

import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy.drift import Drift

import maskless
from maskless.errors import MasklessError
from maskless.nets import MLP, Encoder, Heads, Hybrid, ModuleEncoder, make_net
from maskless.policy import policy_of, save_policy
from maskless.policy.observations import NamedObservation

KEY = jax.random.key(0)
ENV = Drift()


class OwnNet(nn.Module):
    """Follows the contract without being one of ours; reads fields by their names."""

    num_actions: int
    width: int = 4

    @nn.nowrap
    def initial_carry(self, batch):
        return jnp.zeros((batch, 1))

    @nn.compact
    def __call__(self, carry, obs, reset):
        x = jnp.concatenate([obs["place"], 2 * obs["kind"]], -1)
        x = nn.tanh(nn.Dense(self.width)(x))
        logits, value, validity = (nn.Dense(n)(x) for n in (self.num_actions, 1, self.num_actions))
        heads = Heads(logits, value[..., 0], validity, x, x, value[..., 0])
        return carry + reset.any(), heads


class OwnEncoder(nn.Module):
    """Reads fields by attribute."""

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(3)(jnp.concatenate([obs.kind, obs.place], -1))


def parameters(net):
    zeros = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), ENV.observation_shapes)
    if isinstance(getattr(net, "encoder", None), ModuleEncoder):
        zeros = NamedObservation(zeros)
    shapes = jax.eval_shape(net.init, KEY, net.initial_carry(1), zeros, jnp.ones((1, 1), bool))
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), shapes)


def observations(count=4):
    dice = np.random.default_rng(0)
    return {name: dice.normal(size=(count, 2)).astype(np.float32) for name in ("kind", "place")}


def check_same(policy, other):
    action, carry, info = policy.act(observations(), None, KEY)
    again, again_carry, again_info = other.act(observations(), None, KEY)
    np.testing.assert_array_equal(action, again)
    jax.tree.map(np.testing.assert_array_equal, (carry, info), (again_carry, again_info))


def net_entry(folder):
    return json.loads((folder / "policy.json").read_text())["net"]


def test_a_network_of_ones_own(tmp_path):
    net = OwnNet(3)
    policy = policy_of(net, parameters(net), ENV, threshold=0.4)
    folder = policy.save(tmp_path / "policy")
    named = f"{__name__}:OwnNet"
    assert net_entry(folder) == {"name": "custom", "class": named, "num_actions": 3}
    check_same(policy, maskless.load(folder, net=OwnNet(3)))
    assert maskless.load(folder, net=net).artifact.thresholds == (0.4,) * 3
    sentences = {
        f"a network of your own, {named}: pass that network, as in load": {},
        "its network needs": {"net": OwnNet(3, width=5)},
        "has 4 actions": {"net": OwnNet(4)},
        "differ in 'Dense_0/bias'": {"net": MLP(3)},
        "no Flax module": {"net": "OwnNet"},
        "pass that network": {"net": net, "encoder": OwnEncoder()},
    }
    for sentence, arguments in sentences.items():
        with pytest.raises(MasklessError, match=sentence):
            maskless.load(folder, **arguments)


def test_an_encoder_of_ones_own(tmp_path):
    net = make_net("gru", num_actions=3, encoder=ModuleEncoder(OwnEncoder()), width=4)
    policy = policy_of(net, parameters(net), ENV)
    folder = policy.save(tmp_path / "policy")
    entry = net_entry(folder)
    assert (entry["encoder"], entry["encoder_class"]) == ("custom", f"{__name__}:OwnEncoder")
    for arguments in ({"encoder": OwnEncoder()}, {"encoder": net.encoder}, {"net": net}):
        check_same(policy, maskless.load(folder, **arguments))
    with pytest.raises(MasklessError, match=r"OwnEncoder: pass that encoder, as in load\("):
        maskless.load(folder)
    with pytest.raises(MasklessError, match="the network given is MLP"):
        maskless.load(folder, net=MLP(3, encoder=net.encoder))


def test_a_network_of_ours_must_be_what_the_file_says(tmp_path):
    net = make_net("mlp", num_actions=3, width=8)
    folder = save_policy(tmp_path / "policy", net, parameters(net), ENV)
    assert maskless.load(folder, net=net).net == net
    assert maskless.load(folder, encoder=Encoder()).net == net
    with pytest.raises(MasklessError, match=r"saved from MLP\(.*width=8.*given is MLP\(.*width=16"):
        maskless.load(folder, net=MLP(3, width=16))
    with pytest.raises(MasklessError, match="the encoder 'flat', not the one given"):
        maskless.load(folder, encoder=OwnEncoder())


def test_options_of_a_network_are_saved_where_they_differ(tmp_path):
    for options in ({}, {"memory": 6, "window": 2, "s5_layers": 1}):
        net = Hybrid(3, width=8, precision="bfloat16", **options)
        policy = policy_of(net, parameters(net), ENV)
        folder = policy.save(tmp_path / f"policy-{len(options)}")
        assert net_entry(folder).get("options", {}) == options
        about = json.loads((folder / "policy.json").read_text())
        assert about["format"] == (3 if options else 2)
        loaded = maskless.load(folder)
        assert loaded.net == policy.net == Hybrid(3, width=8, **options)
    check_same(policy, loaded)
