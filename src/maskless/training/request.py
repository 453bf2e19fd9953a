"""What `train` is asked for, resolved: a configuration, and the objects that JSON cannot hold.

The same request gives the same `Config`, whether it comes from Python or from the command line.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import optax

from maskless import config as configuration
from maskless.conditions import Condition, condition, grid, name_of
from maskless.config import Config, preset
from maskless.envs import Environment
from maskless.envs.resolve import OBJECT, as_environment, name_and_options
from maskless.errors import MasklessError, UnknownNameError
from maskless.hyperparameters import VARYING, Hyperparameters
from maskless.nets import NETS, AnyNetwork, Network, as_network, check_network, is_recurrent
from maskless.ppo.learner import Optimizer
from maskless.ppo.update import adam

CUSTOM = "custom:"
"""What the name of a network begins with that was given as an object."""
WITH_ENCODER = "+"
"""Between the name of a network and that of an encoder that was given as an object."""
_HYPERPARAMETERS = {field.name for field in dataclasses.fields(Hyperparameters)}
_CONDITION = {field.name for field in dataclasses.fields(Condition)}
_CONFIG = {"seeds", "first_seed", "precision", "diagnostics"}


@dataclasses.dataclass(frozen=True)
class Request:
    """Everything that a program is made of."""

    config: Config
    env: Environment
    net: AnyNetwork
    optimizer: Optimizer = adam


def make_request(
    env: Any,
    conditions: str | Condition | Sequence[str | Condition],
    *,
    net: Any = None,
    encoder: Any = None,
    optimizer: Optimizer | None = None,
    preset_name: str = "paper",
    env_options: Mapping[str, Any] | None = None,
    ppo: Hyperparameters | None = None,
    width: int | None = None,
    frames: float = 1e6,
    **settings: Any,
) -> Request:
    """What `maskless.train` is asked for. `settings`: fields of `Config`; and numbers of
    `Hyperparameters` and `Condition`, of which a list varies from run to run."""
    net, encoder = _net_and_encoder("mlp" if net is None else net, encoder)
    fields = {name: settings.pop(name) for name in _CONFIG & settings.keys()}
    _check_types(frames, width, fields.get("seeds", 1), optimizer, settings)
    world = as_environment(env, env_options)
    single, varying = _split_numbers(settings)
    if ppo is None:
        ppo = default_hyperparameters(world, net, preset_name)
    if width is None and preset_name == "cpu":
        width = getattr(_network_class(net), "cpu_width", None)
    name, options = name_and_options(world)
    config = Config(
        env=name,
        env_options=options,
        net=_net_name(net, encoder),
        width=width,
        conditions=grid(*_names(conditions), **varying),
        frames=int(frames),
        ppo=dataclasses.replace(ppo, **single),
        optimizer="adam" if optimizer is None else "custom",
        **fields,
    )
    return _checked(
        Request(config, world, _network(config, world, net, encoder), optimizer or adam)
    )


def request_again(
    config: Config,
    *,
    env: Any = None,
    net: Any = None,
    encoder: Any = None,
    optimizer: Optimizer | None = None,
) -> Request:
    """The request that a configuration was made from. What was given as an object then must be
    given again."""
    if optimizer is None and config.optimizer != "adam":
        raise _missing("optimiser", config.optimizer, "optimizer")
    world, network = env_and_net(config, env, net, encoder)
    return _checked(Request(config, world, network, optimizer or adam))


def env_and_net(
    config: Config, env: Any = None, net: Any = None, encoder: Any = None
) -> tuple[Environment, Network]:
    """The environment and the network that a configuration names, or those given in their place."""
    if env is None and config.env.startswith(OBJECT):
        raise _missing("environment", config.env, "env")
    net, encoder = _net_and_encoder(net, encoder)
    named, _, of_encoder = config.net.partition(WITH_ENCODER)
    if net is None and config.net.startswith(CUSTOM):
        raise _missing("network", config.net, "net")
    if encoder is None and of_encoder:
        raise _missing("encoder", of_encoder, "encoder")
    world = as_environment(config.env, config.env_options) if env is None else as_environment(env)
    return world, _network(config, world, named if net is None else net, encoder)


def _missing(what: str, name: str, argument: str) -> MasklessError:
    return MasklessError(
        f"This training's {what} was given as an object ({name}): give it again, in Python with"
        f" {argument}=..."
    )


def _network(config: Config, env: Environment, net: Any, encoder: Any) -> Network:
    network = as_network(
        net,
        num_actions=env.num_actions,
        encoder=env.encoder if encoder is None else encoder,
        width=config.width,
        precision=config.precision,
    )
    if encoder is not None or not isinstance(net, str):
        check_network(network, env.num_actions, env.observation_shapes)
    return network


def _checked(request: Request) -> Request:
    config, net = request.config, request.net
    unit = getattr(net, "rollout_unit", 1)
    configuration.check(config, recurrent=is_recurrent(net), rollout_unit=unit)
    _check_masks(config, request.env)
    for name in config.conditions:
        if condition(name).detached and not isinstance(net, Network):
            raise MasklessError(f"{name!r} needs a network of maskless: its validity head alone.")
    return request


def default_hyperparameters(env: Environment, net: Any, preset_name: str) -> Hyperparameters:
    """The preset's numbers with what this network and this environment need."""
    of_net = getattr(_network_class(net), "default_hyperparameters", {})
    return preset(preset_name, net=of_net, env=env.default_hyperparameters)


