"""Complete episodes of one policy under oracle, predicted or no masks, or by its clone, as pure
functions.

    play = begin(venv, net, key, episodes=10)
    play, _ = advance(venv, net, params, play, mask_source("predicted", n), 0.5, greedy=False)
    play.record.returns                                       # [envs, episodes]

Every environment plays its first `episodes` episodes to their end: taking the first ones that
*finish* would favour short ones. The same key means the same levels and the same dice, so that
masks can be compared episode by episode. `player.py` compiles this.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import failures, masking
from maskless.envs.base import Observation
from maskless.envs.vector import First, Step, VectorEnv
from maskless.nets import AnyNetwork, Heads
from maskless.ppo.rollout import Actor, apply_step, start

Masks = Literal["oracle", "predicted", "predicted-forgetful", "clone", "clone-forgetful", "none"]
MASKS: tuple[Masks, ...] = get_args(Masks)
"""`predicted` and `clone` do not repeat what has just failed (`maskless.failures`); `-forgetful` is
the control that does. `clone` acts by the cloned head, without any mask."""

STEPS = 16
"""Steps between two refreshes of the levels. Only episodes that are shorter than this, on the
average, can begin on a level that another one had."""

Overrule = Callable[
    [Observation, Float[Array, "envs actions"], Bool[Array, "envs actions"]],
    tuple[Bool[Array, "envs actions"], Bool[Array, "envs actions"]],
]
"""The overrides of a policy: from the observation, the validity logits and the predicted mask to
the mask after the rules, and where they forbid an action."""


def _no() -> Bool[np.ndarray, ""]:
    return np.zeros((), bool)


@struct.dataclass
class MaskSource:
    """Where the mask that is applied comes from. Arrays, so that one program plays all kinds; with
    an axis of environments in front, each may have its own."""

    corrected: Bool[Array | np.ndarray, "*envs actions"]
    """True: the oracle says whether this action is valid; False: the classifier does."""
    ignored: Bool[Array | np.ndarray, "*envs"] = struct.field(default_factory=_no)
    """True: no mask is applied."""
    cloned: Bool[Array | np.ndarray, "*envs"] = struct.field(default_factory=_no)
    """True: the cloned head acts, without any mask; the network must have one."""
    remembers: Bool[Array | np.ndarray, "*envs"] = struct.field(default_factory=_no)
    """True: what has just failed is not repeated."""

    def apply(
        self, valid: Bool[Array, "envs actions"], predicted: Bool[Array, "envs actions"]
    ) -> Bool[Array, "envs actions"]:
        unmasked = self.ignored | self.cloned
        return jnp.where(self.corrected, valid, predicted) | unmasked[..., None]


def mask_source(masks: Masks | Int[Array, ""], num_actions: int) -> MaskSource:
    """The source for a kind of masks, or for its position in `MASKS`, which can be traced."""
    which = jnp.asarray(MASKS.index(masks) if isinstance(masks, str) else masks, jnp.int32)

    def is_one_of(*names: Masks) -> Bool[Array, ""]:
        return jnp.any(which == np.array([MASKS.index(name) for name in names]))

    return MaskSource(
        corrected=jnp.full(num_actions, is_one_of("oracle")),
        ignored=is_one_of("none"),
        cloned=is_one_of("clone", "clone-forgetful"),
        remembers=is_one_of("predicted", "clone"),
    )


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
    stuck: Int[Array, "envs episodes"]
    """Steps that repeated an action which had changed nothing in the same observation."""


@struct.dataclass
class Play:
    """Where an evaluation stands."""

    actor: Actor
    key: PRNGKeyArray
    episode: Int[Array, " envs"]
    """The number of the one each environment is in; those beyond the record are not counted."""
    record: EpisodeRecord
    failures: Int[Array, "envs actions"]
    """How often each action was tried in vain since the observation last changed; counted whether
    or not the source of masks remembers it."""


@struct.dataclass
class Choice:
    """One step of play, before its outcome. All [envs, ...]."""

    valid: Bool[Array, "envs actions"]
    predicted: Bool[Array, "envs actions"]
    applied: Bool[Array, "envs actions"]
    """The mask that the action was chosen under; where it would have been empty, what was not
    forbidden (of that, with a memory of failures, the action of the highest validity)."""
    fallback: Bool[Array, " envs"]
    """Where it would have been empty."""
    excluded: Bool[Array, "envs actions"]
    """What a memory of failures took from the mask."""
    heads: Heads
    logits: Float[Array, "envs actions"]
    """Of the policy that acted: `heads.logits`, or `heads.clone`."""
    action: Int[Array, " envs"]
    stuck: Bool[Array, " envs"]
    """Where the action has already failed in this observation."""
    oracle_action: Int[Array, " envs"]
    """What the same policy and dice choose under the oracle's mask."""


