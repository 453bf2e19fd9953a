"""Many Gymnasium environments at once, in the worker processes of Gymnasium's `AsyncVectorEnv`.

A process per game would spend its time on waking up: each sub-environment of the AsyncVectorEnv is
a batch of games (batch.py). The interface is `VectorEnv`'s, but the games are outside: `step`
changes them.
"""

import contextlib
import dataclasses
import multiprocessing.connection
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.util import Finalize
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import jax
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from jaxtyping import Int

from maskless.envs.gymnasium.batch import GameBatch
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.envs.gymnasium.game import reason
from maskless.envs.vector import First, Step
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
        numbers = np.array_split(np.arange(num_envs), max(workers, 1))
        counts = [len(batch) for batch in numbers]
        self._splits = np.cumsum(counts)[:-1]
        # Where the games are among the rows of all batches, which are of one size.
        self._rows = np.concatenate([i * counts[0] + np.arange(n) for i, n in enumerate(counts)])
        self._actions = np.full((len(counts), counts[0]), -1)
        make = [partial(GameBatch, env, i, n, counts[0]) for i, n in enumerate(counts)]
        self._layout = jax.tree.structure(make[0]().outcome)
        self._batches = Workers(env, make) if workers else SyncVectorEnv(make, copy=False)

    def reset(self, seeds: Sequence[Sequence[int]]) -> First:
        """A new episode in every environment. `seeds`: some numbers for each, which decide this
        episode and all that follow."""
        seeds_of_batches = np.split(np.asarray(seeds, np.int64) % 2**32, self._splits)
        step = self._request("reset", options={"seeds": seeds_of_batches})
        return First(step.observation, step.mask)

    def step(self, actions: Int[np.ndarray, " envs"]) -> Step:
        """One step of every environment; finished ones begin their next episode. An environment
        with the action -1 is left alone."""
        self._actions.flat[self._rows] = actions
        step = self._request("step", self._actions)
        if step.done.any():
            return step
        # The same object, which is then sent to the learner once.
        return dataclasses.replace(step, final_observation=step.observation)

    def _request(self, method: str, *args: Any, **kwargs: Any) -> Step:
        try:
            leaves, *_, infos = getattr(self._batches, method)(*args, **kwargs)
            if "error" in infos:
                number = infos["_error"].argmax()
                cause = RuntimeError(infos["traceback"][number])
                raise MasklessError(infos["error"][number]) from cause
        except BaseException:  # a worker that is still at work would answer the next request
            self.close()
            raise
        rows = [leaf.reshape(-1, *leaf.shape[2:])[self._rows] for leaf in leaves]  # copies
        return jax.tree.unflatten(self._layout, rows)

    def close(self) -> None:
        self._batches.close()

    def __enter__(self) -> "HostVectorEnv":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Workers(AsyncVectorEnv):
    """An AsyncVectorEnv that can lose a worker without waiting for it for ever, and whose workers
    leave Ctrl-C to the learner."""

    def __init__(self, env: HostEnvironment, make_batches: Sequence[Callable[[], GameBatch]]):
        self._id = env.id
        try:
            cloudpickle.dumps(env)
        except Exception as error:  # anything can go wrong in other people's classes
            raise MasklessError(
                f"{env.id} cannot be sent to a worker process ({reason(error)}): give a function"
                " that makes it there, or workers=0."
            ) from error
        make = [partial(_in_worker, os.getpid(), batch) for batch in make_batches]
        try:
            with self._death_as_sentence(), _environment_variables(_WORKER_VARIABLES):
                super().__init__(make, context="spawn", copy=False)  # a fork copies JAX's locks
        except BaseException:
            self.close()
            raise
        # Before multiprocessing itself waits, when the interpreter ends, for workers to end.
        Finalize(self, _stop, (self.processes, self.parent_pipes), exitpriority=10)

    def reset(self, **kwargs: Any) -> Any:
        with self._death_as_sentence():
            return super().reset(**kwargs)

    def step(self, actions: Any) -> Any:
        with self._death_as_sentence():
            return super().step(actions)

    def close_extras(self, *args: Any, **kwargs: Any) -> None:
        """Gymnasium's waits for ever for the answer of a worker that has died."""
        _stop(getattr(self, "processes", ()), getattr(self, "parent_pipes", ()))

    def __del__(self) -> None:
        """Nothing: `Finalize` has ended the workers, also where modules are being unloaded."""

    @contextlib.contextmanager
    def _death_as_sentence(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:  # a pipe has lost its other end
            processes = {process.sentinel: process for process in getattr(self, "processes", ())}
            ended = multiprocessing.connection.wait(list(processes), _SECONDS_TO_STOP)
            for sentinel in ended:
                processes[sentinel].join()
            codes = [processes[sentinel].exitcode for sentinel in ended]
            raise MasklessError(
                f"A worker process of {self._id} died (exit code {', '.join(map(str, codes))}): the"
                " environment crashed it, or the memory is full; try the option workers=0 or fewer"
                " environments."
            ) from error


def _in_worker(learner: int, make_batch: Callable[[], GameBatch]) -> GameBatch:
    """`make_batch()`; AsyncVectorEnv calls it in each worker, and once in the learner's process."""
    if os.getpid() != learner:
        # Ctrl-C reaches all processes of a terminal, but the learner decides when to stop.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    return make_batch()


def _stop(processes: Sequence[Any], pipes: Sequence[Any]) -> None:
    """Tells workers to close their games and to end; kills those that do not."""
    for pipe in pipes:
        with contextlib.suppress(OSError):  # it has ended already
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
