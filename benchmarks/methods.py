"""Which method for whom: every condition beside the rivals, in the paper's games and in others.

    MASKLESS_KERNELS=1 python benchmarks/methods.py classic --precision bfloat16  # one H200
    python benchmarks/methods.py packing                                          # two cores

One program trains a block: conditions times seeds, the learning rate annealed to zero. Then the
runs of some conditions are finished (`maskless finish`), and whole episodes of everything are
played under every kind of masks. What is done is written after every part; docs/methods.md has the
tables that results/tables.py makes of it.
"""

import dataclasses
import os
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import maskless
from maskless.conditions import condition
from maskless.evaluation.episodes import MASKS
from maskless.evaluation.runs import EvaluatedRun, Runs
from maskless.evaluation.summary import RunEvaluation, evaluate_runs
from maskless.files import slug, write_json
from maskless.finish import Finished, finish_runs, save_finished
from maskless.provenance import provenance

Student = tuple[tuple[str, int], Finished]
"""(condition, seed) of a run, and what became of it."""

RESULTS = Path(__file__).parents[1] / "results" / "methods"
POINTS = 50
"""Of every logged curve."""
LOGGED = (
    *("return", "valid_rate", "predicted_share", "classifier_recall_mean"),
    *("mask_total_variation", "clone_total_variation"),
)
LOGGED_BY_ACTION = ("probability_valid", "classifier_recall")


@dataclasses.dataclass(frozen=True)
class Block:
    """What one program trains."""

    env: str
    conditions: tuple[str, ...]
    frames: float
    watched: tuple[str, ...] = ()
    """Actions whose probabilities where they are valid are kept."""
    env_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    net: str = "mlp"
    seeds: int = 3
    finished: tuple[str, ...] = ("masked",)
    """Conditions whose runs get a student."""
    finish: float = 1e6
    """Frames of each of them, at most."""


OURS = ("masked", "masked-focal", "masked-kl", "masked-loop:predicted_share=0.5", "safe-loop")
RIVALS = (
    *("penalty:penalty=0.01", "penalty", "penalty:penalty=1"),
    *("naive:entropy_factor=0.3", "naive", "naive:entropy_factor=3"),
    *("off-policy:entropy_factor=0.3", "off-policy", "off-policy:entropy_factor=3"),
    *("masked-distil:distil=0.01", "masked-distil", "masked-distil:distil=1"),
    "masked-distil:distil_below=0.03",
    *("zhao21:invalid_mass=0.5", "zhao21", "zhao21:invalid_mass=8"),
    *("replace", "replace:learns_replaced=1", "replace:penalty=0.1"),
)
CLONING = (
    *("dagger:clone_share=0.25", "dagger", "dagger:clone_share=0.75"),
    *("eliminate:confidence=0.3", "eliminate", "eliminate:confidence=3"),
)
CLASSIC = ("make_stone_pickaxe", "make_iron_pickaxe", "place_furnace")
# A program pays in every run for what one of its conditions asks for: a clone is another network,
# `discovered` another step of every world. So these are blocks of their own.
BLOCKS = {
    "classic": Block(
        "craftax-classic", ("unmasked", *OURS, "unmasked-silent"), 25e6, watched=CLASSIC
    ),
    "classic-clone": Block(
        "craftax-classic",
        ("masked-clone:strength=10", "discovered"),
        25e6,
        watched=CLASSIC,
        finished=(),
    ),
    "classic-prudent": Block(
        "craftax-classic",
        ("masked", "masked-loop:predicted_share=0.5", "masked-clone:strength=10"),
        25e6,
        watched=CLASSIC,
        env_options={"rules": "prudent"},
    ),
    "classic-rivals": Block(
        "craftax-classic", RIVALS + CLONING, 25e6, watched=CLASSIC, seeds=1, finished=()
    ),
    "corridor": Block(
        "corridor-r5",
        ("masked", "safe-loop", "masked-clone", "discovered", "discovered:explore=0.1"),
        40e6,
        watched=("open_door", "kick"),
        net="gru",
    ),
    "full": Block(
        "craftax",
        ("masked", "masked-clone:strength=10"),
        50e6,
        watched=("descend", "make_iron_pickaxe"),
        env_options={"rules": "prudent"},
    ),
    "packing": Block(
        "worlds:Packing",
        (
            *("unmasked", *OURS, "masked-clone", "unmasked-silent", "discovered"),
            *RIVALS,
            *CLONING,
        ),
        2e5,
        finish=1e5,
    ),
    **{
        name: Block(
            env, ("unmasked", *OURS, "masked-clone", *RIVALS[1::3]), frames, finish=frames / 2
        )
        for name, (env, frames) in {
            "2048": ("worlds:Game2048", 6.6e5),
            "job-shop": ("gymnasium:worlds:JobShop-v0", 2e5),
            "taxi": ("gymnasium:Taxi-v3", 4e5),
        }.items()
    },
}


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Which block, and how much of it."""

    block: tyro.conf.Positional[str]
    """One of them; see BLOCKS."""
    conditions: tuple[str, ...] = ()
    """In place of the block's."""
    frames: float | None = None
    """In place of the block's, of each run."""
    finish: float | None = None
    """In place of the block's; 0: nobody is finished."""
    seeds: int | None = None
    precision: str = "float32"
    masks: tuple[str, ...] = MASKS
    """That everything is played under, where a run can."""
    episodes: int = 1024
    max_steps: int = 3072
    """Of every environment in an evaluation."""
    width: int | None = None
    preset: str = "auto"
    out: Path = RESULTS
    policies: Path | None = None
    """Where the finished policy of each condition's first seed goes, as CONDITION.tar."""


