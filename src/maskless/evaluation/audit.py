"""Can the predicted masks of a trained policy be trusted, and what do their errors cost?

    trained = load_trained(folder)
    audit = audit_predictions(trained, trained.runs[0], states=20_000)

The policy acts under its own predicted masks, where mistakes lead to where they lead, and an oracle
looks on. (`diagnostics.validity` audits the oracle itself.)
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from maskless import masking
from maskless.diagnostics.classifier import SOFT_MASK
from maskless.errors import MasklessError
from maskless.evaluation import player as play
from maskless.evaluation.checkpointed import Trained, TrainedRun
from maskless.evaluation.evaluate import standard_error
from maskless.evaluation.player import MaskSource, Play, Seen, mask_source
from maskless.evaluation.stages import Progress, check_oracle, make_stage, play_sources
from maskless.policy.acting import as_array

BINS = 16
BIN_WIDTH = 1.0
"""Calibration looks at scores in bins of this width in the logit, around 0; the outermost are
open."""


@struct.dataclass
class Tally:
    """Sums over the states that were seen. Counts are per action."""

    allowed_valid: Int[Array, " actions"]
    allowed_invalid: Int[Array, " actions"]
    masked_valid: Int[Array, " actions"]
    masked_invalid: Int[Array, " actions"]
    scores_in: Int[Array, "bins actions"]
    """Scores that fell into each bin of the logit."""
    valid_in: Int[Array, "bins actions"]
    probability_in: Float[Array, "bins actions"]
    """The sum of their predicted probabilities."""
    total_variation: Float[Array, ""]
    kl: Float[Array, ""]
    fallbacks: Int[Array, ""]


@struct.dataclass
class Examples:
    """States, with what the policy makes of them. All [states, ...]."""

    kl: Float[Array, " states"]
    """KL divergence from the policy under the oracle's mask to the one under the predicted mask,
    with soft masks as in the loss."""
    total_variation: Float[Array, " states"]
    state: Any
    observation: Any
    valid: Bool[Array, "states actions"]
    predicted: Bool[Array, "states actions"]
    probability: Float[Array, "states actions"]
    """Predicted: of being valid."""
    oracle_policy: Float[Array, "states actions"]
    predicted_policy: Float[Array, "states actions"]


@dataclasses.dataclass(frozen=True)
class Cost:
    """What the errors about one action cost: its mask from the oracle, the others predicted."""

    lost: float
    """How much more is returned when the oracle decides about this action."""
    error: float
    """Standard error of that difference, over environments that met the same levels."""


@dataclasses.dataclass(frozen=True)
class PredictionAudit:
    """What was found about one run."""

    run: TrainedRun
    action_names: tuple[str, ...]
    states: int
    tally: Any
    """A `Tally` of NumPy arrays."""
    worst: Examples
    """The states with the largest KL divergence, one from each environment, worst first."""
    episodes: int
    oracle_return: float
    predicted_return: float
    costs: dict[str, Cost]
    """For every action about which there were errors."""

    @property
    def errors(self) -> np.ndarray:
        """Wrong predictions per action."""
        return np.asarray(self.tally.masked_valid + self.tally.allowed_invalid)


def audit_predictions(
    trained: Trained,
    run: TrainedRun,
    *,
    states: int = 20_000,
    episodes: int = 512,
    num_envs: int = 64,
    examples: int = 6,
    seed: int = 0,
    progress: Progress = lambda done, what: None,
) -> PredictionAudit:
    """Compares masks in at least `states` states, and plays at least `episodes` episodes for each
    action about which there are errors. `progress` gets states, then episodes."""
    if not run.has_classifier:
        raise MasklessError(
            f"{run.folder} was trained without a classifier ({run.name}), so that it predicts no"
            " masks: audit a condition such as masked-focal."
        )
    check_oracle(trained.env, "audit the policy where it was trained")
    if min(states, episodes, num_envs, examples) < 1:
        raise MasklessError("An audit needs at least one state, episode, environment and example.")
    seen, tally, worst = _look_on(trained, run, states, num_envs, seed, progress)
    order = np.argsort(-worst.kl, kind="stable")[:examples]
    worst = jax.tree.map(lambda x: x[order], worst)
    errors = tally.masked_valid + tally.allowed_invalid
    wrong = [int(action) for action in np.flatnonzero(errors)]
    returns = _returns(trained, run, wrong, episodes, num_envs, seed, progress)
    oracle, predicted = returns[0].ravel(), returns[1].ravel()
    # Environments met the same levels: their differences vary less than the returns.
    gained = (returns[2:] - returns[1]).mean(-1)
    names = tuple(trained.env.action_names)
    return PredictionAudit(
        run=run,
        action_names=names,
        states=seen,
        tally=tally,
        worst=worst,
        episodes=len(oracle),
        oracle_return=float(oracle.mean()),
        predicted_return=float(predicted.mean()),
        costs={
            names[action]: Cost(float(mine.mean()), standard_error(mine))
            for action, mine in zip(wrong, gained, strict=True)
        },
    )


def _returns(
    trained: Trained,
    run: TrainedRun,
    wrong: list[int],
    episodes: int,
    num_envs: int,
    seed: int,
    progress: Progress,
) -> np.ndarray:
    """The returns under the oracle's masks, the predicted ones, and the predicted ones with the
    oracle's word on one action, for each of `wrong`. [2 + wrong, envs, episodes]"""
    num_actions = trained.env.num_actions
    slots = min(episodes, num_envs)
    one_from_oracle = [
        MaskSource(jnp.arange(num_actions) == action, jnp.bool_(False)) for action in wrong
    ]
    record = play_sources(
        dataclasses.replace(trained, runs=[run]),
        [
            mask_source("oracle", num_actions),
            mask_source("predicted", num_actions),
            *one_from_oracle,
        ],
        slots=slots,
        per_slot=-(-episodes // slots),
        seed=seed,
        progress=lambda done, _: progress(done, "playing for costs"),
    )
    return np.asarray(record.returns[0], np.float64)


def _look_on(
    trained: Trained, run: TrainedRun, states: int, num_envs: int, seed: int, progress: Progress
) -> tuple[int, Tally, Examples]:
    """Plays under predicted masks; how many states were seen, what was counted, and the worst one
    of every environment."""
    source = mask_source("predicted", trained.env.num_actions)
    thresholds, rules = as_array(run.thresholds), trained.overrule
    chunks, seen = -(-states // (play.STEPS * num_envs)), 0
    with make_stage(trained.env, num_envs, trained.net, overrule=rules, watch=_watch) as stage:
        # So many episodes that none of the environments can come to an end.
        state = stage.begin(seed + run.seed, episodes=chunks * play.STEPS)
        nothing, worst = _nothing(trained, run, state)
        # Sums of a chunk are added up here, in as many digits as it takes.
        total = jax.tree.map(lambda x: np.zeros(x.shape, np.float64), nothing)
        for _ in range(chunks):
            counts = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), nothing)
            state, (worst, counts) = stage.advance(
                run.params, state, source, thresholds, (worst, counts)
            )
            total = jax.tree.map(lambda a, b: a + np.asarray(b), total, counts)
            seen += play.STEPS * num_envs
            progress(min(seen, states), "comparing masks")
    return seen, total, jax.device_get(worst)


