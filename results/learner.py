"""Does the learner learn what is known of it? On one GPU:

python results/learner.py classic OUT    # PPO-MLP on Craftax-Classic, to 40 M frames, 4 x 2 runs
python results/learner.py corridor OUT   # GRU with RND on the paper's Corridor-R5, 4 runs
python results/learner.py fast OUT       # the first one in bfloat16 (and, on a GPU, with
                                         # straight steps), to 20 M frames, 2 x 2 runs

Each writes OUT/learner-NAME.json: the log of every run, and what it evaluates to under oracle,
predicted and no masks. `results/tables.py` makes the tables of the README from these.
"""

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import maskless
from maskless.conditions import condition
from maskless.config import Config, Hyperparameters, preset
from maskless.envs.vector import VectorEnv
from maskless.evaluation.player import MASKS, play_episodes
from maskless.files import write_json
from maskless.provenance import provenance
from maskless.training.metrics import rows
from maskless.training.program import Program

CONDITIONS = ("unmasked", "masked", "masked-focal", "masked-kl")
SHOWN = ("frames", "seconds", "return", "length", "valid_rate", "classifier_accuracy", "episodes")


def classic() -> tuple[Config, list[int]]:
    """The prototype's setting, and the frames after which it is evaluated."""
    config = Config(
        env="craftax-classic",
        env_options={"rules": "paper"},
        conditions=CONDITIONS,
        seeds=2,
        frames=40_000_000,
        ppo=Hyperparameters(anneal=False),
    )
    return config, [26_200_000, 40_000_000]


def corridor() -> tuple[Config, list[int]]:
    """The paper's setting, cut off where the runs have converged."""
    ppo, _ = preset("paper", "gru", rnd=True)
    config = Config(
        env="corridor-r5", net="gru", conditions=CONDITIONS, frames=36_000_000,
        ppo=dataclasses.replace(ppo, anneal=False),
    )  # fmt: skip
    return config, [36_000_000]


def fast() -> tuple[Config, list[int]]:
    """Half of `classic` in bfloat16: is anything lost?"""
    config, _ = classic()
    config = dataclasses.replace(
        config, conditions=CONDITIONS[:2], frames=20_400_000, precision="bfloat16"
    )
    return config, [20_400_000]


def evaluate(program: Program, states: Any, frames: int) -> list[dict[str, Any]]:
    """One complete episode of 1024 environments for each run under each kind of mask."""
    learner = program.learner
    venv = VectorEnv(learner.env, 1024)

    def play(params: Any, masks: Any) -> Any:
        return play_episodes(venv, learner.net, params, jax.random.key(frames), masks=masks)

    every = jax.jit(jax.vmap(jax.vmap(play, in_axes=(None, 0)), in_axes=(0, None)))
    record = jax.device_get(every(states.params, np.arange(len(MASKS))))
    found = []
    for run, (name, seed) in enumerate(learner.config.runs):
        for mode, masks in enumerate(MASKS):
            one = jax.tree.map(lambda x: x[run, mode], record)  # noqa: B023 (used at once)
            steps = one.lengths.sum()
            found.append(
                {
                    "frames": frames,
                    "condition": name,
                    "seed": seed,
                    "masks": masks,
                    "return": float(one.returns.mean()),
                    "standard_error": float(one.returns.std(ddof=1) / len(one.returns) ** 0.5),
                    "length": float(one.lengths.mean()),
                    "achievements": float(one.achievements.mean()),
                    "invalid_share": float(one.invalid.sum() / steps),
                    "changed_share": float(one.changed.sum() / steps),
                    "mask_errors": float(one.wrong.sum() / steps / learner.env.num_actions),
                    "fallback_share": float(one.fallbacks.sum() / steps),
                    "classifier": bool(condition(name).strength),
                }
            )
    return found


def main() -> None:
    name, out = sys.argv[1], Path(sys.argv[2])
    config, stops = {"classic": classic, "corridor": corridor, "fast": fast}[name]()
    env = maskless.make(config.env, **config.env_options)
    program = Program(config, env, visit_every=10)
    began = time.monotonic()
    program.compile()
    print(f"compiled after {time.monotonic() - began:.0f} s", flush=True)
    states, done = program.start(), 0
    logs: list[list[dict[str, Any]]] = [[] for _ in config.runs]
    evaluations = []
    while done < config.updates:
        stop = min(s for s in [s // config.frames_per_update for s in stops] if s > done)
        count = min(10, stop - done)
        states, metrics = program.advance(states, count)
        done += count
        seconds = time.monotonic() - began
        for log, row in zip(logs, rows(config, done, metrics, seconds), strict=True):
            log.append({k: v if k == "frames" else float(v) for k, v in row.items() if k in SHOWN})
        if done % 50 < 10 or done == stop:
            returns = " ".join(f"{log[-1]['return']:.2f}" for log in logs)
            print(
                f"{seconds:5.0f} s, {done * config.frames_per_update:,} frames: {returns}",
                flush=True,
            )
        if done % 50 < 10 or done == stop:
            _save(out / f"learner-{name}.json", config, began, logs, evaluations)
        if done == stop and name != "fast":
            evaluations += evaluate(program, states, done * config.frames_per_update)
            print(f"evaluated after {time.monotonic() - began:.0f} s", flush=True)
            _save(out / f"learner-{name}.json", config, began, logs, evaluations)
    for found in evaluations:
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()})


def _save(path: Path, config: Config, began: float, logs: Any, evaluations: Any) -> None:
    """All that is known so far: a limit on the machine's time loses only what follows."""
    content = {
        "config": config.to_json(),
        **provenance(),
        "seconds": round(time.monotonic() - began, 1),
        "frames_per_second": round(_rate(config, logs)) if len(logs[0]) > 1 else None,
        "evaluations": evaluations,
        "logs": [
            {"condition": run[0], "seed": run[1], "rows": log}
            for run, log in zip(config.runs, logs, strict=True)
        ],
    }
    write_json(path, content)


def _rate(config: Config, logs: list[list[dict[str, Any]]]) -> float:
    """Frames per second of all runs together, without compiling."""
    first, last = logs[0][0], logs[0][-1]
    return (
        len(config.runs) * (last["frames"] - first["frames"]) / (last["seconds"] - first["seconds"])
    )


if __name__ == "__main__":
    main()
