"""`maskless train`: all conditions and seeds in one program, into one folder."""

import argparse
import ast
import contextlib
import dataclasses
import inspect
import signal
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from maskless.cli.common import env_options, say, warn
from maskless.conditions import CONDITIONS, DEFAULT_CONDITIONS
from maskless.errors import MasklessError, require
from maskless.files import output_folder
from maskless.hyperparameters import NAMES_ELSEWHERE, VARYING, Hyperparameters

NO_ENV = ""
_PROCESS_FLAGS = ("coordinator", "processes", "process")
_WITH_RESUME = (
    *("resume", "env", "trust", "checkpoint_minutes", "keep", "worker_minutes", "tensorboard"),
    *("wandb", "probe"),
    *("distributed", "arguments"),
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

    Example: maskless train --env gymnasium:Taxi-v3 --frames 4e5

    Example: maskless train --env corridor-r2 --net mlp --preset cpu --frames 1e6

    Example: maskless train --env craftax-classic --net gru --conditions masked unmasked masked-kl --seeds 4 --frames 1e8

    Example: maskless train --resume runs/craftax-classic-gru-1

    Example: maskless train --env craftax --seeds 4 --distributed --coordinator host0:1234 --processes 2 --process 0
    """  # noqa: E501

    env: str = NO_ENV
    """An id from `maskless envs`; any of Gymnasium's as gymnasium:ID; or your own, for JAX or
    Gymnasium, as importable.module:ClassOrFunction."""
    net: Literal["mlp", "gru", "hybrid"] = "mlp"
    """The network: no memory, a GRU, or Transformer-XL with S5."""
    conditions: tuple[str, ...] = DEFAULT_CONDITIONS
    """What to compare. In a world of your own, by default, one whose policy can be deployed."""
    seeds: int = 1
    """How many seeds of each condition."""
    first_seed: int = 0
    """The first of them; the others follow."""
    frames: float = 1e6
    """Environment steps of each run, such as 1e8."""
    preset: Literal["auto", "paper", "cpu", "small", "gymnasium"] = "auto"
    """Where the hyperparameters below start from: the paper's table for this network, the same for
    two CPU cores (cpu), numbers for a JAX world of your own on a CPU (small) or for one of
    Gymnasium; auto: by world and device. Their defaults here are those of --preset, --net and
    --env."""
    env_options: tuple[str, ...] = ()
    """Options of the environment, such as rules=exact or frozen_penalty=0."""
    width: int | None = None
    """Width of the network's layers; None: the paper's."""
    diagnostics: bool = True
    """Measure suppression, feature correlation and the classifier in every update."""
    ppo: tyro.conf.OmitArgPrefixes[PPOFlags] = dataclasses.field(default_factory=PPOFlags)
    finish: float | None = None
    """Environment steps of each run after PPO, at most, in which the policy learns to act without
    an oracle, such as 2e5; None: half of --frames in a world of your own, 0 in the paper's."""
    out: Path | None = None
    """Folder of the training; default runs/ENV-NET-1, or the next free number."""
    resume: Path | None = None
    """Continue the training in this folder where its checkpoints end. Its configuration holds;
    only the flags below may be given beside it, and --env again if that is code of your own."""
    trust: bool = False
    """With --resume: import the environment that the folder names, if it is neither built in nor
    Gymnasium's."""
    checkpoint_minutes: float = 5.0
    """Save at least this often."""
    keep: int = 2
    """How many checkpoints of each run to keep."""
    worker_minutes: float = 10.0
    """How long a Gymnasium environment may take for one answer before the training saves and
    stops."""
    probe: int = 0
    """For every line of the logs, look what the policies do in so many fixed states of each action
    in which it is valid, such as 32 (docs/metrics.md); 0: do not."""
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
            request = self._with_defaults()._request()
            with self._folder(makes_it=processes.is_first()) as folder:
                training = train(
                    **request,
                    folder=folder,
                    resume=self.resume is not None,
                    checkpoint_minutes=self.checkpoint_minutes,
                    keep=self.keep,
                    worker_minutes=self.worker_minutes,
                    probe=self.probe,
                    sinks=self._sinks,
                    warn=warn,
                    may_exit=True,
                )
        if processes.is_first():
            finished_now = any(each.rounds for each in training.finished or [])
            had_nothing_to_do = training.resumed_at == training.update and not finished_now
            if training.complete and had_nothing_to_do:
                say(f"{folder} was complete already: there was nothing left to train")
            elif training.complete:
                say(f"trained in {time.monotonic() - started:.0f} s into {folder}")
            else:
                config = training.config
                named = _named_again(config.env, config.env_options)
                say(f"stopped and saved; go on with: maskless train --resume {folder}{named}")
        if not training.complete:
            # As a shell counts it, so that `maskless train ... && maskless eval ...` ends here.
            sys.exit(128 + signal.Signals[training.stopped_by or "SIGTERM"])

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
        from maskless.training.sinks import optional

        if self.resume is not None:
            self._refuse_changes()
            return {"trust": self.trust} | ({} if self.env == NO_ENV else {"env": self.env})
        require(not self.trust, "--trust is for --resume; what you name yourself is trusted.")
        if self.env == NO_ENV:
            raise MasklessError(
                "Say what to train on: --env ENV (see `maskless envs`), or --resume RUN."
            )
        for package, needed in (("tensorboardX", self.tensorboard), ("wandb", self.wandb)):
            if needed:  # said before a folder is made
                optional(package)
        for name in VARYING:
            if not getattr(self.ppo, name):
                raise MasklessError(f"--{name.replace('_', '-')} needs a number.")
        same = ("conditions", "seeds", "first_seed", "frames", "net", "width", "precision")
        return {
            **{name: getattr(self, name) for name in (*same, "preset", "diagnostics", "env")},
            "finish": self.finish,
            "env_options": env_options(self.env_options),
            **dataclasses.asdict(self.ppo),
        }

    @contextlib.contextmanager
    def _folder(self, makes_it: bool) -> Iterator[Path]:
        """The one that was named, or a new one, which is this process's alone once it is made."""
        if self.resume is not None or self.out is not None:
            yield self.resume or self.out or Path()
            return
        from maskless.training.folder import numbered

        paths = numbered(self.env, self.net)
        if not makes_it:
            yield next(path for path in paths if not path.exists())
            return
        output_folder(Path("runs"))
        path = next(path for path in paths if _made(path))
        try:
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.rmdir()  # where nothing was trained there is nothing in it

    def _refuse_changes(self) -> None:
        usual = default_train([] if self.env == NO_ENV else ["--env", self.env])
        for field in dataclasses.fields(self):
            if field.name in (*_WITH_RESUME, *_PROCESS_FLAGS):
                continue
            given, default = getattr(self, field.name), getattr(usual, field.name)
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
                    config=dict(about),
                    action_names=about["action_names"],
                )
            )
        return made


