"""Many environments at once, without paying for resets.

Making a world costs far more than a step in it, and auto-reset makes one for every environment in
every step. Here worlds wait in a pool: `refresh` makes new ones outside the step, once per rollout,
and a finished episode takes the next one. The compiled step contains no world generation.

    venv = VectorEnv(env, num_envs=1024)
    state, first = venv.reset(key)                      # first.observation, first.mask
    state, step = venv.step(key, state, actions)        # jit these two, scan over `step`
    state = venv.refresh(key, state)                    # between rollouts
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import kernels
from maskless.envs.base import Environment, Observation, State
from maskless.errors import MasklessError


@struct.dataclass
class Pool:
    """Levels waiting for an episode to end. A ring: slot `next` is given out next."""

    levels: State  # [pool_size, ...]
    next: Int[Array, ""]
    taken: Int[Array, ""]
    """Levels given out since the last refresh; above the pool's size they repeat."""


@struct.dataclass
class Episodes:
    """Statistics of the episode each environment is in, or has just finished."""

    returns: Float[Array, " envs"]
    lengths: Int[Array, " envs"]
    achievements: Int[Array, " envs"]
    """How many of the game's achievements were reached so far."""


@struct.dataclass
class VectorState:
    """Everything that changes from step to step."""

    states: State  # [num_envs, ...]
    pool: Pool
    episodes: Episodes
    levels_repeated: Int[Array, ""]
    """Episodes that began on a level another one already had, because the pool ran dry."""


@struct.dataclass
class First:
    """What the agent needs to choose its next action; both parts describe the same state."""

    observation: Observation  # [num_envs, ...]
    mask: Bool[Array, "envs actions"]


@struct.dataclass
class Step(First):
    """The outcome of a step. `observation` and `mask` belong to the state after any reset."""

    reward: Float[Array, " envs"]
    done: Bool[Array, " envs"]
    terminated: Bool[Array, " envs"]
    """The game ended the episode (death, victory): the value of what follows is zero."""
    truncated: Bool[Array, " envs"]
    """The time limit ended it: bootstrap from `final_observation`."""
    final_observation: Observation
    """Before any reset. Costs nothing when it is not used: the compiler drops it."""
    episodes: Episodes
    """Including this step; where `done`, these are the finished episode's final numbers."""


