"""Training where the worlds are Gymnasium environments: the network, the masks and the learner are
those of every other run; only the stepping happens outside of JAX."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from maskless import failures
from maskless.conditions import Condition
from maskless.envs.base import Observation
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.envs.gymnasium.vector import ANSWER_SECONDS, HostVectorEnv
from maskless.envs.vector import First, Step
from maskless.nets import Heads
from maskless.ppo.acting import Act, act
from maskless.ppo.learner import TrainState
from maskless.ppo.rollout import Actor, Rollout, after_step, apply_step, failures_after
from maskless.training.program import Program, stack_runs
from maskless.training.request import Request

NO_WORLDS: Any = ()
"""In the place of `Actor.worlds`: these worlds are in other processes, and in no state."""


@struct.dataclass
class Choice:
    """What one run's network makes of an observation of each of its environments."""

    carry: Any
    heads: Heads
    act: Act


class GymnasiumProgram(Program):
    """All runs of a configuration on one host environment: one compiled call chooses the actions
    of all runs, one learns from their rollouts.

    The worlds are in processes and in no checkpoint: the first `advance` of a program, after a
    resumption too, begins new episodes. `close` it when done.
    """

    resumes_exactly: ClassVar[bool] = False

    def __init__(self, request: Request, *, chunk: int = 1, answer_seconds: float = ANSWER_SECONDS):
        """`answer_seconds`: how long a worker process may take for one answer."""
        # What takes time are the worlds, on the CPU: more devices would not help.
        super().__init__(request, chunk=chunk, devices_at_most=1)
        assert isinstance(request.env, HostEnvironment)
        self._env: HostEnvironment = request.env
        self._shape = (len(request.config.runs), request.config.ppo.num_envs)
        self._worlds: HostVectorEnv | None = None
        self._answer_seconds = answer_seconds
        self._choose_all = jax.jit(jax.vmap(self._choose, in_axes=(0, 0, 0, 0, None)))
        self._value_all = jax.jit(jax.vmap(self._value))
        self._update_all = jax.jit(jax.vmap(self.learner.update, in_axes=(0, 0, 0, (0, 1))))
        self._asks_for_effects = self.conditions.uses("tried")
        self._seen_all = jax.jit(jax.vmap(self._seen))
        self._acting_conditions = jax.jit(
            lambda states: jax.vmap(self.learner.acting_condition)(states, self.conditions)
        )
        self._act_keys = jax.jit(jax.vmap(lambda key: jax.random.split(key, 4)[1]))

    def advance(self, states: TrainState, updates: int) -> tuple[TrainState, dict[str, np.ndarray]]:
        """The states after `updates` more updates, and the metrics of each. [updates, runs, ...]"""
        if self._worlds is None:
            self._worlds = HostVectorEnv(
                self._env, int(np.prod(self._shape)), answer_seconds=self._answer_seconds
            )
            states = dataclasses.replace(states, actor=self._new_episodes(states))
        rows = []
        for _ in range(updates):
            collected = self._collect(states, self._act_keys(states.key))
            states, metrics = self._update_all(states, self.conditions, self.numbers, collected)
            rows.append(jax.device_get(metrics))
        self.stop_sentence = self._worlds.told_to_stop
        return states, {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def prepare(self) -> None:
        """Nothing compiles in advance: the worlds are processes, and what acts in them is small."""

    def close(self) -> None:
        """Ends the worker processes."""
        if self._worlds is not None:
            self._worlds.close()
            self._worlds = None

    def _init(self, seed: Int[Array, ""]) -> TrainState:
        return self.learner.init(seed, self._blank_actor())

    def _blank_actor(self) -> Actor:
        """The actor of one run before it has any worlds."""
        envs = self.learner.config.ppo.num_envs
        shapes = self._env.observation_shapes
        return Actor(
            worlds=NO_WORLDS,
            carry=self.learner.net.initial_carry(envs),
            now=First(
                jax.tree.map(lambda x: jnp.zeros((envs, *x.shape), x.dtype), shapes),
                jnp.ones((envs, self._env.num_actions), bool),
            ),
            reset=jnp.ones(envs, bool),
        )

    def _new_episodes(self, states: TrainState) -> Actor:
        assert self._worlds is not None
        # With the update, so that a resumed run does not see the first episodes again.
        numbers = zip(np.asarray(self.seeds), np.asarray(states.update), strict=True)
        seeds = [(*run, env) for run in numbers for env in range(self._shape[1])]
        now = self._by_run(self._worlds.reset(seeds))
        blank = stack_runs([self.learner.with_failures(self._blank_actor())] * self._shape[0])
        return dataclasses.replace(blank, now=now)

    def _collect(self, states: TrainState, key: Key[Array, " runs"]) -> tuple[Actor, Rollout]:
        """One rollout of every run. [runs, ...] and [time, runs, envs, ...]"""
        assert self._worlds is not None
        ppo = self.learner.config.ppo
        actor, steps = states.actor, []
        conditions = self.conditions
        if states.mask_error is not None:
            conditions = self._acting_conditions(states)
        for number in range(ppo.rollout):
            choice = self._choose_all(states.params, conditions, actor, key, number)
            executed = np.asarray(choice.act.executed)
            out: Step = self._by_run(self._worlds.step(executed.ravel()))
            reward = out.reward
            if ppo.bootstrap_truncated and out.truncated.any():
                after = self._value_all(states.params, choice.carry, out.final_observation)
                discount = np.asarray(self.numbers.get("discount", ppo.discount)).reshape(-1, 1)
                reward = reward + discount * out.truncated * np.asarray(after)
            tried, effect = None, None
            if self._asks_for_effects or actor.failures is not None:
                tried, effect = self._seen_all(actor, choice.act, out)
            actor, transition = after_step(
                actor, choice.carry, choice.heads, choice.act, NO_WORLDS, out, reward, tried, effect
            )
            steps.append(transition)
        return actor, jax.tree.map(lambda *leaves: np.stack(leaves), *steps)

    def _by_run(self, flat: Any) -> Any:
        """[runs * envs, ...] -> [runs, envs, ...]"""
        return jax.tree.map(lambda x: x.reshape(*self._shape, *x.shape[1:]), flat)

    def _choose(
        self,
        params: Any,
        condition: Condition,
        actor: Actor,
        key: PRNGKeyArray,
        number: Int[Array, ""],
    ) -> Choice:
        """One run's next actions. `number`: of the step in the rollout."""
        now = actor.now
        carry, heads = apply_step(
            self.learner.net, params, actor.carry, now.observation, actor.reset
        )
        step_key = jax.random.fold_in(key, number)
        return Choice(carry, heads, act(step_key, condition, now.mask, heads, actor.failures))

    def _seen(self, actor: Actor, choice: Act, out: Step) -> tuple[Any, Any]:
        """What one run's agent sees of the outcome: what has been tried in vain so far, and whether
        the action had an effect, where somebody asks."""
        tried = failures_after(self._env, actor, choice, out)
        if not self._asks_for_effects:
            return tried, None
        same = failures.unchanged(
            actor.now.observation, out.final_observation, self._env.clock_fields
        )
        return tried, ~same | out.terminated

    def _value(self, params: Any, carry: Any, observation: Observation) -> Float[Array, " envs"]:
        no_reset = jnp.zeros(self._shape[1], bool)
        return apply_step(self.learner.net, params, carry, observation, no_reset)[1].value
