"""`maskless demo`: the main thing, in a few minutes."""

import dataclasses
import shutil
from pathlib import Path

from maskless.cli.common import OUT, warn
from maskless.cli.eval import Eval
from maskless.cli.report import Report
from maskless.errors import require
from maskless.files import output_folder

CONDITIONS = ("unmasked", "masked", "masked-focal", "masked-kl")


@dataclasses.dataclass(frozen=True)
class Demo:
    """Show the main thing in a few minutes: suppression, masks, and acting without them.

    Trains four conditions on the staircase of the paper's Figure 1, plays them under oracle,
    predicted and no masks, and writes a page about it.

    Example: maskless demo
    """

    frames: float = 2e5
    """Environment steps of each of the four runs."""
    out: Path = Path("runs/demo")
    """Folder for the results; an older demo in it is replaced."""

    def run(self) -> None:
        from maskless.api import train
        from maskless.diagnostics.suppression_warning import suppressed_actions
        from maskless.training import lock
        from maskless.training.folder import read_config, run_folder
        from maskless.training.log import read_metrics

        OUT.print(
            "The staircase: a corridor of 40 cells with a ladder at its end. `descend` works"
            " only there. Of four runs one is never told which actions are valid; the others are,"
            " by masks, and two of them learn to predict the masks.\n"
        )
        if (self.out / "config.json").exists():
            with lock.writing(self.out, warn):  # another demo may be under way
                before = read_config(self.out)
                require(
                    (before.env, before.conditions) == ("staircase", CONDITIONS),
                    f"{self.out} holds something else than a demo: choose another folder (--out).",
                )
                shutil.rmtree(self.out)
        output_folder(self.out.parent)
        training = train("staircase", CONDITIONS, frames=self.frames, preset="cpu", folder=self.out)
        if not training.complete:
            return
        log = read_metrics(run_folder(self.out, ("unmasked", 0)))
        for found in suppressed_actions(log[: len(log) // 4], training.request.env.action_names):
            OUT.print(f"unmasked, after a quarter of its frames: {found.sentence}")
        Eval(self.out, episodes=512).run()
        Report((self.out,)).run()
        OUT.print("\nYour own environment: maskless train --help     Everything: maskless --help")
