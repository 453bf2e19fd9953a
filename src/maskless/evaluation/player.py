"""Playing for evaluation: complete episodes of every environment, under oracle, predicted or no
masks.

    record = play_episodes(venv, net, params, key, masks="predicted", episodes=10)
    record.returns                                       # [envs, episodes]

The same key means the same levels and the same dice, so that modes can be compared episode by
episode. `maskless.evaluation` makes numbers for people of it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import masking
from maskless.envs.base import Observation
from maskless.envs.vector import First, Step, VectorEnv
from maskless.nets import Heads, Network
from maskless.ppo.rollout import Actor, look, predicted_mask, start

Masks = Literal["oracle", "predicted", "none"]
MASKS: tuple[Masks, ...] = ("oracle", "predicted", "none")

STEPS = 16
"""Steps between two refreshes of the levels. Only episodes that are shorter than this, on the
average, can begin on a level that another one had."""

Overrule = Callable[
    [Observation, Float[Array, "envs actions"], Bool[Array, "envs actions"]],
    tuple[Bool[Array, "envs actions"], Bool[Array, "envs actions"]],
]
"""Rules that a person gave: from the observation, the logits of the predicted validity and the
predicted mask to the mask after the rules, and where they forbid an action."""


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
    """The mask that the action was chosen under; where it would have been empty, what was not
    forbidden."""
    fallback: Bool[Array, " envs"]
    """Where it would have been empty."""
    heads: Heads
    action: Int[Array, " envs"]
    oracle_action: Int[Array, " envs"]
    """What the same dice choose under the oracle's mask."""


Watch = Callable[[Any, Play, Seen], Any]
"""Looks on: from what it knew, where the play stood, and the step that followed, to what it knows
then."""


def not_watching(known: Any, before: Play, step: Seen) -> Any:
    return known


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
        lambda play: advance(venv, net, params, play, source, threshold, greedy=greedy)[0],
        begin(venv, net, key, episodes),
    ).record


def begin(venv: VectorEnv, net: Network, key: PRNGKeyArray, episodes: int) -> Play:
    """Every environment at the start of its first episode."""
    start_key, key = jax.random.split(key)
    return before_the_first_step(start(venv, net, start_key), key, episodes)


def before_the_first_step(actor: Actor, key: PRNGKeyArray, episodes: int) -> Play:
    envs = actor.reset.shape[0]
    zeros = jnp.zeros((envs, episodes), jnp.int32)
    names = [field.name for field in dataclasses.fields(EpisodeRecord)]
    record = EpisodeRecord(**dict.fromkeys(names, zeros) | {"returns": zeros.astype(jnp.float32)})
    return Play(actor, key, jnp.zeros(envs, jnp.int32), record)


def advance(
    venv: VectorEnv,
    net: Network,
    params: Any,
    play: Play,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
    known: Any = None,
    *,
    greedy: bool,
    overrule: Overrule | None = None,
    watch: Watch = not_watching,
    refresh: bool = True,
) -> tuple[Play, Any]:
    """`STEPS` steps of every environment, then new levels (`refresh`); and what `watch`, which
    knew `known`, knows then."""

    def step(carry: tuple[Play, Any], _: None) -> tuple[tuple[Play, Any], None]:
        before, known = carry
        after, seen = play_step(
            venv, net, params, before, source, threshold, greedy=greedy, overrule=overrule
        )
        return (after, watch(known, before, seen)), None

    (play, known), _ = jax.lax.scan(step, (play, known), None, length=STEPS)
    if not refresh:
        return play, known
    key, world_key = jax.random.split(play.key)
    worlds = venv.refresh(world_key, play.actor.worlds)
    actor = dataclasses.replace(play.actor, worlds=worlds)
    return dataclasses.replace(play, key=key, actor=actor), known


def play_step(
    venv: VectorEnv,
    net: Network,
    params: Any,
    play: Play,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
    *,
    greedy: bool,
    overrule: Overrule | None = None,
) -> tuple[Play, Seen]:
    """One step of every environment, and what was seen and chosen in it."""
    key, act_key, world_key = jax.random.split(play.key, 3)
    carry, seen = decide(
        net, params, play.actor, act_key, source, threshold, greedy=greedy, overrule=overrule
    )
    worlds, out = venv.step(world_key, play.actor.worlds, seen.action)
    return conclude(play, key, worlds, carry, seen, out), seen


def decide(
    net: Network,
    params: Any,
    actor: Actor,
    key: PRNGKeyArray,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
    *,
    greedy: bool,
    overrule: Overrule | None = None,
) -> tuple[Any, Seen]:
    """What the network remembers, and what is seen and chosen, before the worlds move."""
    now = actor.now
    carry, heads = look(net, params, actor.carry, now.observation, actor.reset)
    predicted = predicted_mask(heads.validity, threshold)
    forbidden = jnp.zeros_like(predicted)
    if overrule is not None:
        predicted, forbidden = overrule(now.observation, heads.validity, predicted)
    wanted = source.apply(now.mask, predicted)
    applied = masking.fall_back(wanted, forbidden)

    def choose(mask: Bool[Array, "envs actions"]) -> Int[Array, " envs"]:
        log_probs = masking.masked_log_softmax(heads.logits, mask)
        # The same key for both masks, so that only the mask can change the choice.
        return log_probs.argmax(-1) if greedy else masking.sample(key, log_probs)

    return carry, Seen(
        valid=now.mask,
        predicted=predicted,
        applied=applied,
        fallback=masking.falls_back(wanted),
        heads=heads,
        action=choose(applied),
        oracle_action=choose(now.mask),
    )


def conclude(play: Play, key: PRNGKeyArray, worlds: Any, carry: Any, seen: Seen, out: Step) -> Play:
    """Where the play stands after the worlds have moved, with the step in its record."""
    selected = jnp.take_along_axis(seen.valid, seen.action[:, None], axis=-1)[:, 0]
    happened = EpisodeRecord(
        returns=out.reward,
        lengths=jnp.ones_like(seen.action),
        achievements=out.done * out.episodes.achievements,
        invalid=~selected,
        changed=seen.action != seen.oracle_action,
        wrong=jnp.sum(seen.predicted != seen.valid, axis=-1),
        fallbacks=seen.fallback,
        finished=out.done,
        solved=out.terminated & (out.reward > 0),
    )
    return Play(
        actor=Actor(worlds, carry, First(out.observation, out.mask), reset=out.done),
        key=key,
        episode=play.episode + out.done,
        record=_add(play.record, play.episode, happened),
    )


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
