"""Can the predicted masks of a trained policy be trusted, and what do their errors cost?

    runs = load_runs(folder)
    audit = audit_predictions(runs, runs.runs[0], states=20_000)

The policy acts under its own predicted masks, so that errors compound; the oracle only scores.
(`envs.mask_audit` audits the oracle itself.)
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from maskless import masking, statistics
from maskless.conditions import prudence_of
from maskless.diagnostics.classifier import SOFT_MASK
from maskless.envs.prudence import with_prudence
from maskless.errors import MasklessError
from maskless.evaluation import episodes as game
from maskless.evaluation.episodes import Choice, EpisodeRecord, MaskSource, Play, mask_source
from maskless.evaluation.player import Report, check_oracle, make_player, no_report, play_runs
from maskless.evaluation.runs import EvaluatedRun, Runs
from maskless.policy.acting import as_array
from maskless.training.program import of_run

BINS = 16
BIN_WIDTH = 1.0
"""Calibration looks at scores in bins of this width in the logit, around 0; the outermost are
open."""


@struct.dataclass
class Tally:
    """Sums over the states that were choice. Counts are per action."""

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

    @property
    def is_certain(self) -> bool:
        """Whether that is more than chance brings."""
        return self.lost > 2 * self.error


@dataclasses.dataclass(frozen=True)
class PredictionAudit:
    """What was found about one run."""

    run: EvaluatedRun
    action_names: tuple[str, ...]
    states: int
    tally: Any
    """A `Tally` of NumPy arrays."""
    worst: Examples
    """The states with the largest KL divergence, one from each environment, worst first."""
    episodes: int
    oracle_return: float
    predicted_return: float
    forgetful_return: float
    """Under predicted masks without the memory of failures (`maskless.failures`)."""
    stuck: float
    """Share of steps that repeated what had just failed, under predicted masks as deployed."""
    forgetful_stuck: float
    """The same without the memory."""
    clone_return: float | None
    """By the cloned head, without masks; None: there is none."""
    costs: dict[str, Cost]
    """For every action about which there were errors."""

    @property
    def errors(self) -> np.ndarray:
        """Wrong predictions per action."""
        return np.asarray(self.tally.masked_valid + self.tally.allowed_invalid)


def audit_predictions(
    runs: Runs,
    run: EvaluatedRun,
    *,
    states: int = 20_000,
    episodes: int = 512,
    num_envs: int = 64,
    examples: int = 6,
    seed: int = 0,
    report: Report = no_report,
) -> PredictionAudit:
    """Compares masks in at least `states` states, and plays at least `episodes` episodes for each
    action about which there are errors. `report` gets states, then episodes."""
    if not run.has_classifier:
        raise MasklessError(
            f"{run.folder} was trained without a classifier ({run.name}), so that it predicts no"
            " masks: audit a condition such as masked-focal."
        )
    runs = dataclasses.replace(runs, env=with_prudence(runs.env, prudence_of(run.name)))
    check_oracle(runs.env, "audit the policy where it was trained")
    if min(states, episodes, num_envs, examples) < 1:
        raise MasklessError("An audit needs at least one state, episode, environment and example.")
    compared, tally, worst = _compare_masks(runs, run, states, num_envs, seed, report)
    order = np.argsort(-worst.kl, kind="stable")[:examples]
    worst = jax.tree.map(lambda x: x[order], worst)
    errors = tally.masked_valid + tally.allowed_invalid
    wrong = [int(action) for action in np.flatnonzero(errors)]
    record = _play_for_costs(runs, run, wrong, episodes, num_envs, seed, report)
    returns = np.asarray(record.returns, np.float64)
    oracle, predicted, forgetful = (found.ravel() for found in returns[:3])
    clone = returns[3:][: run.has_clone]
    # Environments met the same levels: their differences vary less than the returns.
    gained = (returns[3 + run.has_clone :] - returns[1]).mean(-1)
    stuck = np.sum(record.stuck, (1, 2)) / np.sum(record.lengths, (1, 2))
    names = tuple(runs.env.action_names)
    return PredictionAudit(
        run=run,
        action_names=names,
        states=compared,
        tally=tally,
        worst=worst,
        episodes=len(oracle),
        oracle_return=float(oracle.mean()),
        predicted_return=float(predicted.mean()),
        forgetful_return=float(forgetful.mean()),
        stuck=float(stuck[1]),
        forgetful_stuck=float(stuck[2]),
        clone_return=float(clone.mean()) if run.has_clone else None,
        costs={
            names[action]: Cost(float(mine.mean()), statistics.standard_error(mine))
            for action, mine in zip(wrong, gained, strict=True)
        },
    )


def _play_for_costs(
    runs: Runs,
    run: EvaluatedRun,
    wrong: list[int],
    episodes: int,
    num_envs: int,
    seed: int,
    report: Report,
) -> EpisodeRecord:
    """Episodes under the oracle's masks, the predicted ones, the predicted ones without a memory of
    failures, by the clone if there is one, and under the predicted ones with the oracle's word on
    one action, for each of `wrong`. [3 + clone + wrong, envs, episodes]"""
    num_actions = runs.env.num_actions
    envs = min(episodes, num_envs)
    one_from_oracle = [
        MaskSource(jnp.arange(num_actions) == action, remembers=jnp.bool_(True)) for action in wrong
    ]
    record = play_runs(
        dataclasses.replace(runs, runs=[run]),
        [
            mask_source("oracle", num_actions),
            mask_source("predicted", num_actions),
            mask_source("predicted-forgetful", num_actions),
            *([mask_source("clone", num_actions)] if run.has_clone else []),
            *one_from_oracle,
        ],
        envs=envs,
        per_env=-(-episodes // envs),
        seed=seed,
        report=lambda done, _: report(done, "playing for costs"),
    )
    return of_run(record, 0)


def _compare_masks(
    runs: Runs, run: EvaluatedRun, states: int, num_envs: int, seed: int, report: Report
) -> tuple[int, Tally, Examples]:
    """Plays under predicted masks; how many states were seen, what was counted, and the worst one
    of every environment."""
    source = mask_source("predicted", runs.env.num_actions)
    thresholds, rules = as_array(run.thresholds), runs.overrule
    chunks, count = -(-states // (game.STEPS * num_envs)), 0
    with make_player(
        runs.env, num_envs, runs.net, overrule=rules, fold=_fold, clock_fields=runs.clock_fields
    ) as player:
        # So many episodes that none of the environments can come to an end.
        state = player.begin(seed + run.seed, episodes=chunks * game.STEPS)
        blank, worst = _blank(runs, run, state)
        # Sums of a chunk are added up here, in as many digits as it takes.
        total = jax.tree.map(lambda x: np.zeros(x.shape, np.float64), blank)
        for _ in range(chunks):
            counts = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), blank)
            state, (worst, counts) = player.advance(
                run.params, state, source, thresholds, (worst, counts)
            )
            total = jax.tree.map(lambda a, b: a + np.asarray(b), total, counts)
            count += game.STEPS * num_envs
            report(min(count, states), "comparing masks")
    return count, total, jax.device_get(worst)


def _blank(runs: Runs, run: EvaluatedRun, state: Play) -> tuple[Tally, Examples]:
    """Shapes of the tally, and examples that any state replaces."""
    source = mask_source("predicted", runs.env.num_actions)
    choose = partial(game.choose, runs.net, greedy=False)
    _, choice = jax.eval_shape(choose, run.params, state, state.key, source, 0.5)
    counts = jax.eval_shape(_count, choice)
    example = jax.eval_shape(_example, state, choice)
    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), example)
    return counts, blank.replace(kl=jnp.full_like(blank.kl, -jnp.inf))


def _fold(
    accumulator: tuple[Examples, Tally], before: Play, choice: Choice
) -> tuple[Examples, Tally]:
    worst, counts = accumulator
    counts = jax.tree.map(jnp.add, counts, _count(choice))
    return _worse(worst, _example(before, choice)), counts


def _example(before: Play, choice: Choice) -> Examples:
    """The present state of every environment."""
    under_oracle = masking.masked_log_softmax(choice.heads.logits, choice.valid)
    under_prediction = masking.masked_log_softmax(choice.heads.logits, choice.predicted)
    return Examples(
        kl=_soft_kl(choice),
        total_variation=masking.total_variation(under_oracle, under_prediction),
        # A Gymnasium environment keeps its state to itself.
        state=getattr(before.actor.worlds, "states", ()),
        observation=before.actor.now.observation,
        valid=choice.valid,
        predicted=choice.predicted,
        probability=jax.nn.sigmoid(choice.heads.validity),
        oracle_policy=jnp.exp(under_oracle),
        predicted_policy=jnp.exp(under_prediction),
    )


def _worse(old: Examples, new: Examples) -> Examples:
    """The one of the two with the larger KL divergence, for each environment."""
    larger = new.kl > old.kl

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(larger.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def _soft_kl(choice: Choice) -> Float[Array, " envs"]:
    oracle = jax.nn.log_softmax(choice.heads.logits + SOFT_MASK * ~choice.valid)
    predicted = jax.nn.log_softmax(choice.heads.logits + SOFT_MASK * ~choice.predicted)
    return masking.kl_divergence(oracle, predicted)


def _count(choice: Choice) -> Tally:
    """The sums of one step."""
    valid, predicted, logits = choice.valid, choice.predicted, choice.heads.validity
    place = jnp.clip(jnp.floor(logits / BIN_WIDTH) + BINS // 2, 0, BINS - 1)
    inside = place == jnp.arange(BINS)[:, None, None]  # [bins, envs, actions]
    under_oracle = masking.masked_log_softmax(choice.heads.logits, valid)
    under_prediction = masking.masked_log_softmax(choice.heads.logits, choice.predicted)
    return Tally(
        allowed_valid=(predicted & valid).sum(0),
        allowed_invalid=(predicted & ~valid).sum(0),
        masked_valid=(~predicted & valid).sum(0),
        masked_invalid=(~predicted & ~valid).sum(0),
        scores_in=inside.sum(1),
        valid_in=(inside & valid).sum(1),
        probability_in=jnp.where(inside, jax.nn.sigmoid(logits), 0.0).sum(1),
        total_variation=masking.total_variation(under_oracle, under_prediction).sum(),
        kl=_soft_kl(choice).sum(),
        fallbacks=choice.fallback.sum(),
    )
