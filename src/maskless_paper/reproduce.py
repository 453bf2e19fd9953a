"""From names of tables and figures to files: train what they need, then make them.

out/studies/STUDY.json       what was trained and measured
out/tables/NAME.md, .json    the tables
out/figures/NAME.png, .svg   the figure
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from maskless.errors import MasklessError, UnknownNameError
from maskless.files import output_folder, write_json, write_text
from maskless_paper.plans import Scale, make_plan
from maskless_paper.results import format_frames
from maskless_paper.run import run_study
from maskless_paper.study_files import read_result, read_studies, write_result
from maskless_paper.tables import EXPERIMENTS
from maskless_paper.tables.experiment import Experiment, Results


def reproduce(
    names: Sequence[str],
    scale: Scale,
    *,
    out: Path,
    runs: Path,
    studies: Sequence[str] = (),
    minutes: float | None = None,
    seeds: int | None = None,
    frames: int | None = None,
    precision: str | None = None,
    console: Console,
    say: Callable[[str], None] = print,
) -> None:
    """Runs the studies of these experiments (or only those named in `studies`), prints and writes
    their tables, and draws their figures, from all studies that are in `out` then."""
    for name in names:
        if name not in EXPERIMENTS:
            raise UnknownNameError("experiment", name, [*EXPERIMENTS, "all"])
    chosen = {name: EXPERIMENTS[name] for name in names}
    needed = dict.fromkeys(study for one in chosen.values() for study in one.studies)
    for study in studies:
        if study not in needed:
            raise UnknownNameError(f"study of {', '.join(names)}", study, needed)
    folder = output_folder(out / "studies")
    for study in studies or needed:
        plan = make_plan(study, scale, seeds=seeds, frames=frames, precision=precision)
        _refuse_other_scale(folder / f"{study}.json", scale)
        run_study(plan, folder, runs=runs, minutes=minutes, say=say)
    for name, experiment in chosen.items():
        if experiment.compute is not None:
            for key, result in experiment.compute(scale, say).items():
                write_result(folder / f"{key}.json", result)
        make(name, experiment, read_studies(folder), out, console)


def make(name: str, experiment: Experiment, studies: Results, out: Path, console: Console) -> None:
    """Tables and figure of one experiment from the studies that there are."""
    used = experiment.select(name, studies)
    if not used:
        raise MasklessError(f"There is no result yet that {name} could be made of.")
    tables = experiment.tables(used)
    folder = output_folder(out / "tables")
    write_text(folder / f"{name}.md", "\n".join(table.page() for table in tables))
    write_json(folder / f"{name}.json", [table.to_json() for table in tables])
    written = [folder / f"{name}.md"]
    if experiment.draw is not None:
        path = output_folder(out / "figures") / name
        experiment.draw(used, path)
        written.append(path if path.is_dir() else path.with_suffix(".png"))
    for table in tables:
        console.print(table.rich(), markup=True)
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)


def _refuse_other_scale(path: Path, scale: Scale) -> None:
    if path.exists() and (before := read_result(path)["scale"]) != scale:
        raise MasklessError(
            f"{path} is a result at the scale {before}: choose another folder with --out."
        )


def print_experiments(console: Console, scale: Scale) -> None:
    """All experiments and studies, and how many frames they take."""
    table = RichTable(box=SIMPLE_HEAD, title=f"maskless reproduce NAME --scale {scale}")
    for column in ("name", "what it shows", "studies"):
        table.add_column(column)
    for name, experiment in EXPERIMENTS.items():
        where = f" ({experiment.paper})" if experiment.paper else ""
        table.add_row(name, experiment.about + where, ", ".join(experiment.studies) or "–")
    console.print(table, markup=True)
    studies = RichTable(box=SIMPLE_HEAD, title=f"the studies at the scale {scale}")
    for column in ("study", "what is trained"):
        studies.add_column(column)
    for column in ("runs", "frames of each", "together"):
        studies.add_column(column, justify="right")
    for name in dict.fromkeys(s for one in EXPERIMENTS.values() for s in one.studies):
        plan = make_plan(name, scale)
        runs = len(plan.conditions) * plan.config.seeds
        together = format_frames(runs * plan.config.frames)
        studies.add_row(name, plan.about, str(runs), format_frames(plan.config.frames), together)
    console.print(studies, markup=True)
