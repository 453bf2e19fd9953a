"""Which numbers let Corridor-R5 be learned? On one GPU, about five minutes:

python results/corridor_lambda.py OUT [SECONDS]

Eight runs of `masked`, GRU with RND, in one program, that differ in three numbers only: the weight
of RND's advantage, the penalty for a step without time, and lambda of the advantages. Writes
OUT/corridor-lambda.json as it goes; `results/tables.py` makes the table of docs/training.md from
it. (The eight are traced numbers of one program; `maskless train` has them as flags.)
"""

import dataclasses
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import maskless
from maskless.conditions import condition
from maskless.config import Config, preset
from maskless.files import write_json
from maskless.ppo.learner import Learner
from maskless.provenance import provenance

NUMBERS = ("rnd_advantage", "frozen_penalty", "gae_lambda")
VARIANTS = (
    (0.0, -0.01, 0.8), (0.1, -0.01, 0.8), (1.0, -0.01, 0.8),
    (0.0, -0.01, 0.95), (0.1, -0.01, 0.95), (1.0, -0.01, 0.95), (0.0, 0.0, 0.95), (1.0, 0.0, 0.95),
)  # fmt: skip
UPDATES = 10
"""Between two lines of the log."""
SHOWN = ("return", "length", "entropy", "gradient_norm", "explained_variance")


def config() -> Config:
    ppo, _ = preset("paper", "gru", rnd=True)
    return Config(
        env="corridor-r5",
        net="gru",
        frames=2 * 10**8,
        ppo=dataclasses.replace(ppo, anneal=False),
        precision="bfloat16",
        diagnostics=False,
    )


def updates(states: Any, numbers: Any) -> tuple[Any, dict[str, Any]]:
    """Some updates of all variants."""

    def update(state: Any, numbers: Any) -> tuple[Any, dict[str, Any]]:
        weight, penalty, gae_lambda = numbers
        mine = config()
        ppo = dataclasses.replace(mine.ppo, rnd_advantage=weight, gae_lambda=gae_lambda)
        learner = Learner(
            dataclasses.replace(mine, ppo=ppo), maskless.make(mine.env, frozen_penalty=penalty)
        )
        return learner.update(state, condition("masked"))

    every = jax.vmap(update)
    return jax.lax.scan(lambda states, _: every(states, numbers), states, length=UPDATES)


def line(metrics: dict[str, Any]) -> dict[str, list[float]]:
    """Means over the updates: of episodes where they ended, of the others over all."""
    count = metrics["episodes"].sum(0)
    row = {"episodes": count.tolist()}
    for name in SHOWN:
        numbers = np.nan_to_num(metrics[name])
        if name in ("return", "length"):
            mean = (numbers * metrics["episodes"]).sum(0) / np.maximum(count, 1)
        else:
            mean = numbers.mean(0)
        row[name] = mean.round(4).tolist()
    return row


def main() -> None:
    out = Path(sys.argv[1])
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 250.0
    began = time.monotonic()
    env = maskless.make(config().env)
    init = jax.jit(jax.vmap(Learner(config(), env).init))
    seeds, numbers = jnp.zeros(len(VARIANTS), jnp.int32), jnp.array(VARIANTS)
    advance = jax.jit(updates, donate_argnums=0)
    lowered = (init.lower(seeds), advance.lower(jax.eval_shape(init, seeds), numbers))
    with ThreadPoolExecutor(2) as pool:
        init, advance = pool.map(lambda program: program.compile(), lowered)
    states, rows, compiled = init(seeds), [], time.monotonic()
    while time.monotonic() - compiled < limit:
        states, metrics = advance(states, numbers)
        frames = (len(rows) + 1) * UPDATES * config().frames_per_update
        rows.append({"frames": frames} | line(jax.device_get(metrics)))
        if len(rows) % 6 == 1:
            returns = " ".join(f"{x:5.2f}" for x in rows[-1]["return"])
            print(f"{time.monotonic() - began:4.0f} s {frames / 1e6:5.1f} M: {returns}", flush=True)
        content = {
            "config": config().to_json(),
            **provenance(),
            "seconds": round(time.monotonic() - began, 1),
            "numbers": NUMBERS,
            "variants": VARIANTS,
            "rows": rows,
        }
        write_json(out / "corridor-lambda.json", content)


if __name__ == "__main__":
    main()
