"""Training and evaluation where the worlds are Gymnasium environments: the network, the masks and
the learner are those of every other run; only the stepping happens outside of JAX."""

import dataclasses
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import masking
from maskless.conditions import Condition, condition
from maskless.config import Config
from maskless.envs.base import Environment, Observation
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.envs.gymnasium.vector import HostVectorEnv
from maskless.envs.vector import First, Step
from maskless.errors import MasklessError
from maskless.nets import Heads
from maskless.ppo.learner import TrainState
from maskless.ppo.rollout import Actor, Rollout, applied_mask, look
from maskless.training.program import Program, together

OUTSIDE: Any = ()
"""In the place of the worlds: they are in other processes, and in no state."""


@struct.dataclass
class Choice:
    """What one run's network says and does about what its environments show."""

    carry: Any
    heads: Heads
    applied: Bool[Array, "envs actions"]
    action: Int[Array, " envs"]
    log_prob: Float[Array, " envs"]


class HostProgram(Program):
    """All runs of a configuration on one host environment: one compiled call chooses the actions
    of all runs, one learns from their rollouts.

    The worlds are in processes and in no checkpoint: the first `advance` of a program, after a
    resumption too, begins new episodes. `close` it when done.
    """

    resumes_exactly: ClassVar[bool] = False

    def __init__(self, config: Config, env: Environment, *, visit_every: int = 1):
        """`visit_every`: how many updates at most are done between two visits of the host."""
        if not isinstance(env, HostEnvironment):
            raise MasklessError(f"{env.id} is no Gymnasium environment: use Program for it.")
        check_masks(config, env)
        # What takes time are the worlds, on the CPU: more devices would not help.
        super().__init__(config, env, visit_every=visit_every, devices_at_most=1)
        self._env = env
        self._shape = (len(config.runs), config.ppo.num_envs)
        self._worlds: HostVectorEnv | None = None
        self._choose_all = jax.jit(jax.vmap(self._choose, in_axes=(0, 0, 0, 0, None)))
        self._value_all = jax.jit(jax.vmap(self._value))
        self._improve = jax.jit(jax.vmap(self.learner.improve, in_axes=(0, 0, 0, 1, 0)))
        self._split = jax.jit(jax.vmap(partial(jax.random.split, num=3), out_axes=1))

    def advance(self, states: TrainState, updates: int) -> tuple[TrainState, dict[str, np.ndarray]]:
        """The states after `updates` more updates, and the metrics of each. [updates, runs, ...]"""
        if self._worlds is None:
            self._worlds = HostVectorEnv(self._env, int(np.prod(self._shape)))
            states = dataclasses.replace(states, actor=self._new_episodes(states))
        rows = []
        for _ in range(updates):
            key, act_key, learn_key = self._split(states.key)
            actor, rollout = self._collect(states, act_key)
            states, metrics = self._improve(states, self.conditions, actor, rollout, learn_key)
            states = dataclasses.replace(states, key=key)
            rows.append(jax.device_get(metrics))
        return states, {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def prepare(self) -> None:
        """Nothing compiles beforehand: the worlds are processes, and what acts in them is small."""

    def close(self) -> None:
        """Ends the worker processes."""
        if self._worlds is not None:
            self._worlds.close()
            self._worlds = None

    def _init(self, seed: Int[Array, ""]) -> TrainState:
        return self.learner.init(seed, self._nowhere())

    def _nowhere(self) -> Actor:
        """The actor of one run before it has any worlds."""
        envs = self.learner.config.ppo.num_envs
        shapes = self._env.observation_shapes
        return Actor(
            worlds=OUTSIDE,
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
        begun = together([self._nowhere()] * self._shape[0])
        return dataclasses.replace(begun, now=now)

    def _collect(self, states: TrainState, key: PRNGKeyArray) -> tuple[Actor, Rollout]:
        """One rollout of every run. [time, runs, envs, ...]"""
        assert self._worlds is not None
        ppo = self.learner.config.ppo
        actor, steps = states.actor, []
        for number in range(ppo.rollout):
            choice = self._choose_all(states.params, self.conditions, actor, key, number)
            out: Step = self._by_run(self._worlds.step(np.asarray(choice.action).ravel()))
            reward = out.reward
            if ppo.bootstrap_truncated and out.truncated.any():
                after = self._value_all(states.params, choice.carry, out.final_observation)
                reward = reward + ppo.discount * out.truncated * np.asarray(after)
            steps.append(
                Rollout(
                    observation=actor.now.observation,
                    valid=actor.now.mask,
                    applied=choice.applied,
                    reset=actor.reset,
                    action=choice.action,
                    log_prob=choice.log_prob,
                    reward=reward,
                    done=out.done,
                    heads=choice.heads,
                    episodes=out.episodes,
                )
            )
            actor = Actor(OUTSIDE, choice.carry, First(out.observation, out.mask), out.done)
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
        carry, heads = look(self.learner.net, params, actor.carry, now.observation, actor.reset)
        applied = applied_mask(condition, now.mask, heads.validity)
        log_probs = masking.masked_log_softmax(heads.logits, applied)
        action = masking.sample(jax.random.fold_in(key, number), log_probs)
        log_prob = jnp.take_along_axis(log_probs, action[:, None], axis=-1)[:, 0]
        return Choice(carry, heads, applied, action, log_prob)

    def _value(self, params: Any, carry: Any, observation: Observation) -> Float[Array, " envs"]:
        no_reset = jnp.zeros(self._shape[1], bool)
        return look(self.learner.net, params, carry, observation, no_reset)[1].value


def check_masks(config: Config, env: HostEnvironment) -> None:
    """Refuses conditions that need a mask which the environment does not have."""
    if env.has_masks:
        return
    for name in config.conditions:
        if condition(name).masked or condition(name).strength:
            raise MasklessError(
                f"{env.id} has no action masks, which {name!r} learns from: train it with"
                ' --conditions unmasked, or give it env.action_masks(), info["action_mask"] or'
                ' obs["action_mask"].'
            )
