"""The `maskless` command: reads the command line and runs one of `maskless.cli`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.markup import escape

from maskless.cli.audit import Audit
from maskless.cli.bench import Bench
from maskless.cli.calibrate import Calibrate
from maskless.cli.common import ERR
from maskless.cli.demo import Demo
from maskless.cli.envs import Envs
from maskless.cli.eval import Eval
from maskless.cli.export import Export
from maskless.cli.override import OverrideCommand
from maskless.cli.report import Report
from maskless.cli.reproduce import Reproduce
from maskless.cli.theory import Theory
from maskless.cli.train import Train, default_train
from maskless.cli.validity import Validity
from maskless.errors import MasklessError


def _command(arguments: list[str] | None) -> Any:
    """All subcommands; the defaults of `train` depend on what the command line asks for."""
    train = tyro.conf.subcommand("train", default=default_train(arguments))
    return (
        Annotated[Demo, tyro.conf.subcommand("demo")]
        | Annotated[Envs, tyro.conf.subcommand("envs")]
        | Annotated[Validity, tyro.conf.subcommand("validity")]
        | Annotated[Train, train]
        | Annotated[Eval, tyro.conf.subcommand("eval")]
        | Annotated[Audit, tyro.conf.subcommand("audit")]
        | Annotated[Calibrate, tyro.conf.subcommand("calibrate")]
        | Annotated[OverrideCommand, tyro.conf.subcommand("override")]
        | Annotated[Export, tyro.conf.subcommand("export")]
        | Annotated[Report, tyro.conf.subcommand("report")]
        | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
        | Annotated[Theory, tyro.conf.subcommand("theory")]
        | Annotated[Bench, tyro.conf.subcommand("bench")]
    )


def main(arguments: list[str] | None = None) -> None:
    """Entry point. A user's mistake is one sentence and exit code 2, never a traceback."""
    try:
        command: Any = tyro.cli(
            _command(arguments),
            prog="maskless",
            description="Train with action masks, deploy without them.",
            args=arguments,
        )
        sys.path.append(str(Path.cwd()))  # so that "my_module:MyEnvironment" is found
        command.run()
    except MasklessError as error:
        ERR.print(f"[bold red]maskless:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        ERR.print("maskless: interrupted, nothing more was written.")
        sys.exit(130)
    except BrokenPipeError:  # who read our output has seen enough, as in `maskless ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as a shell counts it


if __name__ == "__main__":
    main()
