"""What is refused before anything compiles, and the paper's table."""

import dataclasses
import json

import pytest

from maskless.conditions import OWN_CONDITIONS
from maskless.config import Config, check
from maskless.errors import MasklessError
from maskless.hyperparameters import Hyperparameters
from maskless.nets import NETS
from maskless.presets import preset
from maskless.training.request import make_request

GOOD = Config(env="craftax-classic", frames=10**7)


def check_with_network(config):
    net = NETS[config.net]
    check(config, recurrent=net.recurrent, rollout_unit=net.rollout_unit)


def with_ppo(config=GOOD, **changes):
    return dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, **changes))


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (with_ppo(minibatches=7), "65536 samples .* 7 minibatches"),
        (
            with_ppo(dataclasses.replace(GOOD, net="gru"), minibatches=2048),
            "1024 environments .* 2048 minibatches",
        ),
        (
            with_ppo(dataclasses.replace(GOOD, net="hybrid"), rollout=32),
            "windows of 64 steps: a rollout of 32",
        ),
        (
            with_ppo(dataclasses.replace(GOOD, net="hybrid"), rollout=96),
            "multiple of 64",
        ),
        (dataclasses.replace(GOOD, conditions=("maskd",)), "did you mean 'masked'"),
        (dataclasses.replace(GOOD, conditions=()), "at least one condition"),
        (dataclasses.replace(GOOD, conditions=("masked", "masked")), "named twice"),
        (dataclasses.replace(GOOD, conditions=("masked-kl:stregth=3",)), "'strength'"),
        (dataclasses.replace(GOOD, conditions=("masked-kl:gamma=x",)), "needs a number"),
        (dataclasses.replace(GOOD, conditions=("masked:predicted_share=1",)), "no classifier"),
        (dataclasses.replace(GOOD, conditions=("masked-kl:threshold=2",)), "between 0 and 1"),
        (dataclasses.replace(GOOD, seeds=0), "seeds must be at least 1"),
        (dataclasses.replace(GOOD, width=0), "width must be at least 1"),
        (dataclasses.replace(GOOD, frames=1000), "less than one update"),
        (dataclasses.replace(GOOD, precision="float8"), "precision"),
        (dataclasses.replace(GOOD, conditions=("masked:discount=2",)), "discount must be between"),
        (dataclasses.replace(GOOD, conditions=("masked:num_envs=2",)), "num_envs"),
        (dataclasses.replace(GOOD, conditions=("masked-kl:literal=2",)), "must be 0 or 1"),
        (with_ppo(num_envs=0), "num_envs must be a whole number of at least 1"),
        (with_ppo(epochs=1.5), "epochs must be a whole number"),
        (with_ppo(learning_rate=0.0), "learning_rate must be above 0"),
        (with_ppo(learning_rate=float("nan")), "learning_rate must be a number"),
        (with_ppo(entropy=-1.0), "entropy must not be negative"),
        (with_ppo(discount=1.1), "discount must be between 0 and 1"),
    ],
)
def test_what_cannot_be_trained_is_refused(config, sentence):
    with pytest.raises(MasklessError, match=sentence):
        check_with_network(config)


def test_good_ones_pass():
    for net in ("mlp", "gru", "hybrid"):
        for name in ("paper", "cpu"):
            width = NETS[net].cpu_width if name == "cpu" else None
            ppo = preset(name, net=NETS[net].default_hyperparameters)
            check_with_network(dataclasses.replace(GOOD, net=net, ppo=ppo, width=width))
    check(dataclasses.replace(GOOD, conditions=("masked-kl:strength=20,gamma=1", "masked-kl")))


