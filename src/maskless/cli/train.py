"""`maskless train`: all conditions and seeds in one program, into one folder."""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tyro

from maskless import config as presets
from maskless.cli.common import ERR, OUT
from maskless.config import Config, Hyperparameters
from maskless.errors import MasklessError

NO_ENV = ""
_OF_PROCESSES = ("coordinator", "processes", "process")


@dataclasses.dataclass(frozen=True)
class Train:
    """Train PPO under masks, with a feasibility classifier beside it.

    All conditions and seeds run in one compiled program; each run gets its own folder with log,
    checkpoints and policy. Conditions: masked, unmasked, masked-focal, masked-kl, unmasked-kl,
    masked-bce, masked-mix, masked-loop; numbers in them can be changed, as in
    masked-kl:strength=20,gamma=1. Ctrl-C saves and stops.

    Example: maskless train --env corridor-r2 --net mlp --preset cpu --frames 1e6

    Example: maskless train --env craftax-classic --net gru --conditions masked unmasked masked-kl --seeds 4 --frames 1e8

    Example: maskless train --resume runs/craftax-classic-gru-1

    Example: maskless train --env craftax --seeds 4 --distributed --coordinator host0:1234 --processes 2 --process 0
    """  # noqa: E501

    env: str = NO_ENV
    """An id from `maskless envs`, or your own as importable.module:ClassOrFunction."""
    net: Literal["mlp", "gru", "hybrid"] = "mlp"
    """The network: no memory, a GRU, or Transformer-XL with S5."""
    conditions: tuple[str, ...] = ("masked", "unmasked", "masked-kl")
    """What to compare."""
    seeds: int = 1
    """How many seeds of each condition."""
    first_seed: int = 0
    """The first of them; the others follow."""
    frames: float = 1e6
    """Environment steps of each run, such as 1e8."""
    preset: Literal["paper", "cpu"] = "paper"
    """Where the hyperparameters below start from: the paper's table for this network, or numbers
    for two CPU cores. Their defaults here are those of --preset and --net."""
    env_options: tuple[str, ...] = ()
    """Options of the environment, such as rules=exact or frozen_penalty=0."""
    width: int | None = None
    """Width of the network's layers; None: the paper's."""
    diagnostics: bool = True
    """Measure suppression, feature correlation and the classifier in every update."""
    ppo: tyro.conf.OmitArgPrefixes[Hyperparameters] = dataclasses.field(
        default_factory=Hyperparameters
    )
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

    def run(self) -> None:
        from maskless.training import processes

        given = [name for name in _OF_PROCESSES if getattr(self, name) is not None]
        if self.distributed:
            with processes.connected(self.coordinator, self.processes, self.process):
                self._run()
        elif given:
            raise MasklessError(f"--{given[0]} is for many processes: add --distributed.")
        else:
            self._run()

    def _run(self) -> None:
        from maskless.training import processes
        from maskless.training.train import resume, train

        started = time.monotonic()
        with processes.failing_together():
            keeping = self._keeping()
            if self.resume is not None:
                self._refuse_changes()
            else:
                config = self._config()
                presets.check(config)
        if self.resume is not None:
            folder = self.resume
            finished = resume(folder, keeping=keeping, sinks=self._sinks, warn=_warn)
        else:
            folder = self.out or _free_folder(config)
            if processes.is_first():
                _say_which_masks(config)
            finished = train(config, folder, keeping=keeping, sinks=self._sinks)
        if not processes.is_first():
            return
        if not finished:
            OUT.print(f"stopped and saved; go on with: maskless train --resume {folder}")
            return
        OUT.print(f"trained in {time.monotonic() - started:.0f} s into {folder}", soft_wrap=True)

    def _keeping(self) -> Any:
        from maskless.training.train import Keeping

        if self.keep < 1:
            raise MasklessError(f"keep must be at least 1, not {self.keep}.")
        return Keeping(checkpoint_minutes=self.checkpoint_minutes, keep=self.keep)

    def _config(self) -> Config:
        if self.env == NO_ENV:
            raise MasklessError(
                "Say what to train on: --env ENV (see `maskless envs`), or --resume RUN."
            )
        if not self.frames >= 1 or self.frames == float("inf"):
            raise MasklessError(f"frames must be a number of at least 1, not {self.frames}.")
        return Config(
            env=self.env,
            env_options=dict(_option(text) for text in self.env_options),
            net=self.net,
            width=self.width,
            conditions=self.conditions,
            seeds=self.seeds,
            first_seed=self.first_seed,
            frames=int(self.frames),
            ppo=self.ppo,
            precision=self.precision,
            diagnostics=self.diagnostics,
        )

    def _refuse_changes(self) -> None:
        where = ("distributed", *_OF_PROCESSES)
        free = ("resume", "checkpoint_minutes", "keep", "tensorboard", "wandb", *where)
        for field in dataclasses.fields(self):
            if field.name not in free and getattr(self, field.name) != getattr(Train(), field.name):
                raise MasklessError(
                    f"--resume goes on with the folder's own configuration: leave out"
                    f" --{field.name.replace('_', '-')}."
                )

    def _sinks(self, folder: Path) -> Sequence[Any]:
        from maskless.training import sinks

        about = json.loads((folder / "config.json").read_text())
        made: list[Any] = []
        if self.tensorboard:
            made.append(sinks.TensorBoard(folder, about["action_names"]))
        if self.wandb is not None:
            run = f"{about['condition_name']}-{about['seed']}"
            made.append(
                sinks.WandB(
                    folder,
                    program=self.wandb,
                    name=run,
                    config=about,
                    action_names=about["action_names"],
                )
            )
        return made


def _say_which_masks(config: Config) -> None:
    """The default is the paper's, which is not what makes the best agent."""
    if config.env.startswith("craftax") and "rules" not in config.env_options:
        ERR.print(
            "masks: the paper's listing, errors included; without them: --env-options rules=exact",
            soft_wrap=True,
            highlight=False,
        )


def default_train(arguments: Sequence[str] | None) -> Train:
    """`Train` with the hyperparameters of the preset, network and environment that the command
    line names, so that --help shows the numbers that will be used and any of them can be given."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for name in ("env", "net", "preset"):
        default = next(f.default for f in dataclasses.fields(Train) if f.name == name)
        parser.add_argument(f"--{name}", default=default)
    known, _ = parser.parse_known_args(sys.argv[1:] if arguments is None else list(arguments))
    try:
        ppo, width = presets.preset(known.preset, known.net, rnd="corridor" in known.env)
    except MasklessError:
        return Train()  # tyro will say which names there are
    return Train(ppo=ppo, width=width)


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise MasklessError(f"An option of the environment is NAME=VALUE, not {text!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _free_folder(config: Config) -> Path:
    base = f"{config.env.replace(':', '-')}-{config.net}"
    number = 1
    while (Path("runs") / f"{base}-{number}").exists():
        number += 1
    return Path("runs") / f"{base}-{number}"


def _warn(sentence: str) -> None:
    ERR.print(f"[yellow]warning:[/] {sentence}", soft_wrap=True)
