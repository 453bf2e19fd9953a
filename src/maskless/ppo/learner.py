"""One update: act, estimate advantages, learn. A pure function of its state, so that many runs
are one vmap away."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Float, Int, PRNGKeyArray

from maskless import failures, masking
from maskless.conditions import Condition, stack
from maskless.conditions import condition as named
from maskless.config import Config
from maskless.diagnostics import classifier, clone, correlation, suppression
from maskless.envs.base import Environment
from maskless.envs.prudence import with_prudence
from maskless.envs.vector import First, VectorEnv
from maskless.hyperparameters import Hyperparameters, with_numbers
from maskless.nets import AnyNetwork, RandomNetworkDistillation, apply, is_recurrent
from maskless.ppo import elimination, rnd
from maskless.ppo.acting import CLONE, POLICY, PREDICTED
from maskless.ppo.advantages import gae
from maskless.ppo.labels import with_labels
from maskless.ppo.rollout import Actor, Rollout, apply_step, collect, start
from maskless.ppo.update import Batch, Metrics, adam, gradient_step, minibatches, with_clone

MASK_ERROR_DECAY = 0.8
"""Of the running average of the predicted masks' errors, per update."""
Numbers = Mapping[str, Array]
"""Those of `Hyperparameters` that are this run's own."""
Optimizer = Any
"""An `optax.GradientTransformation`, or a function (hyperparameters, updates) that makes one."""


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
    mask_error: Any = None
    """How far the predicted masks move the policy: the total variation, averaged over past updates.
    None where no condition asks for it."""


