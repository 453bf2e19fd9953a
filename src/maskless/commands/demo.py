"""`maskless demo`: the main thing, in a few minutes."""

import dataclasses
from pathlib import Path

from maskless.commands.common import OUT
from maskless.commands.validity import Validity


@dataclasses.dataclass(frozen=True)
class Demo:
    """Show the main thing in a few minutes: what the paper's masks get wrong in Craftax-Classic.

    Example: maskless demo
    """

    states: int = 4096
    """How many states to measure."""
    out: Path = Path("runs/demo")
    """Folder for the results."""

    def run(self) -> None:
        OUT.print(
            "Which actions can change the world? Every action of every state is played beside a"
            " no-op, with the same dice, and compared with two sets of masks: the [bold]paper[/]'s"
            " listing, and our [bold]exact[/] rules.\n"
        )
        Validity(env="craftax-classic", states=self.states, out=self.out).run()
        OUT.print("\nThe full game: maskless validity craftax     Everything: maskless --help")
