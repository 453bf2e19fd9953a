"""The `maskless` command: reads the command line and runs one of `maskless.commands`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.markup import escape

from maskless.commands.common import ERR
from maskless.commands.demo import Demo
from maskless.commands.envs import Envs
from maskless.commands.validity import Validity
from maskless.errors import MasklessError

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Envs, tyro.conf.subcommand("envs")]
    | Annotated[Validity, tyro.conf.subcommand("validity")]
)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. A user's mistake is one sentence and exit code 2, never a traceback."""
    command: Any = tyro.cli(
        Command,
        prog="maskless",
        description="Train with action masks, deploy without them.",
        args=arguments,
    )
    sys.path.append(str(Path.cwd()))  # so that "my_module:MyEnvironment" is found
    try:
        command.run()
    except MasklessError as error:
        ERR.print(f"[bold red]maskless:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        ERR.print("maskless: interrupted, nothing more was written.")
        sys.exit(130)


if __name__ == "__main__":
    main()