Fold = Callable[[Any, Play, Choice], Any]
"""(accumulator, state before the step, step) -> accumulator."""


def no_fold(accumulator: Any, before: Play, step: Choice) -> Any:
    return accumulator


def begin(venv: VectorEnv, net: AnyNetwork, key: PRNGKeyArray, episodes: int) -> Play:
    """Every environment at the start of its first episode."""
    start_key, key = jax.random.split(key)
    return before_first_step(start(venv, net, start_key), key, episodes)


def before_first_step(actor: Actor, key: PRNGKeyArray, episodes: int) -> Play:
    envs = actor.reset.shape[0]
    zeros = jnp.zeros((envs, episodes), jnp.int32)
    names = [field.name for field in dataclasses.fields(EpisodeRecord)]
    record = EpisodeRecord(**dict.fromkeys(names, zeros) | {"returns": zeros.astype(jnp.float32)})
    nothing_failed = failures.none_yet(envs, actor.now.mask.shape[-1])
    return Play(actor, key, jnp.zeros(envs, jnp.int32), record, nothing_failed)


def advance(
    venv: VectorEnv,
    net: AnyNetwork,
    params: Any,
    play: Play,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
    accumulator: Any = None,
    *,
    greedy: bool,
    overrule: Overrule | None = None,
    fold: Fold = no_fold,
    refresh: bool = True,
    clock_fields: tuple[str, ...] | None = None,
) -> tuple[Play, Any]:
    """`STEPS` steps of every environment, then new levels (`refresh`); and what `fold` makes of
    them. `clock_fields`: those of the environment, unless others are given."""
    clocks = venv.env.clock_fields if clock_fields is None else clock_fields

    def step(carry: tuple[Play, Any], _: None) -> tuple[tuple[Play, Any], None]:
        before, accumulator = carry
        key, act_key, world_key = jax.random.split(before.key, 3)
        carry, choice = choose(
            net, params, before, act_key, source, threshold, greedy=greedy, overrule=overrule
        )
        worlds, out = venv.step(world_key, before.actor.worlds, choice.action)
        after = conclude(before, key, worlds, carry, choice, out, clocks)
        return (after, fold(accumulator, before, choice)), None

    (play, accumulator), _ = jax.lax.scan(step, (play, accumulator), None, length=STEPS)
    if not refresh:
        return play, accumulator
    key, world_key = jax.random.split(play.key)
    worlds = venv.refresh(world_key, play.actor.worlds)
    actor = dataclasses.replace(play.actor, worlds=worlds)
    return dataclasses.replace(play, key=key, actor=actor), accumulator


