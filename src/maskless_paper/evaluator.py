"""Evaluating all runs of a program under every kind of mask, compiled once and used at every
budget."""

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from maskless.conditions import condition
from maskless.envs import VectorEnv
from maskless.evaluation.episodes import Choice, Masks, Play, mask_source
from maskless.evaluation.player import BatchedPlayer
from maskless.evaluation.summary import summarise
from maskless.training.program import Program, of_run
from maskless_paper.study_files import rounded

MASKS: dict[str, Masks] = {
    "oracle": "oracle",
    "predicted": "predicted-forgetful",
    "none": "none",
}
"""What the results call each kind of masks: those of the paper know no memory of failures."""


class Evaluator:
    """Complete episodes of every environment of every run. Conditions and masks meet the same
    levels and dice, as in `maskless eval`."""

    def __init__(self, program: Program, episodes: int, *, steps: int):
        """`episodes`: of each environment; `steps`: after so many, what is still being played is
        counted as it stands. An agent that neither dies nor wins plays for ten thousand steps, and
        all others wait for it."""
        self._learner, self._steps = program.learner, steps
        self.seconds: float | None = None
        """What the last evaluation took, without compiling; None: there has been none."""
        env, config = program.learner.env, program.learner.config
        venv = VectorEnv(env, config.ppo.num_envs)
        envs, names = jnp.arange(venv.num_envs), len(env.achievement_names)

        def fold(unlocked: Array, before: Play, step: Choice) -> Array:
            # What the very last step of an episode unlocks is not counted: by then it is over.
            now = jax.vmap(env.achievements)(before.actor.worlds.states)
            return unlocked.at[envs, before.episode].max(now.astype(jnp.int8), mode="drop")

        self._thresholds = jnp.array([condition(name).threshold for name, _ in config.runs])
        self._player = BatchedPlayer(
            venv,
            program.learner.net,
            [seed for _, seed in config.runs],
            [mask_source(masks, env.num_actions) for masks in MASKS.values()],
            episodes,
            share_levels=True,
            accumulator=lambda: jnp.zeros((venv.num_envs, episodes, names), jnp.int8),
            fold=fold,
            greedy=False,
        )

    def compile(self, params: Any) -> None:
        """Of `params`, [runs, ...], shapes will do. Without this, it compiles when first needed."""
        self._player.compile(params, self._thresholds)

    def __call__(self, params: Any) -> list[dict[str, Any]]:
        """One entry for each run and kind of mask. `params`: [runs, ...]"""
        began = time.monotonic()
        played = self._player.play(params, self._thresholds, max_steps=self._steps)
        self.seconds = time.monotonic() - began
        return [
            self._entry(run, masks, of_run(of_run(played, number), mode))
            for number, run in enumerate(self._learner.config.runs)
            for mode, masks in enumerate(MASKS)
        ]

    def _entry(
        self, run: tuple[str, int], masks: str, played: tuple[Any, np.ndarray]
    ) -> dict[str, Any]:
        record, unlocked = played
        env = self._learner.env
        numbers = dataclasses.asdict(summarise(record, env.num_actions))
        rates = unlocked.mean(axis=(0, 1))
        episodes = numbers.pop("episodes")
        return {
            "condition": run[0],
            "seed": run[1],
            "masks": masks,
            "classifier": condition(run[0]).has_classifier,
            "episodes": episodes,
            "unfinished": int(episodes - record.finished.sum()),
            **{name: rounded(value) for name, value in numbers.items()},
            "achievement_rates": {
                name: rounded(rate)
                for name, rate in zip(env.achievement_names, rates, strict=True)
                if rate > 0
            },
        }
