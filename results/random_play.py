"""What random play returns in the corridors, with their penalty and without; minutes on a CPU.

python results/random_play.py results

Plays uniformly among the valid actions, and among all of them. Writes OUT/random-corridors.json,
which docs/findings.md compares agents with.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import maskless
from maskless import statistics
from maskless.evaluation.episodes import mask_source
from maskless.evaluation.player import make_player
from maskless.files import write_json
from maskless.nets import Heads
from maskless.provenance import provenance

ENVIRONMENTS, EPISODES = 256, 4
"""Side by side, and of each."""
PENALTIES = (0.0, -0.01)


class Indifferent:
    """A network that prefers nothing."""

    def __init__(self, num_actions: int):
        self.num_actions = num_actions

    def initial_carry(self, batch: int) -> tuple[()]:
        return ()

    def apply(self, params: Any, carry: Any, obs: Any, reset: Any) -> tuple[Any, Heads]:
        zeros = jnp.zeros((*reset.shape, self.num_actions))
        return carry, Heads(zeros, zeros[..., 0], zeros, zeros)


def random_returns(env: Any, masks: str) -> np.ndarray:
    """Of complete episodes, under the oracle's masks or under none."""
    with make_player(env, ENVIRONMENTS, Indifferent(env.num_actions)) as player:
        play = player.begin(0, EPISODES)
        while not np.all(play.record.finished):
            play, _ = player.advance({}, play, mask_source(masks, env.num_actions), 0.5)
        return np.asarray(jax.device_get(play.record.returns), np.float64).ravel()


def main() -> None:
    rows = []
    for id in ("corridor-r2", "corridor-r5"):
        for penalty in PENALTIES:
            env = maskless.make(id, frozen_penalty=penalty)
            for masks in ("oracle", "none"):
                returns = random_returns(env, masks)
                low, high = statistics.bootstrap_interval(returns)
                row = {"env": id, "penalty": penalty, "masks": masks, "episodes": len(returns)}
                rows.append(row | {"mean": returns.mean(), "low": low, "high": high})
    write_json(Path(sys.argv[1]) / "random-corridors.json", {"rows": rows, **provenance()})


if __name__ == "__main__":
    main()