def choose(
    net: AnyNetwork,
    params: Any,
    play: Play,
    key: PRNGKeyArray,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
    *,
    greedy: bool,
    overrule: Overrule | None = None,
) -> tuple[Any, Choice]:
    """The network's next memory, and the choice, before the worlds move."""
    now = play.actor.now
    carry, heads = apply_step(net, params, play.actor.carry, now.observation, play.actor.reset)
    predicted = masking.predicted_mask(heads.validity, threshold)
    forbidden = jnp.zeros_like(predicted)
    if overrule is not None:
        predicted, forbidden = overrule(now.observation, heads.validity, predicted)
    logits = heads.logits
    if heads.clone is not None:
        logits = jnp.where(source.cloned[..., None], heads.clone, logits)
    mask = source.apply(now.mask, predicted) & ~(source.cloned[..., None] & forbidden)
    # A rule "never" is for predicted masks and the clone; without masks everything can be chosen.
    candidates = ~forbidden | source.ignored[..., None]
    remembers = jnp.broadcast_to(source.remembers[..., None], mask.shape)
    tried = jnp.where(remembers, play.failures, 0)
    restricted = failures.restrict(mask, candidates, heads.validity, tried)
    mask = jnp.where(remembers, restricted.mask, mask)
    decision = masking.decide(key, logits, mask, forbidden, greedy=greedy)
    # The same key under the oracle's mask, so that only the mask can change the choice.
    oracle_action = masking.decide(key, logits, now.mask, greedy=greedy).action
    failed = jnp.take_along_axis(play.failures, decision.action[:, None], axis=-1)[:, 0]
    return carry, Choice(
        valid=now.mask,
        predicted=predicted,
        applied=decision.mask,
        fallback=restricted.fallback,
        excluded=restricted.excluded,
        heads=heads,
        logits=logits,
        action=decision.action,
        stuck=failed > 0,
        oracle_action=oracle_action,
    )


def conclude(
    play: Play,
    key: PRNGKeyArray,
    worlds: Any,
    carry: Any,
    choice: Choice,
    out: Step,
    clock_fields: tuple[str, ...] = (),
) -> Play:
    """Where the play stands after the worlds have moved, with the step in its record."""
    selected_valid = jnp.take_along_axis(choice.valid, choice.action[:, None], axis=-1)[:, 0]
    step = EpisodeRecord(
        returns=out.reward,
        lengths=jnp.ones_like(choice.action),
        achievements=out.done * out.episodes.achievements,
        invalid=~selected_valid,
        changed=choice.action != choice.oracle_action,
        wrong=jnp.sum(choice.predicted != choice.valid, axis=-1),
        fallbacks=choice.fallback,
        finished=out.done,
        solved=out.terminated & (out.reward > 0),
        stuck=choice.stuck,
    )
    same = failures.unchanged(play.actor.now.observation, out.observation, clock_fields)
    envs = jnp.arange(play.episode.shape[0])
    # Beyond the last episode of the record, steps are dropped.
    record = jax.tree.map(
        lambda total, x: total.at[envs, play.episode].add(x.astype(total.dtype), mode="drop"),
        play.record,
        step,
    )
    return Play(
        actor=Actor(worlds, carry, First(out.observation, out.mask), reset=out.done),
        key=key,
        episode=play.episode + out.done,
        record=record,
        failures=failures.count(play.failures, choice.action, same & ~out.done),
    )


class Player(abc.ABC):
    """Some environments in which policies of one network play, one policy at a time. Compiled once
    for all parameters, masks and thresholds. `close` it, or use it in a `with`."""

    num_envs: int
    _advance: Callable[..., tuple[Play, Any]]

    @abc.abstractmethod
    def begin(self, seed: int, episodes: int) -> Play:
        """Every environment at the start of its first episode. The same seed means the same
        levels. Plays of one player do not overlap."""

    def advance(
        self,
        params: Any,
        play: Play,
        source: MaskSource,
        threshold: float | Float[Array, "..."],
        accumulator: Any = None,
    ) -> tuple[Play, Any]:
        """Some more steps, and what `fold` makes of them. `play` and `accumulator` are used up."""
        return self._advance(params, play, source, threshold, accumulator)

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """Gives back what is held outside of JAX."""

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
