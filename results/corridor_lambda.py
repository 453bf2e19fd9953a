"""Which numbers let Corridor-R5 be learned? On one GPU, about six minutes:

python results/corridor_lambda.py OUT [SECONDS]

Runs of `masked`, GRU with RND, that differ in three numbers only: the weight of RND's advantage,
lambda of the advantages, and the penalty for a step without time. Those with the same penalty, an
option of the environment, are one program. Writes OUT/corridor-lambda.json; `results/tables.py`
makes the table of docs/training.md from it.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import maskless
from maskless.files import write_json
from maskless.provenance import provenance

NUMBERS = ("rnd_advantage", "frozen_penalty", "gae_lambda")
PENALTIES: dict[float, tuple[tuple[float, float], ...]] = {
    -0.01: ((0.0, 0.8), (0.1, 0.8), (1.0, 0.8), (0.0, 0.95), (0.1, 0.95), (1.0, 0.95)),
    0.0: ((0.0, 0.95), (1.0, 0.95)),
}
"""Penalty -> weights of RND and lambdas."""
SHOWN = ("episodes", "return", "length", "entropy", "gradient_norm", "explained_variance")


def train(penalty: float, seconds: float) -> maskless.Training:
    began = time.monotonic()
    return maskless.train(
        "corridor-r5",
        [
            maskless.grid("masked", rnd_advantage=weight, gae_lambda=gae_lambda)[0]
            for weight, gae_lambda in PENALTIES[penalty]
        ],
        env_options={"frozen_penalty": penalty},
        net="gru",
        frames=2e8,
        anneal=False,
        precision="bfloat16",
        diagnostics=False,
        callback=lambda progress: time.monotonic() - began > seconds,
    )


def main() -> None:
    out, began = Path(sys.argv[1]), time.monotonic()
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 300.0
    variants: list[tuple[float, float, float]] = []
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("frames", *SHOWN)}
    for penalty, numbers in PENALTIES.items():
        training = train(penalty, limit * len(numbers) / 8)
        variants += [(weight, penalty, gae_lambda) for weight, gae_lambda in numbers]
        for name, values in columns.items():
            values.extend(training.metrics[name])
    rows = min(len(values) for values in columns["frames"])
    table: list[dict[str, Any]] = [
        {"frames": int(columns["frames"][0][row])}
        | {name: [round(float(run[row]), 4) for run in columns[name]] for name in SHOWN}
        for row in range(rows)
    ]
    content = {
        "config": training.config.to_json(),
        **provenance(),
        "seconds": round(time.monotonic() - began, 1),
        "numbers": NUMBERS,
        "variants": variants,
        "rows": table,
    }
    write_json(out / "corridor-lambda.json", content)


if __name__ == "__main__":
    main()
