"""Some games of one environment as one `gymnasium.Env`: what a worker process plays."""

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Int

from maskless.envs.gymnasium.env import HostEnvironment, in_time
from maskless.envs.gymnasium.game import Game, Observation, game_error
from maskless.envs.vector import Episodes, Step


class GameBatch(gymnasium.Env):
    """Games that are stepped one after the other, as one sub-environment of Gymnasium's vector
    environments. Its observation is the leaves of a `Step`; finished games begin their next episode
    at once, so that it never ends itself.

    What a game raises is reported in `info` ("error" and "traceback"): AsyncVectorEnv would wait
    for ever for an exception that cannot be pickled.
    """

    def __init__(self, env: HostEnvironment, index: int, count: int, size: int):
        """`index`: of this batch; `count`: of its games; `size`: of the largest batch, as all
        sub-environments have the same shapes. The last rows of a smaller one hold no game."""
        self.metadata = {"render_modes": []}  # AsyncVectorEnv adds to it
        self._env, self._index, self._count = env, index, count
        self._told_to_stop = False
        # A worker gets no Ctrl-C, so that there a KeyboardInterrupt is the environment's, too.
        in_worker = multiprocessing.parent_process() is not None
        self._failures = (Exception, SystemExit, *((KeyboardInterrupt,) if in_worker else ()))
        self._games: list[Game] = []  # made by `reset`, where failures are reported
        self.outcome = _blank_step(env, size)
        self._leaves = tuple(jax.tree.leaves(self.outcome))
        self._observation = jax.tree.leaves(self.outcome.observation)
        self._final_observation = jax.tree.leaves(self.outcome.final_observation)
        # Of the observation space only shapes and types are used.
        boxes = [spaces.Box(0, 1, x.shape, x.dtype.type) for x in self._leaves]
        self.observation_space = spaces.Tuple(boxes)
        self.action_space = spaces.Box(-1, env.num_actions - 1, (size,), np.int64)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[tuple, dict[str, str]]:
        """New episodes, decided by `options["seeds"]`: for each batch, numbers [count, n]."""
        seeds = options["seeds"][self._index]
        self._random = [np.random.default_rng(numbers.tolist()) for numbers in seeds]
        for leaf in self._leaves:
            leaf[:] = 0
        info = self._report(
            "its constructor", self._make_game, range(len(self._games), self._count)
        )
        return self._leaves, info or self._report("reset", self._begin_episode, range(self._count))

    def step(self, action: Int[np.ndarray, " size"]) -> tuple[tuple, float, bool, bool, dict]:
        """One step of every game whose action is not -1."""
        outcome, episodes = self.outcome, self.outcome.episodes
        for statistic in (episodes.returns, episodes.lengths):
            statistic[outcome.done] = 0
        for part in (outcome.reward, outcome.terminated, outcome.truncated):
            part[:] = 0
        playing = np.flatnonzero(action[: self._count] >= 0)
        info = self._report("step", partial(self._step_game, action), playing.tolist())
        episodes.returns[:] += outcome.reward
        episodes.lengths[playing] += 1
        np.logical_or(outcome.terminated, outcome.truncated, out=outcome.done)
        for final, now in zip(self._final_observation, self._observation, strict=True):
            final[~outcome.done] = now[~outcome.done]
        return self._leaves, 0.0, False, False, info

    def note_stop_request(self) -> None:
        """A handler of signals: the next answer tells it to the learner."""
        self._told_to_stop = True

    def close(self) -> None:
        learner = multiprocessing.parent_process()
        if learner is None:  # a worker that does not end in time is killed
            in_time(self._close_games)
        else:
            self._close_games()
        self._games = []
        if learner is not None and not learner.is_alive():
            os._exit(0)  # AsyncVectorEnv's worker would print that it cannot answer any more

    def _close_games(self) -> None:
        for game in self._games:
            # What an environment does on its way out matters to nobody any more.
            with contextlib.suppress(Exception, SystemExit):
                game.close()

    def _report(
        self, method: str, call: Callable[[int], None], numbers: Iterable[int]
    ) -> dict[str, str]:
        """Does `call(number)` for each game; the info that tells of a failure, or an empty one."""
        try:
            for number in numbers:
                call(number)
        except self._failures as error:  # anything can go wrong in other people's environments
            sentence = str(game_error(self._env.id, method, error))
            return {"error": sentence, "traceback": traceback.format_exc()}
        if self._told_to_stop:
            told = f"a worker process of {self._env.id} got SIGTERM: saving and stopping."
            return {"told_to_stop": told}
        return {}

    def _make_game(self, number: int) -> None:
        self._games.append(self._env.play())

    def _begin_episode(self, number: int) -> None:
        observation, mask = self._games[number].reset(int(self._random[number].integers(2**31)))
        self._write(self._observation, number, observation)
        self.outcome.mask[number] = mask

    def _step_game(self, actions: Int[np.ndarray, " size"], number: int) -> None:
        outcome = self.outcome
        masked, observation, reward, *ended = self._games[number].step(int(actions[number]))
        outcome.reward[number] = reward
        if masked is None:
            outcome.terminated[number], outcome.truncated[number] = ended
            self._write(self._final_observation, number, observation)
            self._begin_episode(number)
        else:
            self._write(self._observation, number, observation)
            outcome.mask[number] = masked[1]

    def _write(self, leaves: list[np.ndarray], number: int, observation: Observation) -> None:
        for leaf, value in zip(leaves, jax.tree.leaves(observation), strict=True):
            leaf[number] = value


def _blank_step(env: HostEnvironment, size: int) -> Any:
    """A `Step` of NumPy arrays to be written to, all zero."""

    def zeros(dtype: Any, *shape: int) -> Any:
        return np.zeros((size, *shape), dtype)

    def observation() -> Observation:
        return jax.tree.map(lambda x: zeros(x.dtype, *x.shape), env.observation_shapes)

    return Step(
        observation=observation(),
        mask=zeros(bool, env.num_actions),
        reward=zeros(np.float32),
        done=zeros(bool),
        terminated=zeros(bool),
        truncated=zeros(bool),
        final_observation=observation(),
        episodes=Episodes(zeros(np.float32), zeros(np.int32), zeros(np.int32)),
    )
