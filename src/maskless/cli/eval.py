"""`maskless eval`: what trained policies are worth under each kind of mask."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Literal

import tyro

from maskless.cli.common import OUT, ProgressBar
from maskless.errors import MasklessError


@dataclasses.dataclass(frozen=True)
class Eval:
    """Play complete episodes under the oracle's masks, the predicted ones, and none.

    RUN is the folder of one run, or of a whole training: then all its conditions and seeds play in
    one compiled program. Runs play as they were trained; name a policy's folder (RUN/policy) to
    play with its calibrated thresholds and overrides. Writes evaluation.json into each folder.

    Example: maskless eval runs/craftax-classic-gru-1 --episodes 10240

    Example: maskless eval runs/craftax-classic-gru-1/masked-kl/seed-0/policy

    Example: maskless eval runs/corridor-r2-mlp-1/masked-kl/seed-0 --masks predicted none --greedy
    """

    run_folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN")]]
    """Folder of a run, of a training, or of a policy."""
    masks: tuple[Literal["oracle", "predicted", "none"], ...] = ("oracle", "predicted", "none")
    """Under which masks to play."""
    episodes: float = 1024
    """Episodes of each run under each kind of mask, such as 1e4; rounded up to fill --envs."""
    envs: int | None = None
    """Episodes of a run that are under way at a time; None: as many as in training."""
    greedy: bool = False
    """Always take the most probable action instead of sampling."""
    seed: int = 0
    """Of levels and dice; all conditions and masks get the same."""
    env: str | None = None
    """Play in another environment, with the same observations and actions."""

    def run(self) -> None:
        from maskless.evaluation import evaluate
        from maskless.evaluation.runs import find_runs, is_artifact, stale_artifact_warnings
        from maskless.report.evaluation import print_evaluation

        if not 1 <= self.episodes < math.inf:
            raise MasklessError(f"episodes must be a number of at least 1, not {self.episodes}.")
        runs = 1 if is_artifact(self.run_folder) else len(find_runs(self.run_folder))
        total = int(self.episodes) * runs * len(self.masks)
        with ProgressBar(f"{runs} runs (compiling first)", total, "episodes") as update:
            evaluation = evaluate(
                self.run_folder,
                masks=self.masks,
                episodes=int(self.episodes),
                num_envs=self.envs,
                greedy=self.greedy,
                seed=self.seed,
                env=self.env,
                report=update,
            )
        print_evaluation(evaluation, OUT)
        for sentence in stale_artifact_warnings(evaluation.runs):
            OUT.print(sentence, markup=False, soft_wrap=True)
        for path in evaluation.save():
            OUT.print(f"wrote {path}", soft_wrap=True)
