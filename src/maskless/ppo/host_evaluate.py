"""Evaluation in Gymnasium environments, also in those where no oracle exists."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from flax.errors import FlaxError
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from maskless import masking
from maskless.envs.host import HostEnvironment
from maskless.envs.vector import First, Step
from maskless.envs.workers import HostVectorEnv
from maskless.errors import MasklessError, UnknownNameError
from maskless.nets import Network
from maskless.ppo.evaluate import MASKS, EpisodeRecord, Masks
from maskless.ppo.rollout import look, predicted_mask


@struct.dataclass
class Decision:
    """What the policy does in one step, and what it would have done."""

    action: Int[Array, " envs"]
    invalid: Bool[Array, " envs"]
    """The oracle would not allow it."""
    oracle_action: Int[Array, " envs"]
    """With the same dice, under the oracle's mask."""
    wrong: Int[Array, " envs"]
    """Wrong entries of the predicted mask."""
    falls_back: Bool[Array, " envs"]


def play_host_episodes(
    env: HostEnvironment,
    net: Network,
    params: Any,
    *,
    masks: Masks,
    num_envs: int = 16,
    episodes: int = 1,
    seed: int = 0,
    threshold: float | Float[Array, " actions"] = 0.5,
    greedy: bool = False,
) -> EpisodeRecord:
    """The first `episodes` episodes of each of `num_envs` environments, all played to their end.
    [envs, episodes]

    The same seed means the same levels and the same dice under all masks. What needs an oracle
    (`invalid`, `changed`, `wrong`) is NaN where the environment has none.
    """
    _check(env, net, params, masks, num_envs, episodes)
    which = jnp.int32(MASKS.index(masks))
    names = [field.name for field in dataclasses.fields(EpisodeRecord)]
    record = {name: np.zeros((num_envs, episodes), np.float32) for name in names}
    finished, number = np.zeros(num_envs, np.int64), 0
    carry, reset = net.initial_carry(num_envs), jnp.ones(num_envs, bool)
    with HostVectorEnv(env, num_envs) as worlds:
        now = worlds.reset([(seed, slot) for slot in range(num_envs)])
        while (playing := finished < episodes).any():
            key = jax.random.fold_in(jax.random.key(seed), number)
            carry, decision = _decide(
                net, greedy, params, carry, now, reset, key, which, jnp.asarray(threshold)
            )
            out = worlds.step(np.where(playing, decision.action, -1))
            for name, amount in _happened(now, decision, out).items():
                record[name][playing, finished[playing]] += np.asarray(amount)[playing]
            finished += np.asarray(out.done)
            now, reset, number = First(out.observation, out.mask), out.done, number + 1
    return _as_record(record, oracle=env.has_masks)


def _happened(now: First, decision: Decision, out: Step) -> dict[str, Array]:
    """What one step adds to the record of each environment. [envs]"""
    return {
        "returns": out.reward,
        "lengths": jnp.ones_like(decision.action),
        "achievements": out.done * out.episodes.achievements,
        "solved": out.terminated & (out.reward > 0),
        "invalid": decision.invalid,
        "changed": decision.action != decision.oracle_action,
        "wrong": decision.wrong,
        "fallbacks": decision.falls_back,
        "finished": out.done,
    }


def _as_record(totals: dict[str, np.ndarray], *, oracle: bool) -> EpisodeRecord:
    fields: dict[str, Any] = {}
    for name, total in totals.items():
        if name in ("invalid", "changed", "wrong") and not oracle:
            fields[name] = np.full_like(total, np.nan)
        else:
            fields[name] = total if name == "returns" else total.astype(np.int32)
    return EpisodeRecord(**fields)


@partial(jax.jit, static_argnums=(0, 1))
def _decide(
    net: Network,
    greedy: bool,
    params: Any,
    carry: Any,
    now: First,
    reset: Bool[Array, " envs"],
    key: PRNGKeyArray,
    which: Int[Array, ""],
    threshold: Float[Array, "..."],
) -> tuple[Any, Decision]:
    """`which`: of `MASKS`, traced, so that one program serves all kinds and all runs."""
    carry, heads = look(net, params, carry, now.observation, reset)
    predicted = predicted_mask(heads.validity, threshold)
    applied = jnp.stack([now.mask, predicted, jnp.ones_like(now.mask)])[which]

    def choose(mask: Bool[Array, "envs actions"]) -> Int[Array, " envs"]:
        log_probs = masking.masked_log_softmax(heads.logits, mask)
        # The same key for both masks, so that only the mask can change the choice.
        return log_probs.argmax(-1) if greedy else masking.sample(key, log_probs)

    action = choose(applied)
    return carry, Decision(
        action=action,
        invalid=~jnp.take_along_axis(now.mask, action[:, None], axis=-1)[:, 0],
        oracle_action=choose(now.mask),
        wrong=jnp.sum(predicted != now.mask, axis=-1, dtype=jnp.int32),
        falls_back=masking.falls_back(applied),
    )


def _check(
    env: HostEnvironment, net: Network, params: Any, masks: Masks, num_envs: int, episodes: int
) -> None:
    if masks not in MASKS:
        raise UnknownNameError("kind of masks", masks, MASKS)
    for name, number in (("episodes", episodes), ("num_envs", num_envs)):
        if number < 1:
            raise MasklessError(f"{name} must be at least 1, not {number}.")
    if masks == "oracle" and not env.has_masks:
        raise MasklessError(
            f"{env.id} has no action masks, so there is no oracle: evaluate it with --masks"
            " predicted none."
        )
    if net.num_actions != env.num_actions:
        raise MasklessError(
            f"This policy has {net.num_actions} actions and {env.id} has {env.num_actions}:"
            " evaluate it where it was trained, or in the real game of the same kind."
        )
    blank = jax.tree.map(lambda x: jnp.zeros((1, *x.shape), x.dtype), env.observation_shapes)
    try:
        jax.eval_shape(partial(look, net), params, net.initial_carry(1), blank, jnp.ones(1, bool))
    except FlaxError as error:
        raise MasklessError(
            f"This policy cannot read the observations of {env.id}: evaluate it where it was"
            " trained, or in the real game of the same kind."
        ) from error
