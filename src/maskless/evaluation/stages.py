"""Where policies play: environments inside JAX, or Gymnasium's in processes, to be used alike.

    with make_stage(env, 64, net) as stage:
        play = stage.begin(seed, episodes=10)
        while not np.all(play.record.finished):
            play, _ = stage.advance(params, play, source, threshold)

Evaluation, audit and calibration differ in what they watch, not in how it is played.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from maskless.envs import Environment, VectorEnv
from maskless.errors import MasklessError
from maskless.evaluation import player as evaluate
from maskless.evaluation.checkpointed import Trained
from maskless.evaluation.player import EpisodeRecord, MaskSource, Overrule, Play, Watch
from maskless.nets import Network
from maskless.policy.acting import as_array
from maskless.training.program import together

HOST_ENVS = 32
"""Episodes under way at a time in a Gymnasium environment, each with a game in memory."""

WITHOUT_ORACLE = "evaluate it with --masks predicted none"
"""What to do there."""

Progress = Callable[[int, str], None]
"""Called with the number of episodes done and what is going on."""


class Stage(abc.ABC):
    """Some environments in which policies of one network play, one policy at a time. Compiled once
    for all parameters, masks and thresholds. `close` it, or use it in a `with`."""

    num_envs: int

    @abc.abstractmethod
    def begin(self, seed: int, episodes: int) -> Play:
        """Every environment at the start of its first episode. The same seed means the same
        levels. Plays of one stage do not overlap."""

    @abc.abstractmethod
    def advance(
        self,
        params: Any,
        play: Play,
        source: MaskSource,
        threshold: float | Float[Array, "..."],
        known: Any = None,
    ) -> tuple[Play, Any]:
        """Some more steps, and what the one who watches knows after them. `play` and `known` are
        used up."""

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """Gives back what is held outside of JAX."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def is_host(env: Environment) -> bool:
    """Played in Python processes, not inside JAX."""
    return env.id.startswith("gymnasium:")


def usual_envs(env: Environment, inside_jax: int) -> int:
    """How many episodes to play at a time when nobody says."""
    return HOST_ENVS if is_host(env) else inside_jax


def has_oracle(env: Environment) -> bool:
    """False: nobody tells what is valid there."""
    return getattr(env, "has_masks", True)


def check_oracle(env: Environment, instead: str) -> None:
    """Refuses an environment without masks. `instead`: what to do."""
    if not has_oracle(env):
        raise MasklessError(f"{env.id} has no action masks, so there is no oracle: {instead}.")


def make_stage(
    env: Environment,
    num_envs: int,
    net: Network,
    *,
    greedy: bool = False,
    overrule: Overrule | None = None,
    watch: Watch = evaluate.not_watching,
    one_episode: bool = False,
) -> Stage:
    """The stage for this kind of environment.

    `greedy`: always the most probable action. `overrule`: the rules of the policy's owner. `watch`
    sees every step. `one_episode`: only the first one of every environment will count, so that no
    levels are made for others.
    """
    how: dict[str, Any] = {"greedy": greedy, "overrule": overrule, "watch": watch}
    if is_host(env):
        from maskless.evaluation.gymnasium_stage import (
            HostStage,  # needs Gymnasium, which is optional
        )

        return HostStage(env, num_envs, net, **how)
    venv = VectorEnv(env, num_envs, pool_size=1 if one_episode else None)
    return JaxStage(venv, net, refresh=not one_episode, **how)


class JaxStage(Stage):
    """A stage inside JAX."""

    def __init__(self, venv: VectorEnv, net: Network, **how: Any):
        """`how`: what `evaluate.advance` takes."""
        self.num_envs = venv.num_envs
        self._venv, self._net = venv, net
        self._begin = jax.jit(self._start, static_argnames="episodes")
        # The old play is given up, so that two copies of all worlds never exist at once.
        self._advance = jax.jit(partial(evaluate.advance, venv, net, **how), donate_argnums=(1, 4))

    def _start(self, seed: Int[Array, ""], *, episodes: int) -> Play:
        return evaluate.begin(self._venv, self._net, jax.random.key(seed), episodes)

    def begin(self, seed: int, episodes: int) -> Play:
        return self._begin(jnp.uint32(seed % 2**32), episodes=episodes)

    def advance(
        self,
        params: Any,
        play: Play,
        source: MaskSource,
        threshold: float | Float[Array, "..."],
        known: Any = None,
    ) -> tuple[Play, Any]:
        return self._advance(params, play, source, threshold, known)