def main() -> None:
    arguments = tyro.cli(Arguments)
    os.chdir(Path(__file__).parent)  # where worlds.py is imported from, by worker processes too
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    block = BLOCKS[arguments.block]
    result: dict[str, Any] = {"block": arguments.block, "finished": [], "seconds": {}}
    path = arguments.out / f"{arguments.block}.json"
    path.parent.mkdir(parents=True, exist_ok=True)

    def save(part: str, began: float, **content: Any) -> None:
        result["seconds"][part] = round(time.monotonic() - began, 1)
        result.update(content, provenance=provenance())
        write_json(path, result)
        print(f"{arguments.block}: {part}, {result['seconds'][part]:.0f} s", flush=True)

    began = time.monotonic()
    training = _train(block, arguments)
    save("train", began, config=training.config.to_json(), logs=logs(training, block.watched))
    how = {"episodes": arguments.episodes, "max_steps": arguments.max_steps}
    began = time.monotonic()
    runs = training.evaluate(masks=_masks(training.config.conditions, arguments), **how).runs
    save("evaluate", began, runs=[run.to_json() for run in runs])
    finish = block.finish if arguments.finish is None else arguments.finish
    names = [name for name in block.finished if finish and name in training.config.conditions]
    if not names:
        return
    began = time.monotonic()
    students = finish_some(training, names, int(finish))
    rounds = [each.to_json()["rounds"] for _, each in students]
    save("finish", began, finish_rounds=rounds)
    if arguments.policies is not None:
        pack(students, training.request.env, arguments.policies)
    began = time.monotonic()
    runs = evaluate_students(training, students, how | {"masks": arguments.masks})
    save("evaluate finished", began, finished=[run.to_json() for run in runs])


def _masks(conditions: tuple[str, ...], arguments: Arguments) -> list[str]:
    """Without those of clones where nobody has one."""
    cloned = any(condition(name).has_clone for name in conditions)
    return [name for name in arguments.masks if cloned or not name.startswith("clone")]


def pack(students: list[Student], env: Any, out: Path) -> None:
    """The policy artifact of each condition's first seed, in a file of its own."""
    out.mkdir(parents=True, exist_ok=True)
    for (name, _), student in reversed(students):
        with tempfile.TemporaryDirectory() as folder:
            save_finished(Path(folder), env, student, name)
            with tarfile.open(out / f"{slug(name)}.tar", "w") as archive:
                archive.add(folder, arcname=slug(name))


def _train(block: Block, arguments: Arguments) -> maskless.Training:
    return maskless.train(
        block.env,
        arguments.conditions or block.conditions,
        seeds=arguments.seeds or block.seeds,
        frames=arguments.frames or block.frames,
        net=block.net,
        env_options=block.env_options,
        precision=arguments.precision,
        preset=arguments.preset,
        width=arguments.width,
        finish=0,
    )


def finish_some(training: maskless.Training, names: list[str], frames: int) -> list[Student]:
    """A student for every run of these conditions."""
    numbers = [n for n, run in enumerate(training.runs) if run[0] in names]
    runs = [training.runs[n] for n in numbers]
    params = [training.program.fetch_run(training.states.params, n) for n in numbers]
    request = training.request
    finished = finish_runs(request.env, request.net, runs, params, frames)
    return list(zip(runs, finished, strict=True))


def evaluate_students(
    training: maskless.Training, students: list[Student], how: dict[str, Any]
) -> list[RunEvaluation]:
    """Under their own masks, by their clones, and with the oracle's help."""
    env, net = training.request.env, students[0][1].net
    evaluated = [
        EvaluatedRun(
            None,
            name,
            seed,
            training.update,
            student.params,
            (condition(name).threshold,) * env.num_actions,
            True,
            True,
        )
        for (name, seed), student in students
    ]
    return evaluate_runs(Runs(training.config, env, net, evaluated, env.id), **how).runs


def logs(training: maskless.Training, watched: tuple[str, ...]) -> list[dict[str, Any]]:
    """Some points of each run's curves: means over the rows between two of them."""
    actions = list(training.request.env.action_names)
    curves = {name: x for name, x in training.metrics.items() if name in ("frames", *LOGGED)}
    for action in watched:
        for name in LOGGED_BY_ACTION:
            if name in training.metrics:
                curves[f"{name} {action}"] = training.metrics[name][..., actions.index(action)]
    return [
        {"condition": name, "seed": seed}
        | {name: thinned(curve[number]) for name, curve in curves.items()}
        for number, (name, seed) in enumerate(training.runs)
    ]


def thinned(curve: np.ndarray) -> list[float | None]:
    """Means of so many parts; None where a part has no number."""
    parts = np.array_split(curve.astype(float), min(POINTS, len(curve)))
    known = [part[np.isfinite(part)] for part in parts]
    return [float(f"{part.mean():.4g}") if len(part) else None for part in known]


if __name__ == "__main__":
    main()
