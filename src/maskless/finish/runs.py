"""The phase for all runs of a training, with progress; and in their folders."""

import io
import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from maskless.conditions import condition
from maskless.envs import Environment
from maskless.envs.prudence import with_prudence
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
    students: list[Finished] = []
    console = None if show else Console(file=io.StringIO())
    title, names = f"finish {env.id}, {len(runs)} runs", list(dict(runs))
    with TrainingDisplay(title, frames * len(runs), names, console) as display:

        def report(first: int, run: int, done: int, last: Round) -> None:
            rows[runs[first + run][0]] = {
                "valid_rate": 1.0 - last.quality.invalid_predicted,
                "mask_total_variation": last.quality.moved_predicted,
            }
            display.update(first * frames + done, rows)

        # Runs under masks of the same parts mostly follow one another: their worlds are made once.
        for number, group in itertools.groupby(runs, lambda run: condition(run[0]).prudence):
            some = [name for name, _ in group]
            first = len(students)
            own = slice(first, first + len(some))
            students += finish(
                with_prudence(env, number),
                net,
                params[own],
                frames=frames,
                seeds=[seed for _, seed in runs[own]],
                thresholds=[condition(name).threshold for name in some],
                report=partial(report, first),
            )
    return students


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
