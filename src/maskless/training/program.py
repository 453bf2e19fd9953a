"""All runs of a configuration, seeds times conditions, as one compiled program."""

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from maskless.conditions import Condition, condition, numbers, stack
from maskless.config import Config
from maskless.ppo.learner import Learner, TrainState
from maskless.ppo.update import Metrics
from maskless.training import devices
from maskless.training.devices import RUNS
from maskless.training.request import Request


class Program:
    """The runs share every operation on a device; nothing passes between them. With more than one
    device, `mesh` says which does what (see `maskless.training.devices`)."""

    resumes_exactly: ClassVar[bool] = True
    """Whether saved states lead to the very same numbers as if training had never stopped."""
    stop_sentence: str | None = None
    """Why the training should stop, when what the program is made of was asked to."""

    def __init__(
        self,
        request: Request,
        *,
        chunk: int = 1,
        devices_at_most: int | None = None,
    ):
        """`chunk`: how many updates at most are one call of `advance`; `devices_at_most`: of each
        process, by default all."""
        config = request.config
        self.learner = Learner(config, request.env, request.net, request.optimizer)
        self.conditions = stack([condition(name) for name, _ in config.runs])
        self.numbers = varying_numbers(config)
        self.seeds = jnp.array([seed for _, seed in config.runs])
        self.chunk = chunk
        self._start: Any
        self._advance: Any
        self.mesh = devices.mesh_for(len(config.runs), config.ppo.num_envs, at_most=devices_at_most)
        if self.mesh is None:
            self._start = jax.jit(jax.vmap(self._init))
            # The old states are given up, so that two copies of all worlds never exist at once.
            self._advance = jax.jit(self._updates, donate_argnums=0)
        else:
            self._compile_for(self.mesh)

    def _compile_for(self, mesh: jax.sharding.Mesh) -> None:
        """The same two programs, divided."""
        self._shardings = devices.state_shardings(mesh, self.like())
        by_run, whole = NamedSharding(mesh, P(RUNS)), NamedSharding(mesh, P())
        self.seeds = devices.place(self.seeds, by_run)
        self.conditions, self.numbers = jax.tree.map(
            lambda x: devices.place(x, by_run), (self.conditions, self.numbers)
        )
        self._start = jax.jit(
            devices.split_runs(mesh, jax.vmap(self._init), P(RUNS), P(RUNS)),
            in_shardings=by_run,
            out_shardings=self._shardings,
        )
        self._advance = jax.jit(
            devices.split_runs(
                mesh, self._updates, (P(RUNS), P(RUNS), P(RUNS), P()), (P(RUNS), P(None, RUNS))
            ),
            donate_argnums=0,
            in_shardings=(self._shardings, by_run, by_run, whole),
            out_shardings=(self._shardings, whole),
        )
        self._one_run = jax.jit(of_run, out_shardings=whole)

    def _over_mesh(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext() if self.mesh is None else jax.set_mesh(self.mesh)

    def start(self) -> TrainState:
        """The states of all runs before the first update. [runs, ...]"""
        with self._over_mesh():
            return self._start(self.seeds)

    def prepare(self) -> None:
        """Compiles what a training needs, where two programs compile faster side by side: beside
        an accelerator there are cores to spare."""
        if jax.default_backend() != "cpu" and self.mesh is None:
            self.compile()

    def compile(self) -> jax.stages.Compiled:
        """Compiles the start and the updates side by side; gives the program of the updates.
        Without this, each compiles when it is first needed."""
        with self._over_mesh():
            states = jax.eval_shape(self._start, self.seeds)
            lowered = (
                self._start.lower(self.seeds),
                self._advance.lower(states, self.conditions, self.numbers, np.int32(1)),
            )
        with ThreadPoolExecutor(2) as pool:
            self._start, self._advance = pool.map(lambda program: program.compile(), lowered)
        return self._advance

    def start_from(self, saved: Sequence[TrainState]) -> TrainState:
        """The same from the saved state of each run."""
        if self.mesh is None:
            return stack_runs(saved)
        return devices.place(jax.tree.map(_stack_on_host, *saved), self._shardings)

    def like(self) -> TrainState:
        """Shapes and types of one run's state."""
        return jax.eval_shape(self._init, jax.ShapeDtypeStruct((), jnp.int32))

    def advance(self, states: TrainState, updates: int) -> tuple[TrainState, dict[str, np.ndarray]]:
        """The states after `updates` more updates, and the metrics of each. [updates, runs, ...]

        `states` is used up. How the updates are divided between calls changes no number.
        """
        with self._over_mesh():
            states, buffers = self._advance(
                states, self.conditions, self.numbers, np.int32(updates)
            )
        return states, {name: np.asarray(b)[:updates] for name, b in buffers.items()}

    def fetch_run(self, states: Any, run: int) -> Any:
        """One run's part of what is stacked over runs, in this process's memory. All processes
        must ask for it."""
        if self.mesh is None:
            return jax.device_get(of_run(states, run))
        with self._over_mesh():
            return devices.fetch(self._one_run(states, np.int32(run)))

    def close(self) -> None:
        """Gives back what is held outside of JAX: nothing here."""

    def _init(self, seed: Int[Array, ""]) -> TrainState:
        return self.learner.init(seed)

    def _updates(
        self,
        states: TrainState,
        conditions: Condition,
        numbers: Mapping[str, Float[Array, " runs"]],
        count: Int[Array, ""],
    ) -> tuple[TrainState, Metrics]:
        # `count` is traced: every number of updates is the same program, so that a resumed run
        # cannot be rounded differently from one that was never stopped.
        update = jax.vmap(self.learner.update)
        _, shapes = jax.eval_shape(update, states, conditions, numbers)
        buffers = jax.tree.map(lambda x: jnp.zeros((self.chunk, *x.shape), x.dtype), shapes)

        def one(number: Array, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
            states, buffers = carry
            states, metrics = update(states, conditions, numbers)
            return states, jax.tree.map(lambda b, m: b.at[number].set(m), buffers, metrics)

        return jax.lax.fori_loop(0, count, one, (states, buffers))


def varying_numbers(config: Config) -> dict[str, Array]:
    """The hyperparameters in which runs differ, one value for each. Those that are the same for
    all stay constants of the compiled program. {name: [runs]}"""
    own = [numbers(name) for name, _ in config.runs]
    return {
        field: jnp.array([run.get(field, getattr(config.ppo, field)) for run in own], jnp.float32)
        for field in sorted({field for run in own for field in run})
    }


def of_run(states: Any, run: int | Int[Array, ""]) -> Any:
    """One run's part of what is stacked over runs."""
    return jax.tree.map(lambda x: x[run], states)


def stack_runs(states: Sequence[Any]) -> Any:
    """Many runs' states as one."""
    return jax.tree.map(lambda *parts: jnp.stack(parts), *states)


def _stack_on_host(*parts: Any) -> Any:
    """One device alone may not have room for what is then divided. Keys are JAX's, but small."""
    return np.stack(parts) if isinstance(parts[0], np.ndarray) else jnp.stack(parts)
