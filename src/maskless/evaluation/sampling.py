"""Episodes of a policy where there is an oracle, as samples for calibration and dry runs.

Episodes are independent of each other; states of one episode are not. So everything here is kept
by episode, and where single states are needed they are drawn at random within each.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from maskless import masking
from maskless.envs import Environment
from maskless.evaluation.episodes import Choice, MaskSource, Play, mask_source
from maskless.evaluation.player import Report, make_player, no_report
from maskless.evaluation.runs import check_fit
from maskless.policy.acting import Policy
from maskless.policy.observations import match
from maskless.policy.overrides import Overruling

ENVS = 512
"""Episodes that are played at a time inside JAX."""


@struct.dataclass
class States:
    """States drawn at random from each episode, all its states alike. [episodes, states, ...]"""

    leaves: list[Array]
    """The observation, in the order of the policy's fields."""
    logits: Float[Array, "episodes states actions"]
    validity: Float[Array, "episodes states actions"]
    """Logits of the predicted validity."""
    valid: Bool[Array, "episodes states actions"]
    """The oracle's mask."""


@struct.dataclass
class Episodes:
    """What complete episodes showed. [episodes, ...]"""

    lengths: Int[Array, " episodes"]
    valid: Int[Array, "episodes actions"]
    """In how many states each action was valid."""
    masked: Int[Array, "episodes actions"]
    """In how many of these the thresholds masked it."""
    score: Float[Array, "episodes actions"]
    """The predicted validity in one state, drawn from those in which the action was valid; nan
    when there were none."""
    change: Float[Array, " episodes"]
    """Total variation between the oracle-masked and the predicted-masked policy, summed."""
    states: States

    def masked_rate(self) -> Float[np.ndarray, " actions"]:
        """The share of an episode's valid states in which the action is masked, on average over
        the episodes in which it is valid at all; nan when it never is."""
        valid, masked = np.asarray(self.valid, np.float64), np.asarray(self.masked, np.float64)
        shares = np.where(valid > 0, masked / np.maximum(valid, 1), 0.0).sum(0)
        counts = (valid > 0).sum(0)
        return np.where(counts > 0, shares / np.maximum(counts, 1), np.nan)

    def policy_change(self) -> float:
        """The mean total variation of an episode, on average over episodes."""
        return float(np.mean(np.asarray(self.change) / np.asarray(self.lengths)))


class EpisodeSampler:
    """Plays episodes of a policy; compiled once for all thresholds and both behaviours. `close` it
    when done, or use it in a `with`."""

    def __init__(
        self,
        policy: Policy,
        env: Environment,
        *,
        envs: int,
        states: int = 8,
    ):
        """`envs`: episodes that are played at a time. `states`: how many are drawn from each."""
        check_fit(policy.action_names, policy.fields, env)
        self.policy = policy
        self.states = states
        rules = Overruling(policy.overrides, policy.action_names, policy.fields)
        self._player = make_player(
            env,
            envs,
            policy.net,
            overrule=rules,
            fold=self._fold,
            one_episode=True,
            clock_fields=policy.artifact.clock_fields,
        )

    def play(
        self,
        key: PRNGKeyArray,
        episodes: int,
        *,
        masks: Literal["oracle", "predicted"] = "oracle",
        thresholds: Float[Array, " actions"] | None = None,
        report: Report = no_report,
    ) -> Episodes:
        """So many complete episodes under the oracle's or the predicted masks."""
        thresholds = self.policy.thresholds if thresholds is None else thresholds
        source = mask_source(masks, len(self.policy.action_names))
        parts = []
        for done in range(0, episodes, self._player.num_envs):
            report(done, f"playing under {masks} masks")
            parts.append(self._play(jax.random.fold_in(key, done), source, thresholds))
        report(episodes, f"played under {masks} masks")
        return jax.tree.map(lambda *x: np.concatenate(x)[:episodes], *parts)

    def close(self) -> None:
        self._player.close()

    def __enter__(self) -> "EpisodeSampler":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _play(
        self, key: PRNGKeyArray, source: MaskSource, thresholds: Float[Array, " actions"]
    ) -> Episodes:
        """The first episode of every environment."""
        play = self._player.begin(int(jax.random.bits(key)), episodes=1)
        accumulator = (self._blank(play.actor.now.observation), jnp.array(thresholds))
        while not np.all(play.record.finished):
            play, accumulator = self._player.advance(
                self.policy.params, play, source, thresholds, accumulator
            )
        return jax.device_get(accumulator[0])

    def _fold(
        self, accumulator: tuple[Episodes, Float[Array, " actions"]], before: Play, step: Choice
    ) -> tuple[Episodes, Float[Array, " actions"]]:
        so_far, thresholds = accumulator
        leaves, _ = match(before.actor.now.observation, self.policy.fields)
        now = States(leaves, step.heads.logits, step.heads.validity, step.valid)
        key = jax.random.fold_in(before.key, 0)
        return _add_states(so_far, now, thresholds, before.episode > 0, key), thresholds

    def _blank(self, observation: PyTree[Array]) -> Episodes:
        leaves, _ = match(observation, self.policy.fields)
        envs, actions = self._player.num_envs, len(self.policy.action_names)

        def zeros(*shape: int, dtype: Any) -> Array:  # a new one each time: they will be given up
            return jnp.zeros((envs, *shape), dtype)

        return Episodes(
            lengths=zeros(dtype=jnp.int32),
            valid=zeros(actions, dtype=jnp.int32),
            masked=zeros(actions, dtype=jnp.int32),
            score=zeros(actions, dtype=jnp.float32) + jnp.nan,
            change=zeros(dtype=jnp.float32),
            states=States(
                leaves=[zeros(self.states, *x.shape[1:], dtype=x.dtype) for x in leaves],
                logits=zeros(self.states, actions, dtype=jnp.float32),
                validity=zeros(self.states, actions, dtype=jnp.float32),
                valid=zeros(self.states, actions, dtype=bool),
            ),
        )


def _add_states(
    so_far: Episodes,
    now: States,
    thresholds: Float[Array, " actions"],
    over: Bool[Array, " envs"],
    key: PRNGKeyArray,
) -> Episodes:
    """Adds one state of each episode that is not over. `now`: [envs, ...], without the axis of
    states."""
    going = ~over
    score_key, state_key = jax.random.split(key)
    valid = now.valid & going[:, None]
    scores = jax.nn.sigmoid(now.validity)
    predicted = masking.predicted_mask(now.validity, thresholds)
    lengths, counts = so_far.lengths + going, so_far.valid + valid
    # Reservoirs: the n-th candidate takes the place with probability 1/n, so that in the end each
    # had the same chance, however many there were.
    taken = valid & (jax.random.uniform(score_key, counts.shape) * counts < 1.0)
    slots = so_far.states.logits.shape[:2]
    drawn = going[:, None] & (jax.random.uniform(state_key, slots) * lengths[:, None] < 1.0)

    def replace(old: Array, new: Array) -> Array:
        return jnp.where(drawn.reshape(*slots, *[1] * (old.ndim - 2)), new[:, None], old)

    change = masking.total_variation(
        masking.masked_log_softmax(now.logits, now.valid),
        masking.masked_log_softmax(now.logits, predicted),
    )
    return Episodes(
        lengths=lengths,
        valid=counts,
        masked=so_far.masked + (valid & ~predicted),
        score=jnp.where(taken, scores, so_far.score),
        change=so_far.change + going * change,
        states=jax.tree.map(replace, so_far.states, now),
    )
