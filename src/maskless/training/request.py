"""What `train` is asked for, resolved: a configuration, and the objects that JSON cannot hold.

The same request gives the same `Config`, whether it comes from Python or from the command line.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import optax

from maskless import config as configuration
from maskless.conditions import (
    DEFAULT_CONDITIONS,
    OWN_CONDITIONS,
    Condition,
    condition,
    grid,
    name_of,
)
from maskless.config import Config
from maskless.envs import Environment
from maskless.envs.prudence import check_prudence
from maskless.envs.resolve import OBJECT, as_environment, name_and_options
from maskless.envs.trust import make_named_in_file
from maskless.errors import MasklessError, UnknownNameError
from maskless.hyperparameters import NAMES_ELSEWHERE, VARYING, Hyperparameters
from maskless.nets import NETS, AnyNetwork, Network, as_network, check_network, is_recurrent
from maskless.ppo.learner import Optimizer
from maskless.ppo.update import adam
from maskless.presets import AUTO, PRESETS, preset

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
    conditions: str | Condition | Sequence[str | Condition] | None = None,
    *,
    net: Any = None,
    encoder: Any = None,
    optimizer: Optimizer | None = None,
    preset_name: str = AUTO,
    env_options: Mapping[str, Any] | None = None,
    ppo: Hyperparameters | None = None,
    width: int | None = None,
    frames: float = 1e6,
    finish: float | None = None,
    **settings: Any,
) -> Request:
    """What `maskless.train` is asked for. `settings`: fields of `Config`; and numbers of
    `Hyperparameters` and `Condition`, of which a list varies from run to run."""
    net, encoder = _net_and_encoder("mlp" if net is None else net, encoder)
    fields = {name: settings.pop(name) for name in _CONFIG & settings.keys()}
    _check_types(frames, width, fields.get("seeds", 1), optimizer, settings)
    if finish is not None:
        check_finish(finish)
    world = as_environment(env, env_options)
    single, varying = _split_numbers(settings)
    chosen = None if ppo is not None else choose_preset(world, preset_name)
    if chosen is not None:
        ppo, width = default_numbers(world, net, chosen, width)
    assert ppo is not None
    if conditions is None:
        conditions = default_conditions(world)
    name, options = name_and_options(world)
    runs = grid(*_names(conditions), **varying)
    config = Config(
        env=name,
        env_options=options,
        net=_net_name(net, encoder),
        width=width,
        conditions=runs,
        frames=int(frames),
        ppo=dataclasses.replace(ppo, **single),
        preset=chosen,
        finish=default_finish(world, runs, int(frames)) if finish is None else int(finish),
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
    file: Path | None = None,
    trust: bool = False,
) -> Request:
    """The request that a configuration was made from. What was given as an object then must be
    given again. `file`: where the configuration was read, unless the caller made it; `trust`:
    import what it names (`maskless.envs.trust`)."""
    if optimizer is None and config.optimizer != "adam":
        raise _missing("optimiser", config.optimizer, "optimizer")
    if isinstance(env, str) and env != config.env:
        raise MasklessError(
            f"A training goes on in its own environment, {config.env}, and not in {env}."
        )
    world, network = env_and_net(config, env, net, encoder, file=file, trust=trust)
    return _checked(Request(config, world, network, optimizer or adam))


def env_and_net(
    config: Config,
    env: Any = None,
    net: Any = None,
    encoder: Any = None,
    *,
    file: Path | None = None,
    trust: bool = False,
) -> tuple[Environment, Network]:
    """The environment and the network that a configuration names, or those given in their place.
    `file`, `trust`: as above."""
    if env is None and config.env.startswith(OBJECT):
        raise _missing("environment", config.env, "env")
    net, encoder = _net_and_encoder(net, encoder)
    named, _, of_encoder = config.net.partition(WITH_ENCODER)
    if net is None and config.net.startswith(CUSTOM):
        raise _missing("network", config.net, "net")
    if encoder is None and of_encoder:
        raise _missing("encoder", of_encoder, "encoder")
    if env is None and file is not None:
        world = make_named_in_file(config.env, config.env_options, file=file, trust=trust)
    else:
        world = given_environment(config, config.env if env is None else env)
    return world, _network(config, world, named if net is None else net, encoder)


def given_environment(config: Config, env: Any) -> Environment:
    """The user's `env`; with the options of the configuration if it is the one named there, or
    stands for one that was given as an object."""
    same = config.env.startswith(OBJECT) or (isinstance(env, str) and env == config.env)
    return as_environment(env, config.env_options if same else None)


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
    if isinstance(network, Network):
        network = network.clone(**_extra_heads(config))
    if encoder is not None or not isinstance(net, str):
        check_network(network, env.num_actions, env.observation_shapes)
    return network


def _extra_heads(config: Config) -> dict[str, Any]:
    """What some of the conditions need beside the heads that every network has."""
    chosen = [condition(name) for name in config.conditions]
    needed = {
        "cloned": any(each.has_clone for each in chosen),
        "uncertain": any(each.confidence > 0 for each in chosen),
    }
    return {name: True for name, is_needed in needed.items() if is_needed}


def _checked(request: Request) -> Request:
    config, net = request.config, request.net
    unit = getattr(net, "rollout_unit", 1)
    configuration.check(config, recurrent=is_recurrent(net), rollout_unit=unit)
    _check_masks(config, request.env)
    if config.finish and jax.process_count() > 1:
        raise MasklessError(
            "Policies are finished by one process: train with finish=0 (--finish 0), and finish"
            " them afterwards (maskless finish RUN)."
        )
    for name in config.conditions:
        alone = condition(name).detached or condition(name).ridge
        if alone and not isinstance(net, Network):
            raise MasklessError(f"{name!r} needs a network of maskless: its validity head alone.")
        if condition(name).has_clone and not getattr(net, "cloned", False):
            raise MasklessError(
                f"{name!r} needs a second policy head: a network of maskless, or one of yours that"
                " gives Heads.clone and says cloned = True."
            )
    return request


def choose_preset(env: Environment, name: str = AUTO) -> str:
    """The preset of this name; "auto": the one for this environment on this device."""
    if name != AUTO:
        return name
    if env.default_preset is not None:
        return env.default_preset
    if env.runs_on_host:
        return "gymnasium"
    return "small" if jax.default_backend() == "cpu" else "paper"


def default_numbers(
    env: Environment, net: Any, preset_name: str, width: int | None = None
) -> tuple[Hyperparameters, int | None]:
    """The preset's numbers with what this network and this environment need; and the network's
    width, unless there is one already (None: the paper's)."""
    kind = _network_class(net)
    ppo = preset(
        preset_name,
        net=getattr(kind, "default_hyperparameters", {}),
        env=env.default_hyperparameters,
        recurrent=getattr(kind, "recurrent", True),
    )
    if width is None and PRESETS[preset_name].narrow:
        width = getattr(kind, "cpu_width", None)
    return ppo, width


def default_conditions(env: Environment) -> tuple[str, ...]:
    """What is trained in it unless somebody asks for others."""
    return OWN_CONDITIONS if env.default_preset is None else DEFAULT_CONDITIONS


def default_finish(env: Environment, conditions: Sequence[str], frames: int) -> int:
    """The frames of the phase after PPO unless somebody asks for others: a policy for a world of
    one's own is to be deployed, where there is no oracle."""
    masked = env.has_masks and any(condition(name).masked for name in conditions)
    if env.default_preset is not None or not masked or jax.process_count() > 1:
        return 0
    return frames // 2


def check_finish(frames: Any) -> None:
    """Refuses what is no number of frames for the phase after PPO."""
    if not isinstance(frames, int | float) or not 0 <= frames < math.inf:
        raise MasklessError(f"finish must be a number of at least 0, not {frames!r}.")


LARGE = 30.0
"""Numbers beyond this saturate the first layer."""


def remarks(request: Request, *, numbers_too: bool) -> Iterator[str]:
    """What was chosen for the user, in a line each. `numbers_too`: also the preset."""
    config, env = request.config, request.env
    ppo = config.ppo
    if numbers_too and config.preset is not None:
        parts = [
            f"{ppo.num_envs:,} environments x {ppo.rollout} steps",
            f"{ppo.epochs} epochs of {ppo.minibatches} minibatches",
            f"learning rate {ppo.learning_rate:g}",
            f"width {config.width or 'of the paper'}",
        ]
        if config.finish:
            parts.append(f"then {config.finish:,} frames to finish")
        yield f"preset {config.preset}: {', '.join(parts)}; {' '.join(config.conditions)}"
    largest = getattr(env, "largest_number", 0.0)
    if largest > LARGE:
        yield (
            f"observations hold numbers such as {largest:,.0f}, from which a network learns little:"
            " divide them in the environment or in a wrapper, so that they are about 1"
        )
    if env.exact_rules not in (None, env.rules) and "rules" not in config.env_options:
        yield (
            "masks: the paper's listing, errors included; without them: --env-options"
            f" rules={env.exact_rules}"
        )


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
        if name in NAMES_ELSEWHERE:
            raise MasklessError(f"{name} is called {NAMES_ELSEWHERE[name]} here.")
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
    """Refuses conditions that need a mask, or parts of one, which the environment does not have."""
    for name in config.conditions:
        check_prudence(env, condition(name).prudence, name)
    if env.has_masks:
        return
    for name in config.conditions:
        if condition(name).needs_oracle or config.finish:
            raise MasklessError(
                f"{env.id} has no action masks, which {name!r} learns from: train it with"
                " --conditions unmasked or discovered, or give it env.action_masks(),"
                ' info["action_mask"] or obs["action_mask"].'
            )
