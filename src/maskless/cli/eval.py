"""`maskless eval`: what trained policies are worth under each kind of mask."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Literal

import tyro

from maskless.cli.common import OUT, ProgressBar
from maskless.errors import MasklessError

# As `evaluation.episodes.Masks`, whose import would make every command slower.
_Masks = Literal["oracle", "predicted", "predicted-forgetful", "clone", "clone-forgetful", "none"]


@dataclasses.dataclass(frozen=True)
class Eval:
    """Play complete episodes under the oracle's masks, the predicted ones, none, and by the clone.

    RUN is the folder of one run, or of a whole training: then all its conditions and seeds play in
    one compiled program. Runs play as they were trained; name a policy's folder (RUN/policy) to
    play with its calibrated thresholds and overrides. Writes evaluation.json (with --greedy
    evaluation-greedy.json) into each folder.

    Example: maskless eval runs/craftax-classic-gru-1 --episodes 10240

    Example: maskless eval runs/craftax-classic-gru-1/masked-kl/seed-0/policy

    Example: maskless eval runs/corridor-r2-mlp-1/masked-kl/seed-0 --masks predicted none --greedy
    """

    run_folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN")]]
    """Folder of a run, of a training, or of a policy."""
    masks: tuple[_Masks, ...] | None = None
    """Under which masks to play; None: all that the runs have. clone: the cloned head, without
    masks. forgetful: the controls that may repeat what has just failed."""
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
    on_invalid: str | None = None
    """What an invalid action brings in a Gymnasium environment that raises at it: noop, end or
    penalty=-0.1."""
    trust: bool = False
    """Import the environment that the folder names, if it is neither built in nor Gymnasium's."""

    def run(self) -> None:
        from maskless.evaluation.runs import load_runs, stale_artifact_warnings
        from maskless.evaluation.summary import default_masks, evaluate_runs, masks_to_play
        from maskless.files import check_writable
        from maskless.report.evaluation import print_evaluation

        if not 1 <= self.episodes < math.inf:
            raise MasklessError(f"episodes must be a number of at least 1, not {self.episodes}.")
        loaded = load_runs(self.run_folder, self.env, trust=self.trust)
        for run in loaded.runs:
            check_writable(run.folder or self.run_folder)
        masks = self.masks or default_masks(loaded)
        runs = len(loaded.runs)
        total = int(self.episodes) * runs * len(masks_to_play(loaded, masks))
        with ProgressBar(f"{runs} runs (compiling first)", total, "episodes") as update:
            evaluation = evaluate_runs(
                loaded,
                masks=masks,
                episodes=int(self.episodes),
                num_envs=self.envs,
                greedy=self.greedy,
                seed=self.seed,
                on_invalid=self.on_invalid,
                report=update,
            )
        # Written first: what reads the table may close the pipe before its end.
        written = evaluation.save()
        print_evaluation(evaluation, OUT)
        for sentence in stale_artifact_warnings(evaluation.runs):
            OUT.print(sentence, markup=False, soft_wrap=True)
        for path in written:
            OUT.print(f"wrote {path}", soft_wrap=True)
