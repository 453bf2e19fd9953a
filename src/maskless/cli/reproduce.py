"""`maskless reproduce`: the paper's tables and figures, and the controls it lacks."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from maskless.cli.common import ERR, OUT
from maskless.errors import MasklessError


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train what a table or figure needs, evaluate it, and make the table or figure.

    Without a name: what there is, and what it costs. Interrupted? The same command goes on;
    what is finished is not trained again, and studies are shared between tables.

    Example: maskless reproduce

    Example: maskless reproduce table-masks --scale cpu --studies classic-mlp

    Example: maskless reproduce suppression --scale gpu --minutes 8 --out results/gpu
    """

    name: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="NAME")]] = ""
    """Which table or figure; `all`: every one."""
    scale: Literal["smoke", "cpu", "gpu", "paper"] = "cpu"
    """smoke: a toy, in seconds; cpu: minutes on two cores; gpu: about ten minutes on one large GPU
    per study; paper: its full budget."""
    studies: tuple[str, ...] = ()
    """Train these only; default: all that the table or figure needs."""
    out: Path | None = None
    """Folder for the results of the studies, the tables and the figures; default
    runs/reproduce/SCALE/results."""
    runs: Path = Path("runs/reproduce")
    """Folder of the trainings, which can be gigabytes."""
    minutes: float | None = None
    """Stop each study after about so many minutes, evaluate what is there, and say so."""
    seeds: int | None = None
    """Seeds of each condition, in place of the scale's own number."""
    frames: float | None = None
    """Frames of each run, in place of the scale's own number."""
    precision: Literal["float32", "bfloat16"] | None = None
    """What the networks compute in, in place of the scale's own."""

    def run(self) -> None:
        from maskless_paper.reproduce import print_experiments, reproduce
        from maskless_paper.tables import EXPERIMENTS

        if not self.name:
            print_experiments(OUT, self.scale)
            return
        for option in ("minutes", "seeds", "frames"):
            value = getattr(self, option)
            if value is not None and not 0 < value < float("inf"):
                raise MasklessError(f"{option} must be a number above 0, not {value}.")
        names = tuple(EXPERIMENTS) if self.name == "all" else (self.name,)
        reproduce(
            names,
            self.scale,
            out=self.out or self.runs / self.scale / "results",
            runs=self.runs,
            studies=self.studies,
            minutes=self.minutes,
            seeds=self.seeds,
            frames=None if self.frames is None else int(self.frames),
            precision=self.precision,
            console=OUT,
            say=lambda line: ERR.print(line, soft_wrap=True, highlight=False),
        )
