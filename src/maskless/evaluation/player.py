"""The player of complete episodes: environments inside JAX, or Gymnasium's in processes.

One policy at a time, in worlds of either kind:

    with make_player(env, 64, net) as player:
        play = player.begin(seed, episodes=10)
        while not np.all(play.record.finished):
            play, _ = player.advance(params, play, source, threshold)

Many runs under many kinds of masks at once: `play_runs`, or `BatchedPlayer` where the same programs
are used again. Evaluation, audit and calibration differ in what they fold, not in how it is played.
"""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt

from maskless.conditions import prudence_of
from maskless.envs import Environment, VectorEnv
from maskless.envs.prudence import with_prudence
from maskless.errors import MasklessError
from maskless.evaluation import episodes as game
from maskless.evaluation.episodes import (
    EpisodeRecord,
    Fold,
    MaskSource,
    Overrule,
    Play,
    Player,
    no_fold,
)
from maskless.evaluation.runs import Runs
from maskless.nets import AnyNetwork
from maskless.policy.acting import as_array
from maskless.training.program import stack_runs

HOST_ENVS = 32
"""Episodes under way at a time in a Gymnasium environment, each with a game in memory."""

WITHOUT_ORACLE = "evaluate it with --masks predicted none, or without --masks"
"""What to do in an environment that has no masks."""

Report = Callable[[int, str], None]
"""Called with the number of episodes done and what is going on."""


def no_report(done: int, what: str) -> None:
    """Nobody is told."""


def default_envs(env: Environment, inside_jax: int) -> int:
    """The default number of parallel episodes."""
    return HOST_ENVS if env.runs_on_host else inside_jax


def refusing(env: Environment, on_invalid: str | None) -> Environment:
    """The environment, which is not asked to take invalid actions if `on_invalid` says what they
    bring instead: for those of Gymnasium's that raise at them."""
    if on_invalid is None:
        return env
    if not env.runs_on_host:
        raise MasklessError(f"{env.id} takes every action: on_invalid is for Gymnasium's worlds.")
    return env.refusing(on_invalid)  # type: ignore[attr-defined]


def check_oracle(env: Environment, advice: str) -> None:
    """Refuses an environment without masks. `advice`: what to do instead."""
    if not env.has_masks:
        raise MasklessError(f"{env.id} has no action masks, so there is no oracle: {advice}.")


def make_player(
    env: Environment,
    num_envs: int,
    net: AnyNetwork,
    *,
    greedy: bool = False,
    overrule: Overrule | None = None,
    fold: Fold = no_fold,
    one_episode: bool = False,
    clock_fields: tuple[str, ...] | None = None,
) -> Player:
    """The player for this kind of environment.

    `greedy`: always the most probable action. `overrule`: the overrides of the policy. `fold` gets
    every step. `one_episode`: only the first one of every environment counts, so that no levels are
    made for others. `clock_fields`: in place of the environment's (`Environment.clock_fields`).
    """
    how: dict[str, Any] = {
        "greedy": greedy,
        "overrule": overrule,
        "fold": fold,
        "clock_fields": clock_fields,
    }
    if env.runs_on_host:
        from maskless.evaluation.gymnasium_player import GymnasiumPlayer  # needs Gymnasium

        return GymnasiumPlayer(env, num_envs, net, **how)
    venv = VectorEnv(env, num_envs, pool_size=1 if one_episode else None)
    return JaxPlayer(venv, net, refresh=not one_episode, **how)


class JaxPlayer(Player):
    """Environments inside JAX."""

    def __init__(self, venv: VectorEnv, net: AnyNetwork, **how: Any):
        """`how`: what `episodes.advance` takes."""
        self.num_envs = venv.num_envs
        self._venv, self._net = venv, net
        self._begin = jax.jit(self._start, static_argnames="episodes")
        # The old play is given up, so that two copies of all worlds never exist at once.
        self._advance = jax.jit(partial(game.advance, venv, net, **how), donate_argnums=(1, 4))

    def _start(self, seed: UInt[Array, ""], *, episodes: int) -> Play:
        return game.begin(self._venv, self._net, jax.random.key(seed), episodes)

    def begin(self, seed: int, episodes: int) -> Play:
        return self._begin(jnp.uint32(seed % 2**32), episodes=episodes)


