"""Playing in Gymnasium environments, also in those where no oracle exists."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.errors import FlaxError
from jaxtyping import Array, Float, PRNGKeyArray

from maskless.envs.base import Environment
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.envs.gymnasium.vector import HostVectorEnv
from maskless.envs.vector import Step
from maskless.errors import MasklessError, UnknownNameError
from maskless.evaluation import player as evaluate
from maskless.evaluation.player import (
    MASKS,
    EpisodeRecord,
    Masks,
    MaskSource,
    Overrule,
    Play,
    Seen,
    Watch,
    mask_source,
)
from maskless.evaluation.stages import WITHOUT_ORACLE, Stage, check_oracle, without_oracle
from maskless.nets import Network
from maskless.ppo.rollout import Actor, look
from maskless.training.gymnasium_program import OUTSIDE


class HostStage(Stage):
    """A stage whose worlds are in worker processes."""

    def __init__(
        self,
        env: Environment,
        num_envs: int,
        net: Network,
        *,
        greedy: bool = False,
        overrule: Overrule | None = None,
        watch: Watch = evaluate.not_watching,
    ):
        assert isinstance(env, HostEnvironment)
        self.num_envs = num_envs
        self._net, self._greedy, self._overrule, self._watch = net, greedy, overrule, watch
        self._worlds = HostVectorEnv(env, num_envs)

    def begin(self, seed: int, episodes: int) -> Play:
        """Every environment at the start of its first episode, decided by (seed, its number)."""
        now = self._worlds.reset([(seed, slot) for slot in range(self.num_envs)])
        carry, reset = self._net.initial_carry(self.num_envs), jnp.ones(self.num_envs, bool)
        actor = Actor(OUTSIDE, carry, now, reset)
        return evaluate.before_the_first_step(actor, jax.random.key(seed), episodes)

    def advance(
        self,
        params: Any,
        play: Play,
        source: MaskSource,
        threshold: float | Float[Array, "..."],
        known: Any = None,
    ) -> tuple[Play, Any]:
        """Some steps of all environments that have episodes to play; the others are left alone."""
        episodes = play.record.finished.shape[1]
        for _ in range(evaluate.STEPS):
            playing = np.asarray(play.episode) < episodes
            if not playing.any():
                break
            key, carry, seen = _choose(
                self._net, self._greedy, self._overrule, params, play, source, threshold
            )
            out = self._worlds.step(np.where(playing, seen.action, -1))
            play, known = _conclude(self._watch, play, key, carry, seen, out, known)
        return play, known

    def close(self) -> None:
        """Ends the worker processes."""
        self._worlds.close()


@partial(jax.jit, static_argnums=(0, 1, 2))
def _choose(
    net: Network,
    greedy: bool,
    overrule: Overrule | None,
    params: Any,
    play: Play,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
) -> tuple[PRNGKeyArray, Any, Seen]:
    key, act_key = jax.random.split(play.key)
    carry, seen = evaluate.decide(
        net, params, play.actor, act_key, source, threshold, greedy=greedy, overrule=overrule
    )
    return key, carry, seen


@partial(jax.jit, static_argnums=0)
def _conclude(
    watch: Watch, play: Play, key: PRNGKeyArray, carry: Any, seen: Seen, out: Step, known: Any
) -> tuple[Play, Any]:
    known = watch(known, play, seen)
    return evaluate.conclude(play, key, OUTSIDE, carry, seen, out), known


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
    source = mask_source(masks, env.num_actions)
    with HostStage(env, num_envs, net, greedy=greedy) as stage:
        play = stage.begin(seed, episodes)
        while not np.all(play.record.finished):
            play, _ = stage.advance(params, play, source, jnp.asarray(threshold))
    record = jax.device_get(play.record)
    return record if env.has_masks else without_oracle(record)


def _check(
    env: HostEnvironment, net: Network, params: Any, masks: Masks, num_envs: int, episodes: int
) -> None:
    if masks not in MASKS:
        raise UnknownNameError("kind of masks", masks, MASKS)
    for name, number in (("episodes", episodes), ("num_envs", num_envs)):
        if number < 1:
            raise MasklessError(f"{name} must be at least 1, not {number}.")
    if masks == "oracle":
        check_oracle(env, WITHOUT_ORACLE)
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