class VectorEnv:
    """`num_envs` copies of an environment and a pool of fresh levels for them."""

    def __init__(
        self,
        env: Environment,
        num_envs: int,
        pool_size: int | None = None,
        *,
        observe: Callable[[State], Observation] | None = None,
    ):
        """`pool_size`: how many episodes may end between two refreshes before levels repeat;
        by default one per environment. `observe`: what to show of a state, by default
        `env.observe`; a learner takes `env.record`."""
        self.env = env
        self._observe = jax.vmap(env.observe if observe is None else observe)
        self.num_envs = num_envs
        self.pool_size = num_envs if pool_size is None else pool_size
        for name in ("num_envs", "pool_size"):
            if getattr(self, name) < 1:
                raise MasklessError(f"{name} must be at least 1, not {getattr(self, name)}.")

    def reset(self, key: PRNGKeyArray, params: Any = None) -> tuple[VectorState, First]:
        """Starts every environment on a level of its own and fills the pool."""
        levels = self._make_levels(key, self.num_envs + self.pool_size, params)
        states = jax.tree.map(lambda x: x[: self.num_envs], levels)
        zeros = jnp.zeros(self.num_envs, jnp.int32)
        state = VectorState(
            states=states,
            pool=Pool(
                levels=jax.tree.map(lambda x: x[self.num_envs :], levels),
                next=jnp.int32(0),
                taken=jnp.int32(0),
            ),
            episodes=Episodes(zeros.astype(jnp.float32), zeros, zeros),
            levels_repeated=jnp.int32(0),
        )
        return state, First(*self._look(states, params))

    @jax.named_scope("environment")
    def step(
        self,
        key: PRNGKeyArray,
        state: VectorState,
        actions: Int[Array, " envs"],
        params: Any = None,
    ) -> tuple[VectorState, Step]:
        """One step of every environment; finished ones continue on a level from the pool."""
        if jnp.shape(actions) != (self.num_envs,):
            raise MasklessError(
                f"{self.num_envs} environments need an action each, of shape ({self.num_envs},);"
                f" got shape {jnp.shape(actions)}."
            )
        self.env.check_action(actions)
        keys = jax.random.split(key, self.num_envs)
        _, states, reward, done, info = jax.vmap(self.env.step, in_axes=(0, 0, 0, None))(
            keys, state.states, actions, params
        )
        reward = reward.astype(jnp.float32)
        truncated = info.get("truncated", jnp.zeros_like(done))
        episodes = Episodes(
            returns=state.episodes.returns + reward,
            lengths=state.episodes.lengths + 1,
            achievements=jax.vmap(self.env.achievements)(states).sum(-1, dtype=jnp.int32),
        )
        final_observation = self._observe(states)
        states, pool = self._restart(states, done, state.pool)
        repeated = jnp.maximum(pool.taken - self.pool_size, 0) - jnp.maximum(
            state.pool.taken - self.pool_size, 0
        )
        observation, mask = self._look(states, params)
        new_state = VectorState(
            states=states,
            pool=pool,
            episodes=jax.tree.map(lambda x: jnp.where(done, 0, x), episodes),
            levels_repeated=state.levels_repeated + repeated,
        )
        return new_state, Step(
            observation=observation,
            mask=mask,
            reward=reward,
            done=done,
            terminated=done & ~truncated,
            truncated=truncated,
            final_observation=final_observation,
            episodes=episodes,
        )

    @jax.named_scope("new levels")
    def refresh(self, key: PRNGKeyArray, state: VectorState, params: Any = None) -> VectorState:
        """Replaces the levels that were taken. The others wait on, so each is played once."""
        pool = state.pool
        batch = min(self._levels_at_a_time(), self.pool_size)
        used = jnp.minimum(pool.taken, self.pool_size)

        def make_some(carry: tuple[Array, State]) -> tuple[Array, State]:
            made, levels = carry
            number = made + jnp.arange(batch)
            slots = (pool.next - used + number) % self.pool_size
            fresh = self._make_levels(jax.random.fold_in(key, made), batch, params)
            return made + batch, _replace(levels, slots, fresh, where=number < used)

        _, levels = jax.lax.while_loop(
            lambda carry: carry[0] < used, make_some, (jnp.int32(0), pool.levels)
        )
        return dataclasses.replace(state, pool=Pool(levels, pool.next, jnp.int32(0)))

    def _restart(self, states: State, done: Bool[Array, " envs"], pool: Pool) -> tuple[State, Pool]:
        """Moves finished environments to the next levels, in the order of their numbers."""
        count = done.sum(dtype=jnp.int32)
        slots = (pool.next + jnp.cumsum(done) - 1) % self.pool_size
        states = restart(states, done, pool.levels, slots)
        return states, Pool(pool.levels, (pool.next + count) % self.pool_size, pool.taken + count)

    def _look(self, states: State, params: Any) -> tuple[Observation, Bool[Array, "envs actions"]]:
        """Observation and mask of the same states: the only place where they are paired."""
        mask = jax.vmap(self.env.validity, in_axes=(0, None))(states, params)
        return self._observe(states), mask

    def _levels_at_a_time(self) -> int:
        on_cpu = jax.default_backend() == "cpu"
        return self.env.levels_at_a_time if on_cpu else self.env.levels_at_a_time_on_accelerators

    def _make_levels(self, key: PRNGKeyArray, count: int, params: Any) -> State:
        batch = min(self._levels_at_a_time(), count)
        batches = -(-count // batch)  # rounded up; what is made too much is dropped
        keys = jax.random.split(key, (batches, batch))
        _, levels = jax.lax.map(jax.vmap(lambda key: self.env.reset(key, params)), keys)
        levels = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:count], levels)
        # Upstream marks some fields as weakly typed after a reset but not after a step; a carry
        # through `scan` must not change its type.
        return jax.tree.map(lambda x: jax.lax.convert_element_type(x, jnp.asarray(x).dtype), levels)


@kernels.dispatch
def restart(
    states: State, done: Bool[Array, " envs"], levels: State, slots: Int[Array, " envs"]
) -> State:
    """levels[slots] for the environments that are done, `states` for the others.

    A choice between the two, without a loop and without a question for the host: XLA fuses it with
    the writing of the step itself.
    """
    # The others read the first level, always the same and so in the cache.
    read = jnp.where(done, slots, 0)

    def one(state: Array, level: Array) -> Array:
        finished = done.reshape(-1, *[1] * (state.ndim - 1))
        return jnp.where(finished, level[read], state)

    return jax.tree.map(one, states, levels)


def _replace(target: State, index: Array, source: State, where: Bool[Array, " batch"]) -> State:
    """target[index] = source, for the entries of `index` where `where`."""

    def one(target: Array, source: Array) -> Array:
        outside = target.shape[0]  # an index that `drop` ignores
        return target.at[jnp.where(where, index, outside)].set(source, mode="drop")

    return jax.tree.map(one, target, source)