def play_sources(
    trained: Trained,
    sources: Sequence[MaskSource],
    *,
    slots: int,
    per_slot: int,
    greedy: bool = False,
    seed: int = 0,
    progress: Progress = lambda done, what: None,
) -> EpisodeRecord:
    """The record of every run under every source of masks. [runs, sources, envs, episodes]

    A run's levels and dice depend on its seed only: conditions and sources meet the same.
    """
    played = _one_by_one if is_host(trained.env) else _all_at_once
    return played(trained, sources, slots, per_slot, greedy, seed, progress)


def _all_at_once(
    trained: Trained,
    sources: Sequence[MaskSource],
    slots: int,
    per_slot: int,
    greedy: bool,
    seed: int,
    progress: Progress,
) -> EpisodeRecord:
    one_episode = per_slot == 1
    venv = VectorEnv(trained.env, slots, pool_size=1 if one_episode else None)
    net, rules = trained.net, trained.overrule
    params = together([run.params for run in trained.runs])
    thresholds = jnp.stack([as_array(run.thresholds) for run in trained.runs])
    keys = jnp.stack([jax.random.fold_in(jax.random.key(seed), run.seed) for run in trained.runs])
    keys = jnp.broadcast_to(keys[:, None], (len(trained.runs), len(sources)))

    def begin(key: PRNGKeyArray) -> Play:
        return evaluate.begin(venv, net, key, per_slot)

    go_on = partial(
        evaluate.advance, venv, net, greedy=greedy, overrule=rules, refresh=not one_episode
    )

    def advance(params: Any, threshold: Array, source: MaskSource, play: Play) -> Play:
        return go_on(params, play, source, threshold)[0]

    over_sources = jax.vmap(advance, (None, None, 0, 0))
    over_runs = jax.jit(jax.vmap(over_sources, (0, 0, None, 0)), donate_argnums=3)
    play = jax.jit(jax.vmap(jax.vmap(begin)))(keys)
    while True:
        play = over_runs(params, thresholds, together(list(sources)), play)
        finished = np.asarray(play.record.finished)
        progress(int(finished.sum()), "playing")
        if finished.all():
            return jax.device_get(play.record)


def _one_by_one(
    trained: Trained,
    sources: Sequence[MaskSource],
    slots: int,
    per_slot: int,
    greedy: bool,
    seed: int,
    progress: Progress,
) -> EpisodeRecord:
    """The same where worlds cannot be copied."""
    records: list[EpisodeRecord] = []
    net, rules = trained.net, trained.overrule
    with make_stage(trained.env, slots, net, greedy=greedy, overrule=rules) as stage:
        for run in trained.runs:
            for source in sources:
                play = stage.begin(seed + run.seed, per_slot)
                while not (finished := np.asarray(play.record.finished)).all():
                    play, _ = stage.advance(run.params, play, source, as_array(run.thresholds))
                    done = len(records) * slots * per_slot + int(finished.sum())
                    progress(done, f"{run.name}, seed {run.seed}")
                records.append(jax.device_get(play.record))
    progress(len(records) * slots * per_slot, "played")
    shape = (len(trained.runs), len(sources))
    record = jax.tree.map(lambda *x: np.stack(x).reshape(*shape, *x[0].shape), *records)
    return record if has_oracle(trained.env) else without_oracle(record)


def without_oracle(record: EpisodeRecord) -> EpisodeRecord:
    """With NaN for what nobody knows."""
    unknown: Any = np.full(np.shape(record.returns), np.nan, np.float32)
    return dataclasses.replace(record, invalid=unknown, changed=unknown, wrong=unknown)
