"""Many Gymnasium environments at once, in the worker processes of Gymnasium's `AsyncVectorEnv`.

A process per game would spend its time on waking up: each sub-environment of the AsyncVectorEnv is
a batch of games (batch.py). The interface is `VectorEnv`'s, but the games are outside: `step`
changes them.
"""

import contextlib
import dataclasses
import errno
import multiprocessing.connection
import os
import signal
import time
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

ANSWER_SECONDS = 600.0
"""How long a worker process may take for one answer: a step, or new episodes, of all its games."""
_SECONDS_TO_STOP = 2.0
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_SAFE_PATH = "PYTHONSAFEPATH"
# A worker leaves the accelerator and the other cores to the learner. And it begins as `python -c`,
# which would import Python's own modules from the current folder first: that may be a stranger's.
_WORKER_VARIABLES = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", _SAFE_PATH: "1"}


class HostVectorEnv:
    """`num_envs` copies of a host environment. `close` it, or use it in a `with`: its processes
    end then, and at the latest with this one."""

    def __init__(
        self, env: HostEnvironment, num_envs: int, *, answer_seconds: float = ANSWER_SECONDS
    ):
        """`answer_seconds`: how long to wait for a worker process before giving up."""
        self.env = env
        self.told_to_stop: str | None = None
        """A sentence, when a worker process was asked to end (SIGTERM). It plays on."""
        self.num_envs = num_envs
        workers = min(num_envs, _cores() if env.workers is None else env.workers)
        numbers = np.array_split(np.arange(num_envs), max(workers, 1))
        counts = [len(batch) for batch in numbers]
        self._splits = np.cumsum(counts)[:-1]
        # Where the games are among the rows of all batches, which are of one size.
        self._rows = np.concatenate([i * counts[0] + np.arange(n) for i, n in enumerate(counts)])
        self._actions = np.full((len(counts), counts[0]), -1)
        make = [partial(GameBatch, env, i, n, counts[0]) for i, n in enumerate(counts)]
        self._batches: Workers | SyncVectorEnv
        try:
            self._layout = jax.tree.structure(make[0]().outcome)
            self._batches = (
                Workers(env, make, answer_seconds) if workers else SyncVectorEnv(make, copy=False)
            )
        except MemoryError as error:
            raise MasklessError(
                f"There is no memory for {num_envs} environments of {env.id}, whose observations"
                f" are large ({reason(error)}): use fewer, or smaller ones."
            ) from error

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
            if "told_to_stop" in infos:
                self.told_to_stop = infos["told_to_stop"][infos["_told_to_stop"].argmax()]
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
    """An AsyncVectorEnv that can lose a worker, or find it hanging, without waiting for it for
    ever, and whose workers leave Ctrl-C to the learner."""

    def __init__(
        self,
        env: HostEnvironment,
        make_batches: Sequence[Callable[[], GameBatch]],
        answer_seconds: float,
    ):
        self._id, self._answer_seconds = env.id, answer_seconds
        try:
            cloudpickle.dumps(env)
        except Exception as error:  # anything can go wrong in other people's classes
            raise MasklessError(
                f"{env.id} cannot be sent to a worker process ({reason(error)}): give a function"
                " that makes it there, or workers=0."
            ) from error
        own = os.environ.get(_SAFE_PATH)
        make = [partial(_in_worker, os.getpid(), own, batch) for batch in make_batches]
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
            self.reset_async(**kwargs)
            self._wait_for_answers()
            return self.reset_wait()

    def step(self, actions: Any) -> Any:
        with self._death_as_sentence():
            self.step_async(actions)
            self._wait_for_answers()
            return self.step_wait()

    def _check_spaces(self) -> None:
        """Waits until the workers have started. The batches are made alike; Gymnasium's, which
        compares them, would wait for ever."""
        self.call_async("render_mode")
        self._wait_for_answers()
        self.call_wait()

    def _wait_for_answers(self) -> None:
        """Until every worker has answered."""
        deadline = time.monotonic() + self._answer_seconds
        ends = [process.sentinel for process in self.processes]
        waiting = dict(zip(self.parent_pipes, self.processes, strict=True))
        while waiting:
            left = max(deadline - time.monotonic(), 0.0)
            ready = multiprocessing.connection.wait([*waiting, *ends], left)
            if not ready:
                raise self._hanging(list(waiting.values()))
            if any(end in ready for end in ends):
                raise EOFError
            waiting = {pipe: process for pipe, process in waiting.items() if pipe not in ready}

    def _hanging(self, processes: Sequence[Any]) -> MasklessError:
        numbers = ", ".join(str(process.pid) for process in processes)
        return MasklessError(
            f"{self._id} has not answered for {self._answer_seconds:g} seconds (process {numbers}):"
            " it hangs, or its process was stopped. If its steps may take that long, give it more"
            " time (--worker-minutes) or more workers."
        )

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
            if not ended and isinstance(error, OSError) and error.errno in _NO_ROOM:
                raise MasklessError(
                    f"The worker processes of {self._id} cannot be started"
                    f" ({os.strerror(error.errno)}): allow more (ulimit), or use fewer workers."
                ) from error
            codes = ", ".join(_how_it_ended(processes[sentinel].exitcode) for sentinel in ended)
            raise MasklessError(
                f"A worker process of {self._id} died ({codes}): the environment crashed it, the"
                " memory is full, or a script of yours does not train under"
                " `if __name__ == '__main__':`; try the option workers=0 or fewer environments."
            ) from error


def _how_it_ended(code: int | None) -> str:
    """Of a process: "exit code 7", or the name of the signal that killed it."""
    if code is None or code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _in_worker(
    learner: int, safe_path: str | None, make_batch: Callable[[], GameBatch]
) -> GameBatch:
    """`make_batch()`; AsyncVectorEnv calls it in each worker, and once in the learner's process.
    `safe_path`: the learner's, for programs that an environment starts."""
    if os.getpid() == learner:
        return make_batch()
    if safe_path is None:
        os.environ.pop(_SAFE_PATH, None)
    # What a terminal or a cluster sends reaches all processes; the learner decides when to stop.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    batch = make_batch()
    # It may have come to this process alone: the learner is told.
    signal.signal(signal.SIGTERM, lambda number, frame: batch.note_stop_request())
    return batch


def _stop(processes: Sequence[Any], pipes: Sequence[Any]) -> None:
    """Tells workers to close their games and to end; kills those that do not."""
    for pipe in pipes:
        with contextlib.suppress(OSError):  # it has ended already
            pipe.send(("close", None))
    deadline = time.monotonic() + _SECONDS_TO_STOP
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0.0))
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
