"""One update: act, estimate advantages, learn. A pure function of its state, so that many runs
are one vmap away."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Float, Int, PRNGKeyArray

from maskless.conditions import Condition
from maskless.config import Config
from maskless.diagnostics import classifier, correlation, suppression
from maskless.envs.base import Environment
from maskless.envs.vector import VectorEnv
from maskless.nets import make_net
from maskless.ppo import rnd
from maskless.ppo.advantages import gae
from maskless.ppo.rollout import Actor, Rollout, apply, collect, look, start
from maskless.ppo.update import Batch, Metrics, learn, make_optimizer


@struct.dataclass
class TrainState:
    """Everything that changes from update to update. With the config it decides what follows."""

    key: PRNGKeyArray
    update: Int[Array, ""]
    """Updates done."""
    params: Any
    optimizer: Any
    novelty: rnd.Novelty | None
    actor: Actor
    suppression: suppression.Suppression
    correlation: correlation.Correlation


class Learner:
    """What stays the same in a run: the environments, the network, the numbers."""

    def __init__(self, config: Config, env: Environment):
        self.config = config
        self.env = env
        self.venv = VectorEnv(env, config.ppo.num_envs, observe=env.record)
        self.observation = env.observation_shapes
        self.net = make_net(
            config.net,
            num_actions=env.num_actions,
            encoder=env.encoder,
            width=config.width,
            precision=config.precision,
        )
        self.optimizer = make_optimizer(config.ppo, config.updates)

    def init(self, seed: int | Int[Array, ""], actor: Actor | None = None) -> TrainState:
        """The state before the first update; in new worlds, unless an `actor` is given."""
        key, net_key, novelty_key, world_key = jax.random.split(jax.random.key(seed), 4)
        actor = start(self.venv, self.net, world_key) if actor is None else actor
        sequence = jax.tree.map(lambda x: x[None, :1], (actor.now.observation, actor.reset))
        carry = self.net.initial_carry(1)
        params = self.net.init(net_key, carry, *sequence)
        _, heads = jax.eval_shape(partial(apply, self.net), params, carry, *sequence)
        return TrainState(
            key=key,
            update=jnp.int32(0),
            params=params,
            optimizer=self.optimizer.init(params),
            novelty=rnd.init(self.config.ppo, novelty_key, self.env.encoder, sequence[0])
            if self.config.ppo.rnd
            else None,
            actor=actor,
            suppression=suppression.init(self.env.num_actions),
            correlation=correlation.init(
                self.env.num_actions, heads.features.shape[-1], heads.hidden.shape[-1]
            ),
        )

    def update(self, state: TrainState, condition: Condition) -> tuple[TrainState, Metrics]:
        """One rollout, and what is learned from it."""
        key, act_key, learn_key, world_key = jax.random.split(state.key, 4)
        ppo = self.config.ppo
        actor, rollout = collect(
            self.venv,
            self.net,
            state.params,
            condition,
            state.actor,
            act_key,
            steps=ppo.rollout,
            truncation_discount=ppo.discount if ppo.bootstrap_truncated else None,
        )
        state, metrics = self.improve(state, condition, actor, rollout, learn_key)
        metrics["levels_repeated"] = actor.worlds.levels_repeated
        actor = dataclasses.replace(actor, worlds=self.venv.refresh(world_key, actor.worlds))
        return dataclasses.replace(state, key=key, actor=actor), metrics

    def improve(
        self,
        state: TrainState,
        condition: Condition,
        actor: Actor,
        rollout: Rollout,
        key: PRNGKeyArray,
    ) -> tuple[TrainState, Metrics]:
        """Learns from a rollout that began at `state.actor` and led to `actor`."""
        ppo = self.config.ppo
        learn_key, novelty_key = jax.random.split(key)
        novelty, bonus = state.novelty, None
        if novelty is not None:
            novelty, bonus = rnd.reward_novelty(ppo, self.net, novelty, rollout, actor, novelty_key)
        batch = self._batch(state, actor, rollout, bonus)
        params, optimizer, metrics = learn(
            self.net,
            self.optimizer,
            ppo,
            condition,
            state.params,
            state.optimizer,
            batch,
            learn_key,
        )
        metrics |= _episodes(rollout) | _value(rollout, batch)
        metrics["learning_rate"] = self._learning_rate(state.update)
        if novelty is not None and bonus is not None:
            metrics["intrinsic_reward"] = jnp.std(bonus)
            metrics["bonus_spread"] = novelty.spread
        state = dataclasses.replace(
            state,
            update=state.update + 1,
            params=params,
            optimizer=optimizer,
            novelty=novelty,
            actor=actor,
        )
        return self._diagnose(state, condition, rollout, metrics)

    @jax.named_scope("diagnostics")
    def _diagnose(
        self, state: TrainState, condition: Condition, rollout: Rollout, metrics: Metrics
    ) -> tuple[TrainState, Metrics]:
        """Adds what `maskless.diagnostics` sees in the rollout."""
        if not self.config.diagnostics:
            return state, metrics
        heads = rollout.heads
        suppressed, seen = suppression.measure(
            state.suppression,
            heads.logits,
            applied=rollout.applied,
            valid=rollout.valid,
            actions=rollout.action,
            update=state.update,
        )
        correlated, alignment = correlation.measure(
            state.correlation, heads.features, heads.hidden, rollout.valid
        )
        quality = classifier.measure(
            heads.validity, rollout.valid, heads.logits, threshold=condition.threshold
        )
        state = dataclasses.replace(state, suppression=suppressed, correlation=correlated)
        return state, metrics | seen | alignment | quality

    def _batch(
        self, state: TrainState, actor: Actor, rollout: Rollout, bonus: Array | None
    ) -> Batch:
        """The rollout with its advantages and value targets."""
        ppo = self.config.ppo
        _, last = look(self.net, state.params, actor.carry, actor.now.observation, actor.reset)
        advantages = gae(
            rollout.reward,
            rollout.heads.value,
            rollout.done,
            last.value,
            discount=ppo.discount,
            gae_lambda=ppo.gae_lambda,
        )
        targets = advantages + rollout.heads.value
        intrinsic_targets = jnp.zeros_like(targets)
        if bonus is not None:
            # Novelty does not end with an episode: what was seen stays seen.
            intrinsic = gae(
                bonus,
                rollout.heads.intrinsic_value,
                jnp.zeros_like(rollout.done),
                last.intrinsic_value,
                discount=ppo.rnd_discount,
                gae_lambda=ppo.gae_lambda,
            )
            intrinsic_targets = intrinsic + rollout.heads.intrinsic_value
            advantages = advantages + ppo.rnd_advantage * intrinsic
        return Batch(rollout, state.actor.carry, advantages, targets, intrinsic_targets)

    def _learning_rate(self, update: Int[Array, ""]) -> Float[Array, ""]:
        """The rate at the beginning of this update."""
        ppo = self.config.ppo
        if not ppo.anneal:
            return jnp.float32(ppo.learning_rate)
        return jnp.float32(
            optax.linear_schedule(ppo.learning_rate, 0.0, self.config.updates)(update)
        )


def _episodes(rollout: Rollout) -> Metrics:
    """Means over the episodes that ended in this rollout; nan when none did."""
    count = rollout.done.sum()

    def mean(numbers: Array) -> Array:
        total = jnp.sum(jnp.where(rollout.done, numbers, 0).astype(jnp.float32))
        return jnp.where(count > 0, total / jnp.maximum(count, 1), jnp.nan)

    return {
        "episodes": count,
        "return": mean(rollout.episodes.returns),
        "length": mean(rollout.episodes.lengths),
        "achievements": mean(rollout.episodes.achievements),
    }


def _value(rollout: Rollout, batch: Batch) -> Metrics:
    """1 - Var(target - V) / Var(target): how much of the returns the value explains."""
    spread = jnp.var(batch.targets)
    unexplained = jnp.var(batch.targets - rollout.heads.value)
    return {"explained_variance": 1.0 - unexplained / jnp.maximum(spread, 1e-8)}
