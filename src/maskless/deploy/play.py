"""Episodes of a policy in an environment that has an oracle: what calibration and dry runs look at.

Episodes are independent of each other; states of one episode are not. So everything here is kept
by episode, and where single states are needed they are drawn at random within each.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import masking
from maskless.deploy.observations import fields_of, match
from maskless.deploy.policy import Policy
from maskless.envs import Environment, VectorEnv, make
from maskless.errors import MasklessError

ENVS = 512
"""Episodes that are played at a time."""


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


class Player:
    """Plays episodes of a policy; compiled once for all thresholds and both behaviours."""

    def __init__(self, policy: Policy, env: Environment, *, envs: int = ENVS, states: int = 8):
        """`states`: how many are drawn from each episode."""
        check_fit(policy, env)
        self.policy = policy
        self.states = states
        # Only the first episode of each environment counts, so the pool of further levels is idle.
        self.venv = VectorEnv(env, envs, pool_size=1)
        self._play = jax.jit(self._episodes)

    def play(
        self,
        key: PRNGKeyArray,
        episodes: int,
        *,
        masks: Literal["oracle", "predicted"] = "oracle",
        thresholds: Float[Array, " actions"] | None = None,
        progress: Callable[[int, str], None] = lambda done, what: None,
    ) -> Episodes:
        """So many complete episodes under the oracle's or the predicted masks."""
        thresholds = self.policy.thresholds if thresholds is None else thresholds
        parts = []
        for done in range(0, episodes, self.venv.num_envs):
            progress(done, f"playing under {masks} masks")
            parts.append(
                self._play(jax.random.fold_in(key, done), thresholds, masks == "predicted")
            )
        progress(episodes, f"played under {masks} masks")
        return jax.tree.map(lambda *x: np.concatenate(x)[:episodes], *parts)

    def _episodes(
        self, key: PRNGKeyArray, thresholds: Float[Array, " actions"], predicted: Bool[Array, ""]
    ) -> Episodes:
        reset_key, key = jax.random.split(key)
        worlds, first = self.venv.reset(reset_key)
        envs = self.venv.num_envs
        leaves, _ = match(first.observation, self.policy.fields)
        carry = self.policy.initial_carry(envs)
        start = (worlds, leaves, first.mask, carry, self._nothing(leaves), jnp.zeros(envs, bool))

        def step(loop: Any) -> Any:
            key, (worlds, leaves, valid, carry, seen, over) = loop
            key, act_key, world_key, draw_key = jax.random.split(key, 4)
            carry, heads = self.policy.look(self.policy.params, carry, leaves, jnp.zeros_like(over))
            made = self.policy.predict_mask(leaves, heads.validity, thresholds)
            log_probs = masking.masked_log_softmax(
                heads.logits, jnp.where(predicted, made.mask, valid)
            )
            now = States(leaves, heads.logits, heads.validity, valid)
            seen = _look_at(seen, now, thresholds, over, draw_key)
            worlds, out = self.venv.step(world_key, worlds, masking.sample(act_key, log_probs))
            leaves, _ = match(out.observation, self.policy.fields)
            return key, (worlds, leaves, out.mask, carry, seen, over | out.done)

        _, (*_, seen, _) = jax.lax.while_loop(
            lambda loop: ~jnp.all(loop[1][-1]), step, (key, start)
        )
        return seen

    def _nothing(self, leaves: list[Array]) -> Episodes:
        envs, actions = self.venv.num_envs, len(self.policy.action_names)
        counts = jnp.zeros((envs, actions), jnp.int32)
        drawn = jnp.zeros((envs, self.states, actions), jnp.float32)
        return Episodes(
            lengths=jnp.zeros(envs, jnp.int32),
            valid=counts,
            masked=counts,
            score=jnp.full((envs, actions), jnp.nan),
            change=jnp.zeros(envs, jnp.float32),
            states=States(
                leaves=[
                    jnp.zeros((envs, self.states, *leaf.shape[1:]), leaf.dtype) for leaf in leaves
                ],
                logits=drawn,
                validity=drawn,
                valid=drawn.astype(bool),
            ),
        )


def _look_at(
    seen: Episodes,
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
    predicted = scores > thresholds
    lengths, counts = seen.lengths + going, seen.valid + valid
    # Reservoirs: the n-th candidate takes the place with probability 1/n, so that in the end each
    # had the same chance, however many there were.
    taken = valid & (jax.random.uniform(score_key, counts.shape) * counts < 1.0)
    slots = seen.states.logits.shape[:2]
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
        masked=seen.masked + (valid & ~predicted),
        score=jnp.where(taken, scores, seen.score),
        change=seen.change + going * change,
        states=jax.tree.map(replace, seen.states, now),
    )


def environment_of(run: Path, policy: Policy, name: str | None = None) -> Environment:
    """The environment a run was trained in, with its options; or the one called `name`."""
    from maskless.ppo.train import read_config  # only here: playing needs no trainer

    if name is not None:
        return make(name)
    for folder in (run, run.parent):
        if (folder / "config.json").is_file():
            config = read_config(folder)
            return make(config.env, **config.env_options)
    return make(policy.artifact.about["env"])


def check_fit(policy: Policy, env: Environment) -> None:
    """Refuses an environment with other actions or observations than the policy's."""
    if tuple(env.action_names) != policy.action_names:
        raise MasklessError(
            f"{env.id} has other actions than the policy was trained for: name another with --env."
        )
    if tuple(fields_of(env)) != policy.fields:
        raise MasklessError(
            f"{env.id} has other observations than the policy was trained for: name another with"
            " --env."
        )
