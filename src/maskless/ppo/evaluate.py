"""Playing for evaluation: complete episodes of every environment, under oracle, predicted or no
masks.

    record = play_episodes(venv, net, params, key, masks="predicted", episodes=10)
    record.returns                                       # [envs, episodes]

The same key means the same levels and the same dice, so that modes can be compared episode by
episode. `maskless.evaluation` makes numbers for people of it.
"""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import masking
from maskless.envs.vector import First, VectorEnv
from maskless.nets import Heads, Network
from maskless.ppo.rollout import Actor, look, predicted_mask, start

Masks = Literal["oracle", "predicted", "none"]
MASKS: tuple[Masks, ...] = ("oracle", "predicted", "none")

STEPS = 16
"""Steps between two refreshes of the levels. Only episodes that are shorter than this, on the
average, can begin on a level that another one had."""


@struct.dataclass
class MaskSource:
    """Where the mask that is applied comes from. Arrays, so that one program plays all modes."""

    corrected: Bool[Array, " actions"]
    """True: the oracle says whether this action is valid; False: the classifier does."""
    ignored: Bool[Array, ""]
    """True: no mask is applied."""

    def apply(
        self, valid: Bool[Array, "envs actions"], predicted: Bool[Array, "envs actions"]
    ) -> Bool[Array, "envs actions"]:
        return jnp.where(self.corrected, valid, predicted) | self.ignored


def mask_source(masks: Masks | Int[Array, ""], num_actions: int) -> MaskSource:
    """The source for a mode, or for its position in `MASKS`, which can be traced."""
    which = jnp.asarray(MASKS.index(masks) if isinstance(masks, str) else masks, jnp.int32)
    return MaskSource(jnp.full(num_actions, which == 0), which == 2)


@struct.dataclass
class EpisodeRecord:
    """Complete episodes of every environment. All [envs, episodes]."""

    returns: Float[Array, "envs episodes"]
    lengths: Int[Array, "envs episodes"]
    achievements: Int[Array, "envs episodes"]
    invalid: Int[Array, "envs episodes"]
    """Steps that selected an action the oracle calls invalid."""
    changed: Int[Array, "envs episodes"]
    """Steps whose action would have been another one under the oracle's mask (same dice)."""
    wrong: Int[Array, "envs episodes"]
    """Wrong entries of the predicted mask, over all steps and actions."""
    fallbacks: Int[Array, "envs episodes"]
    """Steps in which the applied mask allowed nothing, so that it was ignored."""
    finished: Int[Array, "envs episodes"]
    """1 where the episode was played to its end."""
    solved: Int[Array, "envs episodes"]
    """1 where the game, not the time limit, ended the episode with a reward."""


@struct.dataclass
class Play:
    """Where an evaluation stands."""

    actor: Actor
    key: PRNGKeyArray
    episode: Int[Array, " envs"]
    """The number of the one each environment is in; those beyond the record are not counted."""
    record: EpisodeRecord


@struct.dataclass
class Seen:
    """One step of play, before its outcome. All [envs, ...]."""

    valid: Bool[Array, "envs actions"]
    predicted: Bool[Array, "envs actions"]
    applied: Bool[Array, "envs actions"]
    heads: Heads
    action: Int[Array, " envs"]
    oracle_action: Int[Array, " envs"]
    """What the same dice choose under the oracle's mask."""


def play_episodes(
    venv: VectorEnv,
    net: Network,
    params: Any,
    key: PRNGKeyArray,
    *,
    masks: Masks | Int[Array, ""] | MaskSource,
    threshold: float | Float[Array, "..."] = 0.5,
    greedy: bool = False,
    episodes: int = 1,
) -> EpisodeRecord:
    """The first `episodes` episodes of every environment, each played to its end: taking the first
    ones that *finish* would favour short ones.

    `masks` may also be a position in `MASKS`, or a source of its own; both can be traced.
    `threshold`: one number, or one per action.
    """
    source = masks if isinstance(masks, MaskSource) else mask_source(masks, venv.env.num_actions)
    return jax.lax.while_loop(
        lambda play: jnp.any(play.episode < episodes),
        lambda play: advance(venv, net, params, play, source, threshold, greedy=greedy),
        begin(venv, net, key, episodes),
    ).record