def test_the_papers_table():
    common = {
        "num_envs": 1024, "minibatches": 8, "epochs": 4, "learning_rate": 2e-4, "anneal": True,
        "gae_lambda": 0.8, "clip": 0.2, "value_weight": 0.5, "max_gradient_norm": 1.0,
        "rnd_advantage": 0.01, "rnd_loss_weight": 0.01,
    }  # fmt: skip
    own = {
        "mlp": {"rollout": 64, "discount": 0.99, "entropy": 0.01},
        "gru": {"rollout": 64, "discount": 0.99, "entropy": 0.01},
        "hybrid": {"rollout": 128, "discount": 0.999, "entropy": 0.002},
    }
    for net, numbers in own.items():
        ppo = preset("paper", net=NETS[net].default_hyperparameters)
        assert (common | numbers).items() <= dataclasses.asdict(ppo).items()


def test_the_environment_s_numbers_come_after_the_network_s():
    ppo = preset("paper", net={"rollout": 128, "discount": 0.999}, env={"rollout": 32, "rnd": True})
    assert (ppo.rollout, ppo.discount, ppo.rnd) == (32, 0.999, True)
    assert preset("cpu", net={"rollout": 128, "discount": 0.999}).discount == 0.999


def test_unknown_presets_and_networks():
    with pytest.raises(MasklessError, match="preset"):
        preset("papre")
    with pytest.raises(MasklessError, match="network"):
        make_request("staircase", "masked", net="lstm")
    # The width of a network belongs to the preset.
    widths = {net: make_request("staircase", "masked", net=net).config.width for net in NETS}
    assert set(widths.values()) == {None}
    small = make_request("staircase", "masked", net="hybrid", preset_name="cpu").config
    assert small.width == NETS["hybrid"].cpu_width


def test_a_config_survives_json():
    config = dataclasses.replace(
        GOOD, conditions=("masked", "masked-kl"), env_options={"rules": "exact"}, seeds=3
    )
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(MasklessError, match="not a configuration"):
        Config.from_json(config.to_json() | {"colour": "red"})
    with pytest.raises(MasklessError, match="not a configuration"):
        Config.from_json({})


def test_runs_are_conditions_times_seeds():
    config = dataclasses.replace(GOOD, conditions=("masked", "unmasked"), seeds=2, first_seed=5)
    assert config.runs == [("masked", 5), ("masked", 6), ("unmasked", 5), ("unmasked", 6)]
    assert config.frames_per_update == Hyperparameters().num_envs * Hyperparameters().rollout
    assert config.updates == 152


def test_the_presets_for_worlds_of_one_s_own():
    for name, samples in (("small", 256), ("gymnasium", 64)):
        for net in ("mlp", "gru", "hybrid"):
            kind = NETS[net]
            ppo = preset(name, net=kind.default_hyperparameters, recurrent=kind.recurrent)
            assert ppo.num_envs * ppo.rollout // ppo.minibatches == samples or kind.recurrent
            check_with_network(dataclasses.replace(GOOD, net=net, ppo=ppo, width=kind.cpu_width))
    # What such an environment asks for comes last; the paper's small preset is final.
    assert preset("small", env={"num_envs": 8, "discount": 0.9}).num_envs == 8
    assert preset("cpu", env={"num_envs": 8, "discount": 0.9}).num_envs == 64


def test_which_preset_and_condition_a_world_gets():
    own = make_request("toys:Tower").config
    assert (own.preset, own.conditions, own.width) == ("small", OWN_CONDITIONS, 128)
    host = make_request("gymnasium:Taxi-v3", env_options={"workers": 0}).config
    assert (host.preset, host.ppo.num_envs, host.ppo.epochs) == ("gymnasium", 16, 10)
    assert Config.from_json(host.to_json()) == host
    for world in ("staircase", "corridor-r2", "craftax-classic"):
        papers = make_request(world).config
        assert (papers.preset, papers.width) == ("paper", None)
        assert papers.conditions == ("masked", "unmasked", "masked-kl")
    assert make_request("toys:Tower", preset_name="paper").config.ppo.num_envs == 1024
    assert "preset" not in make_request("staircase", ppo=Hyperparameters()).config.to_json()
