"""Evaluation: complete episodes of every environment, under oracle, predicted or no masks."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import masking
from maskless.envs.vector import VectorEnv
from maskless.nets import Network
from maskless.ppo.rollout import Actor, First, look, predicted_mask, start

Masks = Literal["oracle", "predicted", "none"]
MASKS: tuple[Masks, ...] = ("oracle", "predicted", "none")


@struct.dataclass
class EpisodeRecord:
    """One complete episode of every environment. All [envs]."""

    returns: Float[Array, " envs"]
    lengths: Int[Array, " envs"]
    achievements: Int[Array, " envs"]
    invalid: Int[Array, " envs"]
    """Steps that selected an action the oracle calls invalid."""
    changed: Int[Array, " envs"]
    """Steps whose action would have been another one under the oracle's mask (same dice)."""
    wrong: Int[Array, " envs"]
    """Wrong entries of the predicted mask, over all steps and actions."""
    fallbacks: Int[Array, " envs"]
    """Steps in which the predicted mask allowed nothing, so that it was ignored."""
    finished: Bool[Array, " envs"]


def play_episodes(
    venv: VectorEnv,
    net: Network,
    params: Any,
    key: PRNGKeyArray,
    *,
    masks: Masks | Int[Array, ""],
    threshold: float | Float[Array, ""] = 0.5,
    greedy: bool = False,
) -> EpisodeRecord:
    """The first episode of every environment, each played to its end: taking the first episodes
    that *finish* would favour short ones.

    `masks` may also be a position in `MASKS`, which can be traced: one program for all of them.
    """
    which = jnp.asarray(MASKS.index(masks) if isinstance(masks, str) else masks)
    start_key, key = jax.random.split(key)
    actor = start(venv, net, start_key)
    zeros = jnp.zeros(venv.num_envs, jnp.int32)
    record = EpisodeRecord(
        zeros.astype(jnp.float32), zeros, zeros, zeros, zeros, zeros, zeros, zeros.astype(bool)
    )

    def step(carry: tuple[Actor, EpisodeRecord, PRNGKeyArray]) -> Any:
        actor, record, key = carry
        key, act_key, world_key = jax.random.split(key, 3)
        net_carry, heads = look(net, params, actor.carry, actor.now.observation, actor.reset)
        valid = actor.now.mask
        predicted = predicted_mask(heads.validity, threshold)
        applied = jnp.stack([valid, predicted, jnp.ones_like(valid)])[which]

        def choose(mask: Bool[Array, "envs actions"]) -> Int[Array, " envs"]:
            log_probs = masking.masked_log_softmax(heads.logits, mask)
            # The same key for both masks, so that only the mask can change the choice.
            return log_probs.argmax(-1) if greedy else masking.sample(act_key, log_probs)

        action = choose(applied)
        worlds, out = venv.step(world_key, actor.worlds, action)
        going = ~record.finished
        selected = jnp.take_along_axis(valid, action[:, None], axis=-1)[:, 0]
        ends = going & out.done
        record = EpisodeRecord(
            returns=jnp.where(ends, out.episodes.returns, record.returns),
            lengths=jnp.where(ends, out.episodes.lengths, record.lengths),
            achievements=jnp.where(ends, out.episodes.achievements, record.achievements),
            invalid=record.invalid + (going & ~selected),
            changed=record.changed + (going & (action != choose(valid))),
            wrong=record.wrong + going * jnp.sum(predicted != valid, axis=-1, dtype=jnp.int32),
            fallbacks=record.fallbacks + (going & masking.falls_back(applied)),
            finished=record.finished | out.done,
        )
        actor = Actor(worlds, net_carry, First(out.observation, out.mask), reset=out.done)
        return actor, record, key

    _, record, _ = jax.lax.while_loop(
        lambda carry: ~jnp.all(carry[1].finished), step, (actor, record, key)
    )
    return record
