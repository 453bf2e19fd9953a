"""All runs of a configuration, seeds times conditions, as one compiled program."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from maskless.conditions import Condition, condition, stack
from maskless.config import Config
from maskless.envs.base import Environment
from maskless.ppo.learner import Learner, TrainState
from maskless.ppo.update import Metrics


class Program:
    """The runs share every operation on the device; nothing passes between them."""

    resumes_exactly: ClassVar[bool] = True
    """Whether saved states lead to the very same numbers as if training had never stopped."""

    def __init__(self, config: Config, env: Environment, *, visit_every: int = 1):
        """`visit_every`: how many updates at most are done between two visits of the host."""
        self.learner = Learner(config, env)
        self.conditions = stack([condition(name) for name, _ in config.runs])
        self.seeds = jnp.array([seed for _, seed in config.runs])
        self.visit_every = visit_every
        self._start = jax.jit(jax.vmap(self._init))
        # The old states are given up, so that two copies of all worlds never exist at once.
        self._advance = jax.jit(self._updates, donate_argnums=0)

    def start(self) -> TrainState:
        """The states of all runs before the first update. [runs, ...]"""
        return self._start(self.seeds)

    def like(self) -> TrainState:
        """Shapes and types of one run's state."""
        return jax.eval_shape(self._init, jax.ShapeDtypeStruct((), jnp.int32))

    def advance(self, states: TrainState, updates: int) -> tuple[TrainState, dict[str, np.ndarray]]:
        """The states after `updates` more updates, and the metrics of each. [updates, runs, ...]

        `states` is used up. How the updates are divided between calls changes no number.
        """
        states, buffers = self._advance(states, self.conditions, jnp.int32(updates))
        return states, {name: np.asarray(b)[:updates] for name, b in buffers.items()}

    def close(self) -> None:
        """Gives back what is held outside of JAX: nothing here."""

    def _init(self, seed: Int[Array, ""]) -> TrainState:
        return self.learner.init(seed)

    def _updates(
        self, states: TrainState, conditions: Condition, count: Int[Array, ""]
    ) -> tuple[TrainState, Metrics]:
        # `count` is traced: every number of updates is the same program, so that a resumed run
        # cannot be rounded differently from one that was never stopped.
        update = jax.vmap(self.learner.update)
        _, shapes = jax.eval_shape(update, states, conditions)
        buffers = jax.tree.map(lambda x: jnp.zeros((self.visit_every, *x.shape), x.dtype), shapes)

        def one(number: Array, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
            states, buffers = carry
            states, metrics = update(states, conditions)
            return states, jax.tree.map(lambda b, m: b.at[number].set(m), buffers, metrics)

        return jax.lax.fori_loop(0, count, one, (states, buffers))


def of_run(states: Any, run: int) -> Any:
    """One run's part of what is stacked over runs."""
    return jax.tree.map(lambda x: x[run], states)


def together(states: list[Any]) -> Any:
    """Many runs' states as one, stacked."""
    return jax.tree.map(lambda *parts: jnp.stack(parts), *states)
