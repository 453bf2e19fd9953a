"""`maskless train`: all conditions and seeds in one program, into one folder."""

import argparse
import ast
import contextlib
import dataclasses
import inspect
import json
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from maskless.cli.common import ERR, OUT
from maskless.conditions import CONDITIONS, DEFAULT_CONDITIONS
from maskless.errors import MasklessError
from maskless.hyperparameters import VARYING, Hyperparameters

NO_ENV = ""
_PROCESS_FLAGS = ("coordinator", "processes", "process")
_WITH_RESUME = (
    *("resume", "checkpoint_minutes", "keep", "tensorboard", "wandb", "distributed", "arguments"),
)


def _field_docs(cls: type) -> dict[str, str]:
    """The docstring after each field of a dataclass: the help of its flag."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(str(text.value.value).split())
        for field, text in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _flags_of(ppo: Hyperparameters) -> dict[str, Any]:
    return {
        name: (value,) if name in VARYING else value
        for name, value in dataclasses.asdict(ppo).items()
    }


_DOCS = _field_docs(Hyperparameters)
PPOFlags: Any = dataclasses.make_dataclass(
    "PPOFlags",
    [
        (
            field.name,
            Annotated[
                tuple[float, ...] if field.name in VARYING else field.type,
                tyro.conf.arg(help=_DOCS[field.name]),
            ],
            dataclasses.field(default=_flags_of(Hyperparameters())[field.name]),
        )
        for field in dataclasses.fields(Hyperparameters)
    ],
    frozen=True,
)
"""`Hyperparameters` as flags: those that may differ from run to run take several values."""


@dataclasses.dataclass(frozen=True)
class Train:  # noqa: D101 (its docstring lists the conditions)
    __doc__ = f"""Train PPO under masks, with a feasibility classifier beside it.

    All conditions and seeds run in one compiled program; each run gets its own folder with log,
    checkpoints and policy. Conditions: {", ".join(CONDITIONS)}; numbers in them can be changed, as
    in masked-kl:strength=20,gamma=1. Several values of a number, as in --learning-rate 1e-4 3e-4,
    train a run for each, in the same program. Ctrl-C saves and stops.

    Example: maskless train --env corridor-r2 --net mlp --preset cpu --frames 1e6

    Example: maskless train --env craftax-classic --net gru --conditions masked unmasked masked-kl --seeds 4 --frames 1e8

    Example: maskless train --resume runs/craftax-classic-gru-1

    Example: maskless train --env craftax --seeds 4 --distributed --coordinator host0:1234 --processes 2 --process 0
    """  # noqa: E501

    env: str = NO_ENV
    """An id from `maskless envs`, or your own as importable.module:ClassOrFunction."""
    net: Literal["mlp", "gru", "hybrid"] = "mlp"
    """The network: no memory, a GRU, or Transformer-XL with S5."""
    conditions: tuple[str, ...] = DEFAULT_CONDITIONS
    """What to compare."""
    seeds: int = 1
    """How many seeds of each condition."""
    first_seed: int = 0
    """The first of them; the others follow."""
    frames: float = 1e6
    """Environment steps of each run, such as 1e8."""
    preset: Literal["paper", "cpu"] = "paper"
    """Where the hyperparameters below start from: the paper's table for this network, or numbers
    for two CPU cores. Their defaults here are those of --preset, --net and --env."""
    env_options: tuple[str, ...] = ()
    """Options of the environment, such as rules=exact or frozen_penalty=0."""
    width: int | None = None
    """Width of the network's layers; None: the paper's."""
    diagnostics: bool = True
    """Measure suppression, feature correlation and the classifier in every update."""
    ppo: tyro.conf.OmitArgPrefixes[PPOFlags] = dataclasses.field(default_factory=PPOFlags)
    out: Path | None = None
    """Folder of the training; default runs/ENV-NET-1, or the next free number."""
    resume: Path | None = None
    """Continue the training in this folder where its checkpoints end. Its configuration holds;
    only the flags below may be given beside it."""
    checkpoint_minutes: float = 5.0
    """Save at least this often."""
    keep: int = 2
    """How many checkpoints of each run to keep."""
    precision: str = "float32"
    """What the networks compute in: float32, or bfloat16, faster on a GPU (docs/training.md
    compares what is learned)."""
    tensorboard: bool = False
    """Also log for TensorBoard, into each run's folder."""
    wandb: str | None = None
    """Also log to this project of Weights & Biases."""
    distributed: bool = False
    """Train together with other processes, each started with the same command on its own devices.
    Process 0 writes. In a cluster that JAX knows, the three flags below are not needed."""
    coordinator: str | None = None
    """HOST:PORT of process 0; any free port that the other processes can reach."""
    processes: int | None = None
    """How many processes there are."""
    process: int | None = None
    """Which of them this is, from 0."""
    arguments: tyro.conf.Suppress[tuple[str, ...]] = ()
    """What --distributed was given with: see `_with_defaults`."""

    def run(self) -> None:
        from maskless.api import train
        from maskless.training import processes

        started = time.monotonic()
        with self._connected():
            request, folder = self._with_defaults()._request(), self._folder()
            if processes.is_first():
                _say_which_masks(request.get("env"), self.env_options)
            training = train(
                **request,
                folder=folder,
                resume=self.resume is not None,
                checkpoint_minutes=self.checkpoint_minutes,
                keep=self.keep,
                sinks=self._sinks,
                warn=_warn,
            )
            if not processes.is_first():
                return
        if not training.complete:
            OUT.print(f"stopped and saved; go on with: maskless train --resume {folder}")
            return
        OUT.print(f"trained in {time.monotonic() - started:.0f} s into {folder}", soft_wrap=True)

    def _connected(self) -> contextlib.AbstractContextManager[None]:
        """This process as one of many, where that is asked for."""
        given = [name for name in _PROCESS_FLAGS if getattr(self, name) is not None]
        if given and not self.distributed:
            raise MasklessError(f"--{given[0]} is for many processes: add --distributed.")
        if not self.distributed:
            return contextlib.nullcontext()
        from maskless.training import processes

        return processes.connected(self.coordinator, self.processes, self.process)

    def _with_defaults(self) -> "Train":
        """Its environment is imported, and asked for its hyperparameters, when the processes are
        connected: before, nothing may use JAX."""
        if not self.arguments:
            return self
        arguments = [argument for argument in self.arguments if argument != "--distributed"]
        return tyro.cli(Train, args=arguments, default=default_train(arguments))

    def _request(self) -> dict[str, Any]:
        """What `maskless.train` is asked for."""
        if self.resume is not None:
            self._refuse_changes()
            return {}
        if self.env == NO_ENV:
            raise MasklessError(
                "Say what to train on: --env ENV (see `maskless envs`), or --resume RUN."
            )
        for name in VARYING:
            if not getattr(self.ppo, name):
                raise MasklessError(f"--{name.replace('_', '-')} needs a number.")
        same = ("conditions", "seeds", "first_seed", "frames", "net", "width", "precision")
        return {
            **{name: getattr(self, name) for name in (*same, "preset", "diagnostics", "env")},
            "env_options": dict(_option(text) for text in self.env_options),
            **dataclasses.asdict(self.ppo),
        }

    def _folder(self) -> Path:
        if self.resume is not None:
            return self.resume
        if self.out is not None:
            return self.out
        base, number = f"{self.env.replace(':', '-')}-{self.net}", 1
        while (Path("runs") / f"{base}-{number}").exists():
            number += 1
        return Path("runs") / f"{base}-{number}"

    def _refuse_changes(self) -> None:
        for field in dataclasses.fields(self):
            if field.name in (*_WITH_RESUME, *_PROCESS_FLAGS):
                continue
            given, default = getattr(self, field.name), getattr(Train(), field.name)
            if given != default:
                flag = field.name
                if flag == "ppo":
                    names = [x.name for x in dataclasses.fields(given)]
                    flag = next(n for n in names if getattr(given, n) != getattr(default, n))
                raise MasklessError(
                    f"--resume goes on with the folder's own configuration: leave out"
                    f" --{flag.replace('_', '-')}."
                )

    def _sinks(self, folder: Path) -> Sequence[Any]:
        from maskless.training import sinks
        from maskless.training.folder import read_description

        about = read_description(folder)
        made: list[Any] = []
        if self.tensorboard:
            made.append(sinks.TensorBoard(folder, about["action_names"]))
        if self.wandb is not None:
            made.append(
                sinks.WandB(
                    folder,
                    program=self.wandb,
                    name=f"{about['condition_name']}-{about['seed']}",
                    config=about,
                    action_names=about["action_names"],
                )
            )
        return made


