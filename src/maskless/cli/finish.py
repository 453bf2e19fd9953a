"""`maskless finish`: teach trained policies to act without an oracle."""

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import tyro

from maskless.cli.common import OUT, warn
from maskless.errors import MasklessError


@dataclasses.dataclass(frozen=True)
class Finish:
    """Teach trained policies to act without an oracle.

    The policies stay as they are. Beside each of them a student learns which actions are valid, and
    a clone of the masked policy, where its own masks and its clone lead, with the oracle's labels;
    until fresh states show no gain. Writes RUN/policy anew, and finish.json. `maskless train
    --finish` does the same after training.

    Example: maskless finish runs/craftax-classic-mlp-1 --frames 2e5
    """

    run_folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN")]]
    """Folder of one run or of a training; its newest checkpoints are finished."""
    frames: float = 2e5
    """Environment steps of each run, at most."""
    env: str | None = None
    """In which environment; None: the one trained in."""
    trust: bool = False
    """Import the environment that the folder names, if it is neither built in nor Gymnasium's."""

    def run(self) -> None:
        from maskless.evaluation.runs import is_artifact
        from maskless.training import lock
        from maskless.training.folder import find_runs, training_of

        if not 1 <= self.frames < float("inf"):
            raise MasklessError(f"frames must be a number of at least 1, not {self.frames}.")
        if is_artifact(self.run_folder):
            raise MasklessError(
                f"{self.run_folder} is a policy: name the folder of its run, which has checkpoints."
            )
        find_runs(self.run_folder)  # refuses what is no training and so has nothing to lock
        started = time.monotonic()
        with lock.writing(training_of(self.run_folder), warn):
            self._finish()
        OUT.print(f"finished in {time.monotonic() - started:.0f} s", highlight=False)

    def _finish(self) -> None:
        from maskless.evaluation.runs import load_runs
        from maskless.finish import finish_runs, save_finished

        trained = load_runs(self.run_folder, self.env, finished=False, trust=self.trust, warn=warn)
        runs = [(run.name, run.seed) for run in trained.runs]
        params = [run.params for run in trained.runs]
        finished = finish_runs(trained.env, trained.net, runs, params, int(self.frames))
        for run, each in zip(trained.runs, finished, strict=True):
            assert run.folder is not None
            save_finished(run.folder, trained.env, each, run.name)
            quality = each.rounds[-1].quality
            OUT.print(
                f"{run.folder}: an invalid action in {quality.invalid_predicted:.2%} of steps under"
                f" predicted masks, {quality.invalid_clone:.2%} by the clone",
                markup=False,
                soft_wrap=True,
            )