class BatchedPlayer:
    """All runs under all sources of masks at once, inside JAX: [runs, sources, envs, episodes].

    A run's levels and dice depend on its seed only: conditions and sources meet the same.
    """

    def __init__(
        self,
        venv: VectorEnv,
        net: AnyNetwork,
        run_seeds: Sequence[int],
        sources: Sequence[MaskSource],
        episodes: int,
        *,
        seed: int = 0,
        share_levels: bool = False,
        accumulator: Callable[[], Any] = lambda: None,
        **how: Any,
    ):
        """`run_seeds`: of each run. `share_levels`: make the levels of a seed once, and not for
        every run and source: faster, and the same up to rounding. `accumulator`: makes what `fold`
        begins with, for one run and source. `how`: what `episodes.advance` takes."""
        self._sources = stack_runs(list(sources))
        shape = (len(run_seeds), len(sources))
        seeds = sorted(set(run_seeds)) if share_levels else list(run_seeds)
        row_of_run = jnp.array([seeds.index(each) for each in run_seeds])
        root = jax.random.key(seed)
        keys = jnp.stack([jax.random.fold_in(root, each) for each in seeds])[:, None]
        self._keys = keys if share_levels else jnp.broadcast_to(keys, shape)

        def begin(keys: Key[Array, "runs sources"]) -> tuple[Play, Any]:
            """[runs, sources, ...]"""
            play = jax.vmap(jax.vmap(lambda key: game.begin(venv, net, key, episodes)))(keys)
            if share_levels:
                play = jax.tree.map(lambda x: jnp.repeat(x[row_of_run], shape[1], axis=1), play)
            return play, jax.tree.map(lambda x: jnp.broadcast_to(x, shape + x.shape), accumulator())

        def advance(params: Any, threshold: Array, source: MaskSource, state: Any) -> Any:
            return game.advance(venv, net, params, state[0], source, threshold, state[1], **how)

        over_sources = jax.vmap(advance, (None, None, 0, 0))
        self._begin: Any = jax.jit(begin)
        self._advance: Any = jax.jit(jax.vmap(over_sources, (0, 0, None, 0)), donate_argnums=3)

    def compile(self, params: Any, thresholds: Float[Array, "runs ..."]) -> None:
        """Both programs, side by side; of the arguments, shapes will do. Without this they compile
        when they are first needed."""
        state = jax.eval_shape(self._begin, self._keys)
        lowered = (
            self._begin.lower(self._keys),
            self._advance.lower(params, thresholds, self._sources, state),
        )
        with ThreadPoolExecutor(2) as pool:
            self._begin, self._advance = pool.map(lambda program: program.compile(), lowered)

    def play(
        self,
        params: Any,
        thresholds: Float[Array, "runs ..."],
        *,
        max_steps: int | None = None,
        report: Report = no_report,
    ) -> tuple[EpisodeRecord, Any]:
        """The record of every run under every source, and what was folded. `params`: [runs, ...].
        `max_steps`: after so many, what is still being played is counted as it stands."""
        state, steps = self._begin(self._keys), 0
        while True:
            state = self._advance(params, thresholds, self._sources, state)
            steps += game.STEPS
            finished = np.asarray(state[0].record.finished)
            report(int(finished.sum()), "playing")
            if finished.all() or (max_steps is not None and steps >= max_steps):
                return jax.device_get((state[0].record, state[1]))


