"""The `maskless` command: reads the command line and runs one of `maskless.cli`."""

import importlib
import os
import sys
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from maskless import __version__, compilation_cache
from maskless.cli.common import (
    ERR,
    OUT,
    check_output,
    ignore_matplotlibrc,
    import_from_here,
    say_error,
)
from maskless.errors import MasklessError, UnknownNameError

COMMANDS = {
    "demo": "Show the main thing in a few minutes: suppression, masks, and acting without them.",
    "envs": "List the environments, or show a game in the terminal.",
    "validity": "Audit the masks of an environment.",
    "train": "Train PPO under masks, with a feasibility classifier beside it.",
    "finish": "Teach trained policies to act without an oracle.",
    "eval": "Play complete episodes under the oracle's masks, the predicted ones, and none.",
    "audit": "Compare predicted with true masks where a policy acts, and what errors cost.",
    "calibrate": "Choose a threshold for each action where the oracle is available.",
    "override": "List, add or remove rules for single actions of a policy.",
    "export": "Write a run's policy as an artifact, or as a program for other runtimes.",
    "report": "Write one self-contained HTML page about runs.",
    "reproduce": "Train what a table or figure of the paper needs, and make it.",
    "theory": "Check every statement of the paper's theory numerically.",
    "bench": "Measure training on this machine.",
}
"""Each is a file of this package, imported when it is called: --help answers at once."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point. A user's mistake is one sentence and exit code 2, never a traceback."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        import_from_here(given)
        ignore_matplotlibrc()
        command = parse(given)
        compilation_cache.enable_for_process()
        command.run()
        check_output()
    except MasklessError as error:
        say_error(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        ERR.print("maskless: interrupted, nothing more was written.")
        sys.exit(130)
    except BrokenPipeError:  # the reader closed the pipe, as in `maskless ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as a shell counts it
    except OSError as error:  # of a file or folder that nobody foresaw
        say_error(f"{error.filename or 'a file'}: {error.strerror or error}.")
        sys.exit(2)
    finally:
        for console in (OUT, ERR):  # Python would complain of what it cannot flush
            console.finish()


def parse(arguments: list[str]) -> Any:
    """The command that a command line asks for, with its settings."""
    name, *rest = arguments or ["--help"]
    if name == "--version":
        OUT.print(f"maskless {__version__}", highlight=False)
        sys.exit(0)
    if name in ("--help", "-h"):
        _print_help()
        sys.exit(0 if arguments else 2)
    if name not in COMMANDS:
        raise UnknownNameError("command", name, COMMANDS)
    import tyro

    module = importlib.import_module(f"maskless.cli.{name}")
    kind = module.OverrideCommand if name == "override" else getattr(module, name.capitalize())
    # The defaults of `train` depend on the environment and the network that it names.
    default = {"default": module.default_train(rest)} if name == "train" else {}
    return tyro.cli(kind, prog=f"maskless {name}", args=rest, **default)


def _print_help() -> None:
    table = Table("command", "", box=SIMPLE_HEAD, show_header=False, pad_edge=False)
    for name, description in COMMANDS.items():
        table.add_row(Text(name, "bold"), description)
    OUT.print("Train with action masks, deploy without them.\n", highlight=False)
    OUT.print("usage: maskless COMMAND [--help] | --version", markup=False, highlight=False)
    OUT.print(table)


if __name__ == "__main__":
    main()
