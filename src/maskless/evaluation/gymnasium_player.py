"""Playing in Gymnasium environments, also in those where no oracle exists."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from maskless.envs.base import Environment
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.envs.gymnasium.vector import HostVectorEnv
from maskless.envs.vector import Step
from maskless.evaluation import episodes as game
from maskless.evaluation.episodes import Choice, Fold, MaskSource, Overrule, Play, Player, no_fold
from maskless.nets import AnyNetwork
from maskless.ppo.rollout import Actor
from maskless.training.gymnasium_program import NO_WORLDS


class GymnasiumPlayer(Player):
    """A player whose worlds are in worker processes."""

    def __init__(
        self,
        env: Environment,
        num_envs: int,
        net: AnyNetwork,
        *,
        greedy: bool = False,
        overrule: Overrule | None = None,
        fold: Fold = no_fold,
        clock_fields: tuple[str, ...] | None = None,
    ):
        assert isinstance(env, HostEnvironment)
        self.num_envs = num_envs
        self._net, self._greedy, self._overrule, self._fold = net, greedy, overrule, fold
        self._clocks = env.clock_fields if clock_fields is None else clock_fields
        self._worlds = HostVectorEnv(env, num_envs)

    def begin(self, seed: int, episodes: int) -> Play:
        """Every environment at the start of its first episode, decided by (seed, its number)."""
        now = self._worlds.reset([(seed, number) for number in range(self.num_envs)])
        carry, reset = self._net.initial_carry(self.num_envs), jnp.ones(self.num_envs, bool)
        actor = Actor(NO_WORLDS, carry, now, reset)
        return game.before_first_step(actor, jax.random.key(seed), episodes)

    def _advance(
        self, params: Any, play: Play, source: MaskSource, threshold: Any, accumulator: Any
    ) -> tuple[Play, Any]:
        """Some steps of all environments that have episodes to play; the others are left alone."""
        episodes = play.record.finished.shape[1]
        for _ in range(game.STEPS):
            playing = np.asarray(play.episode) < episodes
            if not playing.any():
                break
            key, carry, choice = _choose(
                self._net, self._greedy, self._overrule, params, play, source, threshold
            )
            out = self._worlds.step(np.where(playing, choice.action, -1))
            play, accumulator = _conclude(
                self._fold, self._clocks, play, key, carry, choice, out, accumulator
            )
        return play, accumulator

    def close(self) -> None:
        """Ends the worker processes."""
        self._worlds.close()


@partial(jax.jit, static_argnums=(0, 1, 2))
def _choose(
    net: AnyNetwork,
    greedy: bool,
    overrule: Overrule | None,
    params: Any,
    play: Play,
    source: MaskSource,
    threshold: float | Float[Array, "..."],
) -> tuple[PRNGKeyArray, Any, Choice]:
    key, act_key = jax.random.split(play.key)
    carry, choice = game.choose(
        net, params, play, act_key, source, threshold, greedy=greedy, overrule=overrule
    )
    return key, carry, choice


@partial(jax.jit, static_argnums=(0, 1))
def _conclude(
    fold: Fold,
    clock_fields: tuple[str, ...],
    play: Play,
    key: PRNGKeyArray,
    carry: Any,
    choice: Choice,
    out: Step,
    accumulator: Any,
) -> tuple[Play, Any]:
    accumulator = fold(accumulator, play, choice)
    return game.conclude(play, key, NO_WORLDS, carry, choice, out, clock_fields), accumulator
