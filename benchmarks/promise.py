"""Does the promise hold on worlds that nobody tuned for? Default settings, two cores.

    python benchmarks/promise.py                       # all worlds, three seeds: about 40 minutes
    python benchmarks/promise.py --worlds taxi --seeds 1

Each world is trained and finished as `maskless train --env ...` does it, and played for whole
episodes under every kind of masks. `random` is random valid play: what a policy has learned is
counted from there.
"""

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import maskless
from maskless.evaluation.episodes import mask_source
from maskless.evaluation.player import make_player
from maskless.files import write_json
from maskless.nets import Heads
from maskless.provenance import provenance

RESULTS = Path(__file__).parents[1] / "results" / "worlds"
WORLDS = {
    "job-shop": ("gymnasium:worlds:JobShop-v0", 200_000),
    "taxi": ("gymnasium:Taxi-v3", 400_000),
    "packing": ("worlds:Packing", 400_000),
    "2048": ("worlds:Game2048", 660_000),
    "othello": ("boards:Othello", 400_000),
    "pegs": ("boards:Pegs", 400_000),
}
"""The environment, and the frames of PPO; half as many, at most, finish the policy."""
MASKS = ("oracle", "predicted", "predicted-forgetful", "clone", "clone-forgetful", "none")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What to train."""

    worlds: tuple[str, ...] = tuple(WORLDS)
    seeds: int = 3
    episodes: int = 512
    frames: float = 1.0
    """A factor for all budgets."""
    out: Path = RESULTS


def main() -> None:
    arguments = tyro.cli(Arguments)
    os.chdir(Path(__file__).parent)  # where worlds.py is imported from, by worker processes too
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    for name in arguments.worlds:
        row = measure(name, arguments)
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_json(arguments.out / f"{name}.json", row)
        print(_line(name, row), flush=True)


def measure(name: str, arguments: Arguments) -> dict[str, Any]:
    """One world, all seeds in one program."""
    id, frames = WORLDS[name]
    started = time.monotonic()
    training = maskless.train(id, seeds=arguments.seeds, frames=int(frames * arguments.frames))
    trained = time.monotonic() - started
    evaluation = training.evaluate(episodes=arguments.episodes, masks=MASKS)
    finished = training.finished or []
    return {
        "env": id,
        "config": training.config.to_json(),
        "finish_frames": [run.rounds[-1].frames for run in finished],
        "finish_seconds": [round(run.rounds[-1].seconds, 1) for run in finished],
        "train_seconds": round(trained, 1),
        "random": random_play(training.request.env, arguments.episodes),
        "runs": [run.to_json() for run in evaluation.runs],
        "provenance": provenance(),
    }


class Indifferent:
    """A network that prefers nothing: under the oracle's masks, random valid play."""

    def __init__(self, num_actions: int):
        self.num_actions = num_actions

    def initial_carry(self, batch: int) -> tuple[()]:
        return ()

    def apply(self, params: Any, carry: Any, obs: Any, reset: Any) -> tuple[Any, Heads]:
        zeros = jnp.zeros((*reset.shape, self.num_actions))
        return carry, Heads(zeros, zeros[..., 0], zeros, zeros)


def random_play(env: Any, episodes: int) -> float:
    """The mean return of random valid play."""
    envs = min(episodes, 32 if env.runs_on_host else 64)
    with make_player(env, envs, Indifferent(env.num_actions)) as player:
        play = player.begin(0, -(-episodes // envs))
        source = mask_source("oracle", env.num_actions)
        while not np.all(play.record.finished):
            play, _ = player.advance({}, play, source, 0.5)
        return float(np.mean(jax.device_get(play.record.returns)))


def _line(name: str, row: dict[str, Any]) -> str:
    def mean(masks: str, number: str = "mean_return") -> float:
        return float(np.mean([run["masks"][masks][number] for run in row["runs"]]))

    parts = [f"{masks} {mean(masks):.2f}" for masks in MASKS]
    invalid = [f"{masks} {mean(masks, 'invalid_share'):.3%}" for masks in ("predicted", "clone")]
    return (
        f"{name}: random {row['random']:.2f}, {', '.join(parts)}; invalid: {', '.join(invalid)};"
        f" {row['train_seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