class Learner:
    """What stays the same in a run: the environments, the network, the numbers."""

    def __init__(
        self, config: Config, env: Environment, net: AnyNetwork, optimizer: Optimizer = adam
    ):
        self.config, self.env, self.net = config, env, net
        self._optimizer = optimizer
        self.venv = VectorEnv(env, config.ppo.num_envs, observe=env.record)
        dtype = getattr(net, "dtype", None)  # the bonus is computed in the network's precision
        self._rnd = RandomNetworkDistillation(env.encoder, dtype=dtype)
        self._uses = stack([named(name) for name in config.conditions]).uses

    def init(self, seed: int | Int[Array, ""], actor: Actor | None = None) -> TrainState:
        """The state before the first update; in new worlds, unless an `actor` is given."""
        key, net_key, novelty_key, world_key = jax.random.split(jax.random.key(seed), 4)
        actor = start(self.venv, self.net, world_key) if actor is None else actor
        actor = self.with_failures(actor)
        sequence = jax.tree.map(lambda x: x[None, :1], (actor.now.observation, actor.reset))
        carry = self.net.initial_carry(1)
        params: Any = self.net.init(net_key, carry, *sequence)
        _, heads = jax.eval_shape(partial(apply, self.net), params, carry, *sequence)
        ppo = self.config.ppo
        return TrainState(
            key=key,
            update=jnp.int32(0),
            params=params,
            optimizer=self.optimizer(ppo).init(params),
            novelty=rnd.init(ppo, self._rnd, novelty_key, sequence[0]) if ppo.rnd else None,
            actor=actor,
            suppression=suppression.init(self.env.num_actions),
            correlation=correlation.init(
                self.env.num_actions, heads.features.shape[-1], heads.hidden.shape[-1]
            ),
            mask_error=jnp.float32(1.0) if self._uses("tolerance") else None,
        )

    def with_failures(self, actor: Actor) -> Actor:
        """The actor with a memory of failures, where a condition asks for one."""
        if not self._uses("remembers"):
            return actor
        nothing = failures.none_yet(self.config.ppo.num_envs, self.env.num_actions)
        return dataclasses.replace(actor, failures=nothing)

    def acting_condition(self, state: TrainState, condition: Condition) -> Condition:
        """The condition with the share of predicted masks that their errors allow by now."""
        if state.mask_error is None:
            return condition
        trust = 1.0 - state.mask_error / jnp.maximum(condition.tolerance, 1e-6)
        trust = jnp.where(condition.tolerance > 0, jnp.clip(trust, 0.0, 1.0), 1.0)
        share: Any = condition.predicted_share * trust
        return dataclasses.replace(condition, predicted_share=share)

    def update(
        self,
        state: TrainState,
        condition: Condition,
        numbers: Numbers,
        collected: tuple[Actor, Rollout] | None = None,
    ) -> tuple[TrainState, Metrics]:
        """One rollout (or one that was collected outside of JAX, from `state.actor` on), and what
        is learned from it."""
        key, act_key, learn_key, world_key = jax.random.split(state.key, 4)
        learn_key, novelty_key = jax.random.split(learn_key)
        ppo = with_numbers(self.config.ppo, numbers)
        acting = self.acting_condition(state, condition)
        actor, rollout = collected or self._collect(state, acting, ppo, act_key)
        rollout = with_labels(jax.random.fold_in(learn_key, 1), condition, rollout)
        novelty, bonus = state.novelty, None
        if novelty is not None:
            novelty, bonus = rnd.reward_novelty(
                ppo, self._rnd, novelty, rollout, actor, novelty_key
            )
        batch = self._batch(ppo, condition, state, actor, rollout, bonus)
        with jax.named_scope("learning"):
            samples = batch if is_recurrent(self.net) else batch.flat()
            (params, optimizer), terms = jax.lax.scan(
                partial(gradient_step, self.net, self.optimizer(ppo), ppo, condition, samples),
                (state.params, state.optimizer),
                minibatches(learn_key, samples.advantages.shape[1], ppo),
            )
        metrics = jax.tree.map(jnp.mean, terms) | _episodes(rollout) | _value(rollout, batch)
        if condition.uses("ridge"):
            params = elimination.refit(condition, params, rollout.heads.features, rollout.valid)
        metrics["learning_rate"] = self._learning_rate(ppo, state.update)
        metrics["states_without_valid"] = jnp.mean(~rollout.valid.any(-1))
        if novelty is not None and bonus is not None:
            metrics["intrinsic_reward"] = jnp.std(bonus)
            metrics["bonus_spread"] = novelty.spread
        state = dataclasses.replace(
            state,
            key=key,
            update=state.update + 1,
            params=params,
            optimizer=optimizer,
            novelty=novelty,
            actor=actor,
        )
        state, metrics = self._follow_masks(state, condition, rollout, metrics)
        state, metrics = self._diagnose(state, condition, rollout, metrics)
        return (state, metrics) if collected else self._refresh_levels(state, metrics, world_key)

    def optimizer(self, ppo: Hyperparameters) -> optax.GradientTransformation:
        """The optimiser of a run with these numbers."""
        own = self._optimizer
        if not isinstance(own, optax.GradientTransformation):
            own = own(ppo, self.config.updates)
        if not getattr(self.net, "cloned", False):
            return own
        return with_clone(own, adam(ppo, self.config.updates))

    def _collect(
        self, state: TrainState, condition: Condition, ppo: Hyperparameters, key: PRNGKeyArray
    ) -> tuple[Actor, Rollout]:
        venv, actor = self.venv, state.actor
        if condition.uses("prudence"):
            venv, actor = self._under_own_masks(condition, actor)
        return collect(
            venv,
            self.net,
            state.params,
            condition,
            actor,
            key,
            steps=ppo.rollout,
            truncation_discount=ppo.discount if ppo.bootstrap_truncated else None,
        )

    def _under_own_masks(self, condition: Condition, actor: Actor) -> tuple[VectorEnv, Actor]:
        """The environments, and where acting stands in them, under masks of this condition's own
        parts."""
        env = with_prudence(self.env, condition.prudence)
        venv = VectorEnv(env, self.config.ppo.num_envs, observe=env.record)
        mask = jax.vmap(env.validity)(actor.worlds.states)
        return venv, dataclasses.replace(actor, now=First(actor.now.observation, mask))

    def _refresh_levels(
        self, state: TrainState, metrics: Metrics, key: PRNGKeyArray
    ) -> tuple[TrainState, Metrics]:
        """New levels in the place of those that were used up."""
        metrics["levels_repeated"] = state.actor.worlds.levels_repeated
        worlds = self.venv.refresh(key, state.actor.worlds)
        actor = dataclasses.replace(state.actor, worlds=worlds)
        return dataclasses.replace(state, actor=actor), metrics

    def _follow_masks(
        self, state: TrainState, condition: Condition, rollout: Rollout, metrics: Metrics
    ) -> tuple[TrainState, Metrics]:
        """Keeps account of how wrong the predicted masks are, and of what is done about it."""
        if state.mask_error is None:
            return state, metrics
        metrics["predicted_share"] = jnp.asarray(
            self.acting_condition(state, condition).predicted_share
        )
        predicted = masking.predicted_mask(rollout.heads.validity, condition.threshold)
        under_oracle = masking.masked_log_softmax(rollout.heads.logits, rollout.valid)
        under_prediction = masking.masked_log_softmax(rollout.heads.logits, predicted)
        error = jnp.mean(masking.total_variation(under_oracle, under_prediction))
        error = MASK_ERROR_DECAY * state.mask_error + (1.0 - MASK_ERROR_DECAY) * error
        return dataclasses.replace(state, mask_error=error), metrics

    @jax.named_scope("diagnostics")
    def _diagnose(
        self, state: TrainState, condition: Condition, rollout: Rollout, metrics: Metrics
    ) -> tuple[TrainState, Metrics]:
        """Adds the metrics of `maskless.diagnostics`."""
        if not self.config.diagnostics:
            return state, metrics
        heads = rollout.heads
        suppressed, probabilities = suppression.measure(
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
        if heads.clone is not None:
            metrics = metrics | clone.measure(heads.clone, heads.logits, rollout.valid)
        return state, metrics | probabilities | alignment | quality

    def _batch(
        self,
        ppo: Hyperparameters,
        condition: Condition,
        state: TrainState,
        actor: Actor,
        rollout: Rollout,
        bonus: Float[Array, "time envs"] | None,
    ) -> Batch:
        """The rollout with its advantages and value targets."""
        _, last = apply_step(
            self.net, state.params, actor.carry, actor.now.observation, actor.reset
        )
        reward = rollout.reward
        if condition.uses("penalty"):
            reward = reward - condition.penalty * ~_of_chosen(rollout.valid, rollout.action)
        advantages = gae(
            reward,
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

    def _learning_rate(self, ppo: Hyperparameters, update: Int[Array, ""]) -> Float[Array, ""]:
        """The rate at the beginning of this update; nan: the user's own optimiser knows."""
        if self._optimizer is not adam:
            return jnp.float32(jnp.nan)
        if not ppo.anneal:
            return jnp.float32(ppo.learning_rate)
        return jnp.float32(
            optax.linear_schedule(ppo.learning_rate, 0.0, self.config.updates)(update)
        )


def _of_chosen(values: Array, action: Array) -> Array:
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]


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
        **_returns_by_actor(rollout),
    }


def _returns_by_actor(rollout: Rollout) -> Metrics:
    """Mean return of the episodes that each kind of actor ended, where there are several."""
    if rollout.by is None:
        return {}

    def mean(kind: int) -> Array:
        ended = rollout.done & (rollout.by == kind)
        return jnp.sum(jnp.where(ended, rollout.episodes.returns, 0.0)) / jnp.sum(ended)

    kinds = {"return_policy": POLICY, "return_predicted": PREDICTED, "return_clone": CLONE}
    return {name: mean(kind) for name, kind in kinds.items()}


def _value(rollout: Rollout, batch: Batch) -> Metrics:
    """1 - Var(target - V) / Var(target): how much of the returns the value explains."""
    spread = jnp.var(batch.targets)
    unexplained = jnp.var(batch.targets - rollout.heads.value)
    return {"explained_variance": 1.0 - unexplained / jnp.maximum(spread, 1e-8)}