def _say_which_masks(env: str | None, options: Sequence[str]) -> None:
    """The default rules are the paper's, which is not what makes the best agent."""
    if env is None or any(option.startswith("rules=") for option in options):
        return
    from maskless.envs import make

    world = make(env, **dict(_option(text) for text in options))
    if world.exact_rules is not None and world.rules != world.exact_rules:
        ERR.print(
            "masks: the paper's listing, errors included; without them: --env-options"
            f" rules={world.exact_rules}",
            soft_wrap=True,
            highlight=False,
        )


def default_train(arguments: Sequence[str]) -> Train:
    """`Train` with the hyperparameters of the preset, network and environment that the command
    line names, so that --help shows the numbers that will be used and any of them can be given."""
    if "--distributed" in arguments:
        return Train(arguments=tuple(arguments))
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for name in ("env", "net", "preset"):
        default = next(f.default for f in dataclasses.fields(Train) if f.name == name)
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--env-options", nargs="*", default=[])
    try:
        known, _ = parser.parse_known_args(list(arguments))
        from maskless.envs import make
        from maskless.nets import NETS
        from maskless.training.request import default_hyperparameters

        options = dict(_option(text) for text in known.env_options)
        env = make(known.env or "staircase", **options)
        ppo = default_hyperparameters(env, known.net, known.preset)
    except (MasklessError, argparse.ArgumentError):
        return Train()  # what is wrong will be said when it is used
    width = NETS[known.net].cpu_width if known.preset == "cpu" else None
    return Train(ppo=PPOFlags(**_flags_of(ppo)), width=width)


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise MasklessError(f"An option of the environment is NAME=VALUE, not {text!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _warn(sentence: str) -> None:
    ERR.print(f"[yellow]warning:[/] {sentence}", soft_wrap=True)
