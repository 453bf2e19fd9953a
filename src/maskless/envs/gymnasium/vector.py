"""Many Gymnasium environments at once, in the worker processes of Gymnasium's `AsyncVectorEnv`.

A process per game would spend its time on waking up: each sub-environment of the AsyncVectorEnv is
a batch of games that are stepped one by one. The interface is `VectorEnv`'s, but the games are
outside: `step` changes them.
"""

import contextlib
import multiprocessing.connection
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from jaxtyping import Bool, Float, Int

from maskless.envs.base import Observation
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.envs.gymnasium.game import game_error, reason
from maskless.envs.vector import Episodes, First, Step
from maskless.errors import MasklessError

_SECONDS_TO_STOP = 2.0
# A worker leaves the accelerator and the other cores to the learner.
_WORKER_VARIABLES = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}


class HostVectorEnv:
    """`num_envs` copies of a host environment. `close` it, or use it in a `with`: its processes
    end then, and at the latest with this one."""

    def __init__(self, env: HostEnvironment, num_envs: int):
        self.env = env
        self.num_envs = num_envs
        workers = min(num_envs, _cores() if env.workers is None else env.workers)
        shares = np.array_split(np.arange(num_envs), max(workers, 1))
        self._ends = np.cumsum([len(share) for share in shares])
        size = len(shares[0])
        # Sub-environments must be of one size: the last rows of some batches hold no game.
        self._rows = np.concatenate([i * size + np.arange(len(s)) for i, s in enumerate(shares)])
        batches = [partial(GameBatch, env, i, len(s), size) for i, s in enumerate(shares)]
        self._layout = jax.tree.structure(GameBatch(env, 0, 0, 1).outcome)
        self._batches: Any = (
            Workers(env, batches) if workers else SyncVectorEnv(batches, copy=False)
        )
        self._actions = np.full((len(shares), size), -1)

    def reset(self, seeds: Sequence[Sequence[int]]) -> First:
        """A new episode in every environment. `seeds`: some numbers for each, which decide this
        episode and all that follow."""
        shares = np.split(np.asarray(seeds, np.int64) % 2**32, self._ends[:-1])
        outcome = self._request("reset", options={"seeds": shares})
        zeros: Any = np.zeros(self.num_envs, np.int32)
        self._episodes = Episodes(zeros.astype(np.float32), zeros, zeros)
        return First(outcome.observation, outcome.mask)

    def step(self, actions: Int[np.ndarray, " envs"]) -> Step:
        """One step of every environment; finished ones begin their next episode. An environment
        with the action -1 is left alone."""
        self._actions.flat[self._rows] = actions
        outcome = self._request("step", self._actions)
        done = outcome.terminated | outcome.truncated
        episodes = Episodes(
            returns=self._episodes.returns + outcome.reward,
            lengths=self._episodes.lengths + (actions >= 0).astype(np.int32),
            achievements=self._episodes.achievements,
        )
        self._episodes = jax.tree.map(lambda x: np.where(done, x.dtype.type(0), x), episodes)
        # The same object where nothing ended: it is then sent to the learner once.
        final = outcome.observation
        if done.any():
            final = jax.tree.map(partial(_where, done), outcome.final_observation, final)
        return Step(
            observation=outcome.observation,
            mask=outcome.mask,
            reward=outcome.reward,
            done=done,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            final_observation=final,
            episodes=episodes,
        )

    def _request(self, method: str, *args: Any, **kwargs: Any) -> "Outcome":
        try:
            leaves, *_, infos = getattr(self._batches, method)(*args, **kwargs)
            if "error" in infos:
                number = infos["_error"].argmax()
                cause = RuntimeError(infos["traceback"][number])
                raise MasklessError(infos["error"][number]) from cause
        except BaseException:  # a worker that is still at work would answer the next request
            self.close()
            raise
        rows = [leaf.reshape(-1, *leaf.shape[2:])[self._rows] for leaf in leaves]
        return jax.tree.unflatten(self._layout, rows)

    def close(self) -> None:
        self._batches.close()

    def __enter__(self) -> "HostVectorEnv":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Outcome(NamedTuple):
    """Of a step or reset of some games, after any reset of a finished one."""

    observation: Observation  # [games, ...]
    mask: Bool[np.ndarray, "games actions"]
    reward: Float[np.ndarray, " games"]
    terminated: Bool[np.ndarray, " games"]
    truncated: Bool[np.ndarray, " games"]
    final_observation: Observation
    """Before the reset; of an earlier episode where none ended."""


