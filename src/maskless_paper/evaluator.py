"""Evaluating all runs of a program under every kind of mask, compiled once and used at every
budget."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from maskless.conditions import condition
from maskless.envs import VectorEnv
from maskless.evaluation.evaluate import summarise
from maskless.evaluation.player import (
    MASKS,
    STEPS,
    MaskSource,
    Play,
    Seen,
    advance,
    begin,
    mask_source,
)
from maskless.training.program import Program, of_run, together
from maskless_paper.study_files import rounded

Playing = tuple[Play, Int[Array, "envs episodes achievements"]]
"""Where an evaluation stands, and which achievements each episode has unlocked."""


class Evaluator:
    """Complete episodes of every environment of every run. Conditions and masks meet the same
    levels and dice, as in `maskless eval`."""

    def __init__(self, program: Program, episodes: int, *, steps: int):
        """`episodes`: of each environment; `steps`: after so many, what is still being played is
        counted as it stands. An agent that neither dies nor wins plays for ten thousand steps, and
        all others wait for it."""
        self._learner, self._episodes, self._steps = program.learner, episodes, steps
        self._venv = VectorEnv(program.learner.env, program.learner.config.ppo.num_envs)
        self.seconds: float | None = None
        """What the last evaluation took, without compiling; None: there has been none."""
        runs = program.learner.config.runs
        self._thresholds = jnp.array([condition(name).threshold for name, _ in runs])
        seeds = sorted({seed for _, seed in runs})
        keys = [jax.random.fold_in(jax.random.key(0), seed) for seed in seeds]
        self._keys = jnp.stack(keys)
        self._seed_of_run = jnp.array([seeds.index(seed) for _, seed in runs])
        over_masks = jax.vmap(self._advance, (None, None, 0, 0))
        self._sources = together(
            [mask_source(masks, program.learner.env.num_actions) for masks in MASKS]
        )
        self._go_on: Any = jax.jit(jax.vmap(over_masks, (0, 0, None, 0)), donate_argnums=3)
        self._start: Any = jax.jit(self._begin_all)

    def compile(self, params: Any) -> None:
        """Both programs, side by side; of `params` the shapes will do. Without this they compile
        when they are first needed."""
        states = jax.eval_shape(self._start, self._keys)
        lowered = (
            self._start.lower(self._keys),
            self._go_on.lower(params, self._thresholds, self._sources, states),
        )
        with ThreadPoolExecutor(2) as pool:
            self._start, self._go_on = pool.map(lambda program: program.compile(), lowered)

    def __call__(self, params: Any) -> list[dict[str, Any]]:
        """One entry for each run and kind of mask. `params`: [runs, ...]"""
        began = time.monotonic()
        state = self._start(self._keys)
        for _ in range(0, self._steps, STEPS):
            state = self._go_on(params, self._thresholds, self._sources, state)
            if np.asarray(state[0].record.finished).all():
                break
        record, unlocked = jax.device_get((state[0].record, state[1]))
        self.seconds = time.monotonic() - began
        return [
            self._entry(run, masks, of_run(of_run((record, unlocked), number), mode))
            for number, run in enumerate(self._learner.config.runs)
            for mode, masks in enumerate(MASKS)
        ]

    def _begin_all(self, keys: PRNGKeyArray) -> Playing:
        """[runs, masks, ...], with the levels of each seed made once."""
        by_seed = jax.vmap(self._begin)(keys)

        def spread(x: Array) -> Array:
            return jnp.repeat(x[self._seed_of_run][:, None], len(MASKS), axis=1)

        return jax.tree.map(spread, by_seed)

    def _begin(self, key: PRNGKeyArray) -> Playing:
        venv = self._venv
        names = len(venv.env.achievement_names)
        unlocked = jnp.zeros((venv.num_envs, self._episodes, names), jnp.int8)
        return begin(venv, self._learner.net, key, self._episodes), unlocked

    def _advance(
        self, params: Any, threshold: Array, source: MaskSource, state: Playing
    ) -> Playing:
        """Some steps of every environment, then new levels."""
        venv, net = self._venv, self._learner.net
        envs = jnp.arange(venv.num_envs)

        def watch(unlocked: Array, before: Play, step: Seen) -> Array:
            # What the very last step of an episode unlocks is not seen: by then it is over.
            now = jax.vmap(venv.env.achievements)(before.actor.worlds.states)
            return unlocked.at[envs, before.episode].max(now.astype(jnp.int8), mode="drop")

        play, unlocked = state
        return advance(
            venv, net, params, play, source, threshold, unlocked, greedy=False, watch=watch
        )

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
            "classifier": condition(run[0]).strength > 0,
            "episodes": episodes,
            "unfinished": int(episodes - record.finished.sum()),
            **{name: rounded(value) for name, value in numbers.items()},
            "achievement_rates": {
                name: rounded(rate)
                for name, rate in zip(env.achievement_names, rates, strict=True)
                if rate > 0
            },
        }