def _nothing(trained: Trained, run: TrainedRun, state: Play) -> tuple[Tally, Examples]:
    """Shapes of the tally, and examples that any state replaces."""
    source = mask_source("predicted", trained.env.num_actions)
    decide = partial(play.decide, trained.net, greedy=False)
    _, seen = jax.eval_shape(decide, run.params, state.actor, state.key, source, 0.5)
    counts = jax.eval_shape(_count, seen)
    example = jax.eval_shape(_example, state, seen)
    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), example)
    return counts, blank.replace(kl=jnp.full_like(blank.kl, -jnp.inf))


def _watch(known: tuple[Examples, Tally], before: Play, seen: Seen) -> tuple[Examples, Tally]:
    worst, counts = known
    counts = jax.tree.map(jnp.add, counts, _count(seen))
    return _worse(worst, _example(before, seen)), counts


def _example(before: Play, seen: Seen) -> Examples:
    """The present state of every environment."""
    under_oracle = masking.masked_log_softmax(seen.heads.logits, seen.valid)
    under_prediction = masking.masked_log_softmax(seen.heads.logits, seen.applied)
    return Examples(
        kl=_soft_kl(seen),
        total_variation=masking.total_variation(under_oracle, under_prediction),
        # A Gymnasium environment keeps its state to itself.
        state=getattr(before.actor.worlds, "states", ()),
        observation=before.actor.now.observation,
        valid=seen.valid,
        predicted=seen.predicted,
        probability=jax.nn.sigmoid(seen.heads.validity),
        oracle_policy=jnp.exp(under_oracle),
        predicted_policy=jnp.exp(under_prediction),
    )


def _worse(old: Examples, new: Examples) -> Examples:
    """The one of the two with the larger KL divergence, for each environment."""
    larger = new.kl > old.kl

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(larger.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def _soft_kl(seen: Seen) -> Float[Array, " envs"]:
    oracle = jax.nn.log_softmax(seen.heads.logits + SOFT_MASK * ~seen.valid)
    predicted = jax.nn.log_softmax(seen.heads.logits + SOFT_MASK * ~seen.applied)
    return masking.kl_divergence(oracle, predicted)


def _count(seen: Seen) -> Tally:
    """The sums of one step."""
    valid, predicted, logits = seen.valid, seen.predicted, seen.heads.validity
    place = jnp.clip(jnp.floor(logits / BIN_WIDTH) + BINS // 2, 0, BINS - 1)
    inside = place == jnp.arange(BINS)[:, None, None]  # [bins, envs, actions]
    under_oracle = masking.masked_log_softmax(seen.heads.logits, valid)
    under_prediction = masking.masked_log_softmax(seen.heads.logits, seen.applied)
    return Tally(
        allowed_valid=(predicted & valid).sum(0),
        allowed_invalid=(predicted & ~valid).sum(0),
        masked_valid=(~predicted & valid).sum(0),
        masked_invalid=(~predicted & ~valid).sum(0),
        scores_in=inside.sum(1),
        valid_in=(inside & valid).sum(1),
        probability_in=jnp.where(inside, jax.nn.sigmoid(logits), 0.0).sum(1),
        total_variation=masking.total_variation(under_oracle, under_prediction).sum(),
        kl=_soft_kl(seen).sum(),
        fallbacks=seen.fallback.sum(),
    )