class GameBatch(gymnasium.Env):
    """Some games, stepped one after the other, as one sub-environment. Its observation is the
    leaves of an `Outcome`; finished games begin their next episode at once, so that it never ends.

    What a game raises is reported in `info` ("error" and "traceback"): AsyncVectorEnv would hang on
    an exception that cannot be pickled.
    """

    def __init__(self, env: HostEnvironment, index: int, games: int, size: int):
        """`index`: of this batch; `size`: how many games the largest batch has."""
        self.metadata = {"render_modes": []}  # AsyncVectorEnv changes it
        self._env, self._index = env, index
        self._games: list[Any] = [None] * games  # made by `reset`, where failures are reported
        zeros = partial(_zeros, size)
        mask = np.zeros((size, env.num_actions), bool)
        reward, ended = np.zeros(size, np.float32), np.zeros((2, size), bool)
        observation, final = (jax.tree.map(zeros, env.observation_shapes) for _ in range(2))
        self.outcome = Outcome(observation, mask, reward, *ended, final)
        self._leaves = tuple(jax.tree.leaves(self.outcome))
        self._observation, self._final = jax.tree.leaves(observation), jax.tree.leaves(final)
        self.observation_space = spaces.Tuple([_box(leaf) for leaf in self._leaves])
        self.action_space = spaces.Box(-1, env.num_actions - 1, (size,), np.int64)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[tuple, dict[str, str]]:
        """New episodes, decided by `options["seeds"]`: for each batch, numbers [games, n]."""
        seeds = options["seeds"][self._index]
        self._random = [np.random.default_rng(numbers.tolist()) for numbers in seeds]
        return self._leaves, self._for_all_games("reset", self._begin, range(len(self._games)))

    def step(self, action: Int[np.ndarray, " size"]) -> tuple[tuple, float, bool, bool, dict]:
        for part in (self.outcome.reward, self.outcome.terminated, self.outcome.truncated):
            part[:] = 0
        playing = [number for number in range(len(self._games)) if action[number] >= 0]
        info = self._for_all_games("step", partial(self._step, action), playing)
        return self._leaves, 0.0, False, False, info

    def close(self) -> None:
        for game in self._games:
            if game is not None:
                game.close()
        self._games = []
        learner = multiprocessing.parent_process()
        if learner is not None and not learner.is_alive():
            os._exit(0)  # AsyncVectorEnv's worker would complain that it cannot answer

    def _for_all_games(
        self, method: str, call: Callable[[int], None], numbers: Sequence[int]
    ) -> dict[str, str]:
        """`call(number)` of these games; the info of the step or reset."""
        try:
            for number in numbers:
                call(number)
        except Exception as error:  # anything can go wrong in other people's environments
            sentence = str(game_error(self._env.id, method, error))
            return {"error": sentence, "traceback": traceback.format_exc()}
        return {}

    def _begin(self, number: int) -> None:
        if self._games[number] is None:
            try:
                self._games[number] = self._env.play()
            except Exception as error:
                raise game_error(self._env.id, "its constructor", error) from error
        observation, mask = self._games[number].reset(int(self._random[number].integers(2**31)))
        self._write(self._observation, number, observation)
        self.outcome.mask[number] = mask

    def _step(self, actions: Int[np.ndarray, " size"], number: int) -> None:
        masked, observation, reward, terminated, truncated = self._games[number].step(
            actions[number]
        )
        outcome = self.outcome
        outcome.reward[number] = reward
        outcome.terminated[number], outcome.truncated[number] = terminated, truncated
        if masked is None:
            self._write(self._final, number, observation)
            self._begin(number)
        else:
            self._write(self._observation, number, observation)
            outcome.mask[number] = masked[1]

    def _write(self, leaves: list[np.ndarray], number: int, observation: Observation) -> None:
        for leaf, value in zip(leaves, jax.tree.leaves(observation), strict=True):
            if leaf.shape[1:] != np.shape(value):
                raise MasklessError(
                    f"{self._env.id} shows an array of shape {np.shape(value)} where its first"
                    f" observation had {leaf.shape[1:]}: all its observations must have one shape."
                )
            leaf[number] = value


