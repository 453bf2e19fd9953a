"""Many Gymnasium environments at once, played in worker processes.

Each worker steps its share of them one by one: a process per environment would spend its time on
waking up. The interface is `VectorEnv`'s, but the worlds are outside: `step` changes them.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from maskless.envs.gymnasium.env import HostEnvironment, Seen
from maskless.envs.vector import Episodes, First, Step
from maskless.errors import MasklessError

_SECONDS_TO_STOP = 2.0
# A worker leaves the accelerator and the other cores to the learner.
_WORKER_SETTINGS = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}


class HostVectorEnv:
    """`num_envs` copies of a host environment. `close` it, or use it in a `with`: its processes
    end then, and at the latest with this one."""

    def __init__(self, env: HostEnvironment, num_envs: int):
        self.env = env
        self.num_envs = num_envs
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        workers = min(num_envs, (cores or 1) if env.workers is None else env.workers)
        if not workers:
            self._crews: list[Crew | Worker] = [Crew(env, num_envs)]
        else:
            shares = np.array_split(np.arange(num_envs), workers)
            self._crews = [Worker(env, len(share)) for share in shares]
        ends = np.cumsum([crew.count for crew in self._crews])
        self._cuts = ends[:-1]

    def reset(self, seeds: Sequence[Sequence[int]]) -> First:
        """A new episode in every environment. `seeds`: some numbers for each, which decide this
        episode and all that follow."""
        shares = np.split(np.asarray(seeds, np.int64) % 2**32, self._cuts)
        return self._all("reset", shares)

    def step(self, actions: Int[np.ndarray, " envs"]) -> Step:
        """One step of every environment; finished ones begin their next episode. An environment
        with the action -1 is left alone."""
        return self._all("step", np.split(actions, self._cuts))

    def _all(self, method: str, shares: Sequence[np.ndarray]) -> Any:
        try:
            for crew, share in zip(self._crews, shares, strict=True):
                crew.ask(method, share)
            answers = [crew.answer() for crew in self._crews]
        except BaseException:  # whoever is still at work would answer the wrong question next
            self.close()
            raise
        return answers[0] if len(answers) == 1 else _side_by_side(answers)

    def close(self) -> None:
        for crew in self._crews:
            crew.close()

    def __enter__(self) -> "HostVectorEnv":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Crew:
    """Some environments in this process, stepped one after the other."""

    def __init__(self, env: HostEnvironment, count: int):
        self.count = count
        self._id = env.id
        self._games = [env.play() for _ in range(count)]
        self._seen: list[Seen] = []
        self._answer: Any = None

    def ask(self, method: str, share: np.ndarray) -> None:
        """Does it; `answer` gives the result."""
        try:
            self._answer = getattr(self, method)(share)
        except MasklessError:
            raise
        except Exception as error:  # anything can go wrong in other people's environments
            raise MasklessError(_sentence(self._id, method, error)) from error

    def answer(self) -> Any:
        return self._answer

    def reset(self, seeds: Int[np.ndarray, "envs numbers"]) -> First:
        self._dice = [np.random.default_rng(numbers.tolist()) for numbers in seeds]
        zeros: Any = np.zeros(self.count, np.int32)
        self._episodes = Episodes(zeros.astype(np.float32), zeros, zeros)
        self._seen = [self._new_episode(number) for number in range(self.count)]
        return First(*_stack(self._seen))

    def step(self, actions: Int[np.ndarray, " envs"]) -> Step:
        reward: Any = np.zeros(self.count, np.float32)
        ended: Any = np.zeros((2, self.count), bool)
        terminated, truncated = ended
        finals = [observation for observation, _ in self._seen]
        for number, action in enumerate(actions):
            if action < 0:
                continue
            seen, finals[number], *outcome = self._games[number].step(action)
            reward[number], terminated[number], truncated[number] = outcome
            self._seen[number] = self._new_episode(number) if seen is None else seen
        done = terminated | truncated
        episodes = dataclasses.replace(
            self._episodes,
            returns=self._episodes.returns + reward,
            lengths=self._episodes.lengths + (actions >= 0).astype(np.int32),
        )
        self._episodes = jax.tree.map(lambda x: np.where(done, x.dtype.type(0), x), episodes)
        observation, mask = _stack(self._seen)
        return Step(
            observation=observation,
            mask=mask,
            reward=reward,
            done=done,
            terminated=terminated,
            truncated=truncated,
            # The same object where nothing ended: it is then sent to the learner once.
            final_observation=_stack(finals) if done.any() else observation,
            episodes=episodes,
        )

    def _new_episode(self, number: int) -> Seen:
        return self._games[number].reset(int(self._dice[number].integers(2**31)))

    def close(self) -> None:
        for game in self._games:
            game.close()
        self._games = []


class Worker:
    """A crew in a process of its own."""

    def __init__(self, env: HostEnvironment, count: int):
        self.count = count
        self._id = env.id
        context = multiprocessing.get_context("spawn")  # a fork would copy JAX's locks
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=_work, args=(far_end, env, count), daemon=True)
        with _environment_variables(_WORKER_SETTINGS):
            try:
                self._process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise MasklessError(
                    f"{self._id} cannot be sent to a worker process ({error}): register it with a"
                    " class that can be imported, or give the option workers=0."
                ) from error
        far_end.close()  # so that the end of the process is the end of the pipe
        self.close = Finalize(self, _stop, (self._process, self._pipe), exitpriority=10)

    def ask(self, method: str, share: np.ndarray) -> None:
        with self._naming_the_dead():
            self._pipe.send((method, share))

    def answer(self) -> Any:
        with self._naming_the_dead():
            answer = self._pipe.recv()
        if isinstance(answer, Failure):
            raise MasklessError(answer.sentence) from RuntimeError(answer.trace)
        return answer

    @contextlib.contextmanager
    def _naming_the_dead(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            self._process.join(_SECONDS_TO_STOP)
            raise MasklessError(
                f"A worker process of {self._id} died (exit code {self._process.exitcode}): the"
                " environment crashed it, or the memory is full; try the option workers=0 or fewer"
                " environments."
            ) from error


@dataclasses.dataclass(frozen=True)
class Failure:
    """What a worker says when its environment cannot go on."""

    sentence: str
    trace: str


def _work(pipe: Connection, env: HostEnvironment, count: int) -> None:
    """The life of a worker: it ends when the other end of the pipe is closed."""
    # Ctrl-C reaches all processes of a terminal, but the learner decides when to stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    crew = None
    with contextlib.suppress(OSError):
        try:
            crew = Crew(env, count)
            while (request := _next(pipe)) is not None:
                crew.ask(*request)
                pipe.send(crew.answer())
        except MasklessError as error:
            pipe.send(Failure(str(error), traceback.format_exc()))
        except Exception as error:
            pipe.send(Failure(_sentence(env.id, "its constructor", error), traceback.format_exc()))
        finally:
            if crew is not None:
                crew.close()


def _next(pipe: Connection) -> tuple[str, np.ndarray] | None:
    """The next request; None: there will be none."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


def _sentence(id: str, where: str, error: Exception) -> str:
    reason = " ".join(str(error).split()).rstrip(".")
    return (
        f"{id} failed in {where} ({type(error).__name__}: {reason}): mend the environment, or leave"
        " out what leads there."
    )


def _stop(process: Any, pipe: Connection) -> None:
    pipe.close()
    process.join(_SECONDS_TO_STOP)
    if process.is_alive():  # in the middle of a long step
        process.kill()
        process.join()


@contextlib.contextmanager
def _environment_variables(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stack(parts: Sequence[Any]) -> Any:
    """One more axis in front."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)


def _side_by_side(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