def begin(venv: VectorEnv, net: Network, key: PRNGKeyArray, episodes: int) -> Play:
    """Every environment at the start of its first episode."""
    start_key, key = jax.random.split(key)
    zeros = jnp.zeros((venv.num_envs, episodes), jnp.int32)
    names = [field.name for field in dataclasses.fields(EpisodeRecord)]
    record = EpisodeRecord(**dict.fromkeys(names, zeros) | {"returns": zeros.astype(jnp.float32)})
    return Play(start(venv, net, start_key), key, jnp.zeros(venv.num_envs, jnp.int32), record)


def advance(
    venv: VectorEnv,
    net: Network,
    params: Any,
    play: Play,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
    *,
    greedy: bool,
) -> Play:
    """`STEPS` steps of every environment, then new levels."""

    def step(play: Play, _: None) -> tuple[Play, None]:
        return play_step(venv, net, params, play, source, threshold, greedy=greedy)[0], None

    play, _ = jax.lax.scan(step, play, None, length=STEPS)
    return refresh(venv, play)


def refresh(venv: VectorEnv, play: Play) -> Play:
    """New levels for those that were used: call it every `STEPS` steps."""
    key, world_key = jax.random.split(play.key)
    worlds = venv.refresh(world_key, play.actor.worlds)
    return dataclasses.replace(play, key=key, actor=dataclasses.replace(play.actor, worlds=worlds))


def play_step(
    venv: VectorEnv,
    net: Network,
    params: Any,
    play: Play,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
    *,
    greedy: bool,
) -> tuple[Play, Seen]:
    """One step of every environment, and what was seen and chosen in it."""
    key, act_key, world_key = jax.random.split(play.key, 3)
    actor = play.actor
    carry, heads = look(net, params, actor.carry, actor.now.observation, actor.reset)
    predicted = predicted_mask(heads.validity, threshold)
    applied = source.apply(actor.now.mask, predicted)

    def choose(mask: Bool[Array, "envs actions"]) -> Int[Array, " envs"]:
        log_probs = masking.masked_log_softmax(heads.logits, mask)
        # The same key for both masks, so that only the mask can change the choice.
        return log_probs.argmax(-1) if greedy else masking.sample(act_key, log_probs)

    seen = Seen(actor.now.mask, predicted, applied, heads, choose(applied), choose(actor.now.mask))
    worlds, out = venv.step(world_key, actor.worlds, seen.action)
    selected = jnp.take_along_axis(seen.valid, seen.action[:, None], axis=-1)[:, 0]
    happened = EpisodeRecord(
        returns=out.reward,
        lengths=jnp.ones_like(seen.action),
        achievements=out.done * out.episodes.achievements,
        invalid=~selected,
        changed=seen.action != seen.oracle_action,
        wrong=jnp.sum(predicted != seen.valid, axis=-1),
        fallbacks=masking.falls_back(applied),
        finished=out.done,
        solved=out.terminated & (out.reward > 0),
    )
    return Play(
        actor=Actor(worlds, carry, First(out.observation, out.mask), reset=out.done),
        key=key,
        episode=play.episode + out.done,
        record=_add(play.record, play.episode, happened),
    ), seen


def _add(
    record: EpisodeRecord, episode: Int[Array, " envs"], happened: EpisodeRecord
) -> EpisodeRecord:
    """Adds a step to the episode that each environment is in; beyond the last one it is dropped."""
    envs = jnp.arange(episode.shape[0])
    return jax.tree.map(
        lambda total, x: total.at[envs, episode].add(x.astype(total.dtype), mode="drop"),
        record,
        happened,
    )