def play_runs(
    runs: Runs,
    sources: Sequence[MaskSource],
    *,
    envs: int,
    per_env: int,
    greedy: bool = False,
    seed: int = 0,
    max_steps: int | None = None,
    report: Report = no_report,
) -> EpisodeRecord:
    """The record of every run under every source of masks. [runs, sources, envs, episodes]

    `envs`: episodes under way at a time; `per_env`: how many each environment plays; `max_steps`:
    after so many, what is still being played is counted as it stands.
    """
    if runs.env.runs_on_host:
        return _play_one_by_one(runs, sources, envs, per_env, greedy, seed, max_steps, report)
    groups, records, done = by_masks(runs), [], 0
    how: dict[str, Any] = {"envs": envs, "per_env": per_env, "greedy": greedy, "seed": seed}
    for _, group in groups:
        told = partial(_report_after, report, done)
        records.append(_play_together(group, sources, **how, max_steps=max_steps, report=told))
        done += len(group.runs) * len(sources) * envs * per_env
    if len(groups) == 1:
        return records[0]
    order = np.argsort([member for members, _ in groups for member in members])
    return jax.tree.map(lambda *x: np.concatenate(x)[order], *records)


def _report_after(report: Report, before: int, done: int, what: str) -> None:
    report(before + done, what)


def by_masks(runs: Runs) -> list[tuple[list[int], Runs]]:
    """The runs whose masks have the same parts (`Condition.prudence`), in the environment that has
    these masks; and their places among all."""
    members: dict[float, list[int]] = {}
    for place, run in enumerate(runs.runs):
        members.setdefault(prudence_of(run.name), []).append(place)
    return [
        (
            places,
            dataclasses.replace(
                runs,
                env=with_prudence(runs.env, number),
                runs=[runs.runs[place] for place in places],
            ),
        )
        for number, places in members.items()
    ]


def _play_together(
    runs: Runs,
    sources: Sequence[MaskSource],
    *,
    envs: int,
    per_env: int,
    greedy: bool,
    seed: int,
    max_steps: int | None,
    report: Report,
) -> EpisodeRecord:
    """Runs under masks of the same parts, in one program."""
    one_episode = per_env == 1
    player = BatchedPlayer(
        VectorEnv(runs.env, envs, pool_size=1 if one_episode else None),
        runs.net,
        [run.seed for run in runs.runs],
        sources,
        per_env,
        seed=seed,
        greedy=greedy,
        overrule=runs.overrule,
        clock_fields=runs.clock_fields,
        refresh=not one_episode,
    )
    params = stack_runs([run.params for run in runs.runs])
    thresholds = jnp.stack([as_array(run.thresholds) for run in runs.runs])
    return player.play(params, thresholds, max_steps=max_steps, report=report)[0]


def _play_one_by_one(
    runs: Runs,
    sources: Sequence[MaskSource],
    envs: int,
    per_env: int,
    greedy: bool,
    seed: int,
    max_steps: int | None,
    report: Report,
) -> EpisodeRecord:
    """The same where worlds cannot be copied."""
    records: list[EpisodeRecord] = []
    how: dict[str, Any] = {"overrule": runs.overrule, "clock_fields": runs.clock_fields}
    with make_player(runs.env, envs, runs.net, greedy=greedy, **how) as player:
        for run in runs.runs:
            for source in sources:
                play, steps = player.begin(seed + run.seed, per_env), 0
                while not (finished := np.asarray(play.record.finished)).all():
                    if max_steps is not None and steps >= max_steps:
                        break
                    play, _ = player.advance(run.params, play, source, as_array(run.thresholds))
                    steps += game.STEPS
                    done = len(records) * envs * per_env + int(finished.sum())
                    report(done, f"{run.name}, seed {run.seed}")
                records.append(jax.device_get(play.record))
    report(len(records) * envs * per_env, "played")
    shape = (len(runs.runs), len(sources))
    record = jax.tree.map(lambda *x: np.stack(x).reshape(*shape, *x[0].shape), *records)
    return record if runs.env.has_masks else _without_oracle(record)


def _without_oracle(record: EpisodeRecord) -> EpisodeRecord:
    """With NaN for what only an oracle knows."""
    unknown: Any = np.full(np.shape(record.returns), np.nan, np.float32)
    return dataclasses.replace(record, invalid=unknown, changed=unknown, wrong=unknown)
