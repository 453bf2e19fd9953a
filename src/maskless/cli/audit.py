"""`maskless audit`: are the predicted masks of a trained policy right, where it acts?"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from maskless.cli.common import OUT, ProgressBar
from maskless.errors import require


@dataclasses.dataclass(frozen=True)
class Audit:
    """Compare predicted with true masks where a trained policy acts, and what errors cost.

    RUN is the folder of one run, or of a whole training: then all its runs with a classifier. Runs
    are audited as they were trained; name a policy's folder (RUN/policy) for its calibrated
    thresholds and overrides. Writes audit.json and the page audit.html, with the worst states,
    into the folder. (The masks of an environment itself are audited by `maskless validity`.)

    Example: maskless audit runs/corridor-r2-mlp-1/masked-kl/seed-0

    Example: maskless audit runs/craftax-classic-gru-1 --states 1e5 --episodes 1024
    """

    run_folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN")]]
    """Folder of a run, of a training, or of a policy."""
    states: float = 2e4
    """States in which masks are compared."""
    episodes: int = 512
    """Episodes played for each action about which there were errors."""
    envs: int = 64
    """Episodes that are under way at a time, for each action."""
    examples: int = 6
    """How many of the worst states to show."""
    seed: int = 0
    """Of levels and dice."""
    env: str | None = None
    """Audit in this environment; None: the one trained in."""
    on_invalid: str | None = None
    """What an invalid action brings in a Gymnasium environment that raises at it: noop, end or
    penalty=-0.1."""
    trust: bool = False
    """Import the environment that the folder names, if it is neither built in nor Gymnasium's."""

    def run(self) -> None:
        from maskless.evaluation.audit import audit_predictions
        from maskless.evaluation.player import refusing
        from maskless.evaluation.runs import load_runs, stale_artifact_warnings
        from maskless.files import check_writable
        from maskless.report.audit import print_audit, save_audit

        enough = 1 <= self.states < math.inf
        require(enough, f"states must be a number of at least 1, not {self.states}.")
        loaded = load_runs(self.run_folder, self.env, trust=self.trust)
        loaded = dataclasses.replace(loaded, env=refusing(loaded.env, self.on_invalid))
        runs = loaded.runs
        if len(runs) > 1:  # of a single one without a classifier, the audit says so
            runs = [run for run in runs if run.has_classifier] or runs[:1]
        for run in runs:
            check_writable(run.folder or self.run_folder)
        for run in runs:
            title = f"{run.name}, seed {run.seed} (compiling first)"
            with ProgressBar(title, int(self.states), "states") as update:
                audit = audit_predictions(
                    loaded,
                    run,
                    states=int(self.states),
                    episodes=self.episodes,
                    num_envs=self.envs,
                    examples=self.examples,
                    seed=self.seed,
                    report=partial(_report, update, int(self.states)),
                )
            assert run.folder is not None
            # Written first: what reads the table may close the pipe before its end.
            written = save_audit(audit, loaded.env, run.folder)
            print_audit(audit, OUT)
            for sentence in stale_artifact_warnings([run]):
                OUT.print(sentence, markup=False, soft_wrap=True)
            for path in written:
                OUT.print(f"wrote {path}", soft_wrap=True)


def _report(update: Callable[[int, str], None], states: int, done: int, what: str) -> None:
    """The bar is for the states. How many actions will need episodes is not known before, so of
    these only the number is shown."""
    if what == "comparing masks":
        update(done, what)
    else:
        update(states, f"{what}: {done:,} episodes")
