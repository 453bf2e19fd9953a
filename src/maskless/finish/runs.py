"""The phase for all runs of a training, with progress; and in their folders."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from maskless.conditions import condition
from maskless.envs import Environment
from maskless.files import write_json
from maskless.finish.phase import Finished, Round, finish
from maskless.nets import AnyNetwork
from maskless.policy.artifact import save_policy
from maskless.training.display import TrainingDisplay

FINISH_FILE = "finish.json"
"""The log of the phase, in the folder of a run."""


def finish_runs(
    env: Environment,
    net: AnyNetwork,
    runs: Sequence[tuple[str, int]],
    params: Sequence[Any],
    frames: int,
    *,
    show: bool = True,
) -> list[Finished]:
    """A student for every run, (condition, seed). `params`: of each."""
    rows: dict[str, dict[str, float]] = {}
    console = None if show else Console(file=io.StringIO())
    title, names = f"finish {env.id}, {len(runs)} runs", list(dict(runs))
    with TrainingDisplay(title, frames * len(runs), names, console) as display:

        def report(run: int, done: int, last: Round) -> None:
            rows[runs[run][0]] = {
                "valid_rate": 1.0 - last.quality.invalid_predicted,
                "classifier_accuracy": 1.0 - last.quality.wrong,
                "mask_total_variation": last.quality.moved_predicted,
            }
            display.update(done, rows)

        return finish(
            env,
            net,
            params,
            frames=frames,
            seeds=[seed for _, seed in runs],
            thresholds=[condition(name).threshold for name, _ in runs],
            report=report,
        )


def save_finished(place: Path, env: Any, finished: Finished, name: str) -> None:
    """Writes the policy artifact of a run of the condition `name`, and finish.json about it."""
    save_policy(
        place / "policy",
        finished.net,
        finished.params,
        env,
        threshold=condition(name).threshold,
        classifier=True,
        clone=True,
    )
    write_json(place / FINISH_FILE, finished.to_json())
