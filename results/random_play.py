"""What random play returns in the corridors, with their penalty and without, and in Classic: a few
minutes on a CPU.

python results/random_play.py results corridors classic

Plays uniformly among the valid actions, in the corridors also among all of them. Writes
OUT/random-corridors.json and OUT/random-classic.json, which pages compare agents with.
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


def corridors() -> list[dict[str, Any]]:
    """With the penalty and without, under the oracle's masks and under none."""
    return [
        {"env": id, "penalty": penalty, "masks": masks}
        | summary(random_returns(maskless.make(id, frozen_penalty=penalty), masks))
        for id in ("corridor-r2", "corridor-r5")
        for penalty in PENALTIES
        for masks in ("oracle", "none")
    ]


def classic() -> list[dict[str, Any]]:
    """Under the paper's masks and under prudent ones."""
    return [
        {"env": "craftax-classic", "rules": rules, "masks": "oracle"}
        | summary(random_returns(maskless.make("craftax-classic", rules=rules), "oracle"))
        for rules in ("paper", "prudent")
    ]


def summary(returns: np.ndarray) -> dict[str, Any]:
    low, high = statistics.bootstrap_interval(returns)
    return {"episodes": len(returns), "mean": returns.mean(), "low": low, "high": high}


def main() -> None:
    out, *games = sys.argv[1:]
    for game in games:
        rows = {"corridors": corridors, "classic": classic}[game]()
        write_json(Path(out) / f"random-{game}.json", {"rows": rows, **provenance()})


if __name__ == "__main__":
    main()
