"""Does the learner learn what is known of it? On one GPU:

python results/learner.py classic OUT    # PPO-MLP on Craftax-Classic, to 40 M frames, 4 x 2 runs
python results/learner.py corridor OUT   # GRU with RND on the paper's Corridor-R5, 4 runs
python results/learner.py fast OUT       # the first one in bfloat16, to 20 M frames, 2 x 2 runs

Each writes OUT/learner-NAME.json: the log of every run, and what it evaluates to under oracle,
predicted and no masks. `results/tables.py` makes the tables of the README from these.
"""

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

import maskless
from maskless.files import write_json
from maskless.provenance import provenance

CONDITIONS = ("unmasked", "masked", "masked-focal", "masked-kl")
SHOWN = ("frames", "seconds", "return", "length", "valid_rate", "classifier_accuracy", "episodes")
CLASSIC: dict[str, Any] = {
    "env": "craftax-classic",
    "env_options": {"rules": "paper"},
    "conditions": CONDITIONS,
    "seeds": 2,
    "anneal": False,
}
TRAININGS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "classic": (CLASSIC | {"frames": 4e7}, (26_200_000, 40_000_000)),
    "corridor": (
        {"env": "corridor-r5", "net": "gru", "conditions": CONDITIONS, "frames": 3.6e7}
        | {"anneal": False},
        (36_000_000,),
    ),
    "fast": (
        CLASSIC | {"conditions": CONDITIONS[:2], "frames": 2.04e7, "precision": "bfloat16"},
        (),
    ),
}
"""What is asked for, and the frames at which it is evaluated."""


def evaluations(training: maskless.Training) -> list[dict[str, Any]]:
    """1024 complete episodes of each run under each kind of mask."""
    frames = training.update * training.config.frames_per_update
    entries = []
    for run in training.evaluate(episodes=1024, num_envs=1024).runs:
        for masks, summary in run.masks.items():
            about = {"frames": frames, "condition": run.condition, "seed": run.seed, "masks": masks}
            entries.append(about | dataclasses.asdict(summary) | {"classifier": run.classifier})
    return entries


def main() -> None:
    name, out = sys.argv[1], Path(sys.argv[2])
    request, stops = TRAININGS[name]
    found: list[dict[str, Any]] = []
    folder = Path(tempfile.mkdtemp()) / name
    for stop in stops or (int(request["frames"]),):
        again = {"resume": True} if (folder / "config.json").exists() else request
        training = maskless.train(
            folder=folder,
            callback=lambda progress, stop=stop: progress.frames >= stop,
            checkpoint_minutes=60,
            **again,
        )
        found += evaluations(training) if stops else []
        content = {
            "config": training.config.to_json(),
            **provenance(),
            "seconds": training.rows[0][-1]["seconds"],
            "evaluations": found,
            "logs": [
                {"condition": run[0], "seed": run[1]}
                | {"rows": [{key: row[key] for key in SHOWN} for row in rows]}
                for run, rows in zip(training.runs, training.rows, strict=True)
            ],
        }
        write_json(out / f"learner-{name}.json", content)


if __name__ == "__main__":
    main()
