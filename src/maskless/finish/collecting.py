"""Fresh states for the student: the frozen policy plays under its own masks, and the oracle labels
where that leads."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, PyTree

from maskless import masking
from maskless.envs import Environment, VectorEnv
from maskless.evaluation.episodes import STEPS, Choice, MaskSource, Play
from maskless.evaluation.player import JaxPlayer, Player, make_player
from maskless.finish.memory import Labelled
from maskless.nets import Heads, apply
from maskless.nets.deployable import Deployable

EPISODES = 2**12
"""More than an environment plays while a student learns."""


@struct.dataclass
class Fresh:
    """States that the student has not learned from, and what it makes of them. [states, ...]"""

    labelled: Labelled
    validity: Float[Array, "states actions"]
    clone: Float[Array, "states actions"]


@dataclasses.dataclass(frozen=True)
class Quality:
    """How well the student does on fresh states. All are means over states; 0 is perfect."""

    wrong: float
    """Share of wrong entries of the predicted masks."""
    invalid_predicted: float
    """Probability of an invalid action under predicted masks."""
    invalid_clone: float
    """The same by the clone."""
    moved_predicted: float
    """Total variation between the policy under the oracle's mask and under the predicted one."""
    moved_clone: float
    """Total variation between the policy under the oracle's mask and the clone."""

    @property
    def moved(self) -> float:
        """What is to become small."""
        return self.moved_predicted + self.moved_clone


class Collector:
    """The worlds of the phase. Compiled once for all runs of a training, which play one after the
    other."""

    def __init__(self, env: Environment, net: Deployable, num_envs: int):
        self._player: Player
        self._net, self._actions = net, env.num_actions
        if env.runs_on_host:
            # What comes of an invalid action teaches nothing here, and some worlds raise at it.
            spared = env.never_asked_invalid()  # type: ignore[attr-defined]
            self._player = make_player(spared, num_envs, net, fold=self._write)
        else:
            venv = VectorEnv(env, num_envs, observe=env.record)
            self._player = JaxPlayer(venv, net, fold=self._write, refresh=True, greedy=False)

    def begin(self, seed: int) -> Play:
        """All environments at the start of an episode."""
        return self._player.begin(seed, EPISODES)

    def collect(
        self, params: Any, play: Play, states: int, threshold: Any, *, by_oracle: bool
    ) -> tuple[Play, Fresh]:
        """Plays on for at least so many states: `by_oracle` under the oracle's masks alone, as long
        as the student knows nothing; afterwards in a third of the environments each under the
        oracle's masks, under predicted ones, and by the clone."""
        source, parts = self._source(by_oracle), []
        shapes = self._shapes(params, play)
        for _ in range(-(-states // self.frames_at_a_time)):
            blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            play, (_, fresh) = self._player.advance(
                params, play, source, threshold, (jnp.int32(0), blank)
            )
            fresh = jax.device_get(fresh)
            parts.append(jax.tree.map(lambda x: np.concatenate(list(x)), fresh))
        return play, jax.tree.map(lambda *x: np.concatenate(x), *parts)

    @property
    def frames_at_a_time(self) -> int:
        """What is collected is a multiple of this."""
        return STEPS * self._player.num_envs

    def close(self) -> None:
        """Ends the worlds."""
        self._player.close()

    def _source(self, by_oracle: bool) -> MaskSource:
        envs = self._player.num_envs
        third = jnp.arange(envs) % 3
        corrected = (third == 0) | by_oracle
        return MaskSource(
            corrected=jnp.broadcast_to(corrected[:, None], (envs, self._actions)),
            ignored=jnp.zeros(envs, bool),
            cloned=(third == 2) & (not by_oracle),
            remembers=third > 0,
        )

    def _shapes(self, params: Any, play: Play) -> Fresh:
        """What `_write` fills. [STEPS, envs, ...]"""

        def outputs(params: Any, play: Play) -> Fresh:
            now = play.actor.now
            sequence = jax.tree.map(lambda x: x[None], (now.observation, play.actor.reset))
            _, heads = apply(self._net, params, play.actor.carry, *sequence)
            return self._fresh(sequence[0], heads, now.mask[None])

        shapes = jax.eval_shape(outputs, params, play)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((STEPS, *x.shape[1:]), x.dtype), shapes)

    def _write(self, accumulator: PyTree, before: Play, step: Choice) -> PyTree:
        """Keeps a step of all environments."""
        number, fresh = accumulator
        new = self._fresh(before.actor.now.observation, step.heads, step.valid)
        return number + 1, jax.tree.map(lambda steps, x: steps.at[number].set(x), fresh, new)

    def _fresh(self, observation: PyTree, heads: Heads, valid: Array) -> Fresh:
        """Without features where the student does not read them: they are most of the bytes."""
        features = heads.features if self._net.recurrent else heads.features[..., :0]
        labelled = Labelled(observation, features, heads.logits, valid)
        return Fresh(labelled, heads.validity, heads.clone)


def quality(fresh: Fresh, threshold: float) -> Quality:
    """Of the student's predictions on these states."""
    return Quality(*map(float, _quality(fresh, jnp.float32(threshold))))


@jax.jit
def _quality(fresh: Fresh, threshold: Float[Array, ""]) -> tuple[Float[Array, ""], ...]:
    logits, valid = fresh.labelled.logits, fresh.labelled.valid
    predicted = masking.predicted_mask(fresh.validity, threshold)
    oracle = masking.masked_log_softmax(logits, valid)
    under_predicted = masking.masked_log_softmax(logits, predicted)
    clone = jax.nn.log_softmax(fresh.clone)
    return (
        jnp.mean(predicted != valid),
        _invalid_mass(under_predicted, valid),
        _invalid_mass(clone, valid),
        jnp.mean(masking.total_variation(oracle, under_predicted)),
        jnp.mean(masking.total_variation(oracle, clone)),
    )


def _invalid_mass(
    log_probs: Float[Array, "states actions"], valid: Bool[Array, "states actions"]
) -> Float[Array, ""]:
    return jnp.mean(jnp.sum(jnp.exp(log_probs) * ~valid, axis=-1))