def _network_class(net: Any) -> Any:
    if isinstance(net, str):
        if net not in NETS:
            raise UnknownNameError("network", net, NETS)
        return NETS[net]
    return type(net) if hasattr(net, "initial_carry") else NETS["mlp"]


def _net_and_encoder(net: Any, encoder: Any) -> tuple[Any, Any]:
    """A module that is no network is the encoder of an MLP."""
    if isinstance(net, nn.Module) and not hasattr(net, "initial_carry"):
        return "mlp", net
    if isinstance(encoder, type):
        raise MasklessError(f"Give an encoder, not its class: {encoder.__name__}().")
    return net, encoder


def _net_name(net: Any, encoder: Any) -> str:
    """In config.json: "gru", "custom:YourNetwork" or "gru+YourEncoder"."""
    name = net if isinstance(net, str) else f"{CUSTOM}{type(net).__name__}"
    return name if encoder is None else f"{name}{WITH_ENCODER}{type(encoder).__name__}"


def _check_types(
    frames: Any, width: Any, seeds: Any, optimizer: Any, settings: Mapping[str, Any]
) -> None:
    if not isinstance(frames, int | float) or not frames >= 1 or frames == float("inf"):
        raise MasklessError(f"frames must be a number of at least 1, not {frames!r}.")
    for name, value in (("width", width), ("seeds", seeds)):
        if value is not None and not isinstance(value, int):
            raise MasklessError(f"{name} must be a whole number, not {value!r}.")
    if optimizer is not None and not callable(getattr(optimizer, "update", optimizer)):
        raise MasklessError(
            f"An optimiser is an optax transformation, or a function of the hyperparameters and the"
            f" number of updates that makes one, not {optimizer!r}."
        )
    ignored = {"learning_rate", "anneal", "adam_epsilon", "max_gradient_norm"} & settings.keys()
    if isinstance(optimizer, optax.GradientTransformation) and ignored:
        raise MasklessError(
            f"{sorted(ignored)[0]} is not used beside an optimiser of your own: put it in there, or"
            " give a function (hyperparameters, updates) that makes the optimiser."
        )
    if "gamma" in settings:
        raise MasklessError(
            "gamma is the focal parameter of a condition here, as in masked-focal:gamma=1; the"
            " weight of the next step's value is discount."
        )


def _names(conditions: str | Condition | Sequence[str | Condition]) -> tuple[str, ...]:
    several = [conditions] if isinstance(conditions, str | Condition) else list(conditions)
    return tuple(name_of(x) if isinstance(x, Condition) else x for x in several)


def _split_numbers(numbers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that are the same in all runs, for `Hyperparameters`; and those for `grid`."""
    single, varying = {}, {}
    for name, value in numbers.items():
        if name not in _HYPERPARAMETERS | _CONDITION:
            raise UnknownNameError("setting", name, _HYPERPARAMETERS | _CONDITION | _CONFIG)
        listed = isinstance(value, Iterable) and not isinstance(value, str)
        several = list(value) if listed else [value]
        if name in _HYPERPARAMETERS and len(several) == 1:
            one = several[0]
            single[name] = one.item() if hasattr(one, "item") else one  # NumPy's numbers, too
        elif name in _CONDITION or name in VARYING:
            varying[name] = several
        else:
            raise MasklessError(
                f"{name} decides the shape of the program: give one value, or train twice."
            )
    return single, varying


def _check_masks(config: Config, env: Environment) -> None:
    """Refuses conditions that need a mask which the environment does not have."""
    if env.has_masks:
        return
    for name in config.conditions:
        if condition(name).masked or condition(name).has_classifier:
            raise MasklessError(
                f"{env.id} has no action masks, which {name!r} learns from: train it with"
                ' --conditions unmasked, or give it env.action_masks(), info["action_mask"] or'
                ' obs["action_mask"].'
            )