class Workers(AsyncVectorEnv):
    """An AsyncVectorEnv whose processes leave Ctrl-C to the learner, end when it does, and whose
    death is one sentence."""

    def __init__(self, env: HostEnvironment, batches: Sequence[Callable[[], GameBatch]]):
        self._id = env.id
        try:
            cloudpickle.dumps(env)
        except Exception as error:
            raise MasklessError(
                f"{env.id} cannot be sent to a worker process ({reason(error)}): give a function"
                " that makes it there, or workers=0."
            ) from error
        makers = [partial(_in_worker, os.getpid(), batch) for batch in batches]
        try:
            with self._death_in_a_sentence(), _environment_variables(_WORKER_VARIABLES):
                # A fork would copy JAX's locks.
                super().__init__(makers, context="spawn", copy=False)
        except BaseException:
            self.close()
            raise
        Finalize(self, _stop, (self.processes, self.parent_pipes), exitpriority=10)

    def reset(self, **kwargs: Any) -> Any:
        with self._death_in_a_sentence():
            return super().reset(**kwargs)

    def step(self, actions: Int[np.ndarray, "batches size"]) -> Any:
        with self._death_in_a_sentence():
            return super().step(actions)

    def close_extras(self, **kwargs: Any) -> None:
        """Gymnasium's own waits for ever where a worker died, or ignores that it is to end."""
        _stop(getattr(self, "processes", ()), getattr(self, "parent_pipes", ()))

    @contextlib.contextmanager
    def _death_in_a_sentence(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            processes = {x.sentinel: x for x in getattr(self, "processes", ())}
            ended = multiprocessing.connection.wait(list(processes), _SECONDS_TO_STOP)
            for sentinel in ended:
                processes[sentinel].join()
            code = processes[ended[0]].exitcode if ended else "unknown"
            raise MasklessError(
                f"A worker process of {self._id} died (exit code {code}): the environment crashed"
                " it, or the memory is full; try the option workers=0 or fewer environments."
            ) from error


def _in_worker(learner: int, make_batch: Callable[[], GameBatch]) -> GameBatch:
    """`make_batch()`; AsyncVectorEnv calls it in each worker, and once in the learner's process."""
    if os.getpid() != learner:
        # Ctrl-C reaches all processes of a terminal, but the learner decides when to stop.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    return make_batch()


def _stop(processes: Sequence[Any], pipes: Sequence[Any]) -> None:
    for pipe in pipes:
        with contextlib.suppress(OSError):  # it has died
            pipe.send(("close", None))
    for process in processes:
        process.join(_SECONDS_TO_STOP)
        if process.is_alive():  # in the middle of a long step
            process.kill()
            process.join()
    for pipe in pipes:
        pipe.close()


@contextlib.contextmanager
def _environment_variables(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ[name] for name in values if name in os.environ}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update(before)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _zeros(size: int, shape: jax.ShapeDtypeStruct) -> np.ndarray:
    return np.zeros((size, *shape.shape), shape.dtype)


def _box(array: np.ndarray) -> spaces.Box:
    """A space of arrays like this one; only shape and type matter."""
    return spaces.Box(0, 1, array.shape, array.dtype)


def _where(done: Bool[np.ndarray, " envs"], ended: np.ndarray, going_on: np.ndarray) -> np.ndarray:
    return np.where(done.reshape(-1, *[1] * (ended.ndim - 1)), ended, going_on)