def _named_again(env: str, options: dict[str, Any]) -> str:
    """The flag without which nothing is imported that only a file names."""
    from maskless.envs.trust import names_code

    return f" --env {env}" if names_code(env, options) else ""


def _made(path: Path) -> bool:
    """Whether it was not there before; of two processes that try, one makes it."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise MasklessError(
            f"Cannot make {path} ({error.strerror}): choose another folder with --out."
        ) from error
    return True


def default_train(arguments: Sequence[str]) -> Train:
    """`Train` with the hyperparameters of the preset, network and environment that the command
    line names, so that --help shows the numbers that will be used and any of them can be given."""
    for argument in arguments:
        name = argument.removeprefix("--").partition("=")[0].replace("-", "_")
        if argument.startswith("--") and name in NAMES_ELSEWHERE:
            here = NAMES_ELSEWHERE[name].replace("_", "-")
            raise MasklessError(f"{argument.partition('=')[0]} is called --{here} here.")
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
        from maskless.training import request

        options = env_options(known.env_options)
        env = make(known.env or "staircase", **options)
        chosen = request.choose_preset(env, known.preset)
        ppo, width = request.default_numbers(env, known.net, chosen)
    except (MasklessError, argparse.ArgumentError):
        return Train()  # what is wrong will be said when it is used
    conditions = request.default_conditions(env)
    return Train(ppo=PPOFlags(**_flags_of(ppo)), width=width, conditions=conditions)
