"""The contract that every world follows, so that masks, learner and audit are written once.

The calling convention is gymnax's, unbatched and without auto-reset, plus `validity`. Everything
is a pure function of its arguments: batch with `jax.vmap`, compile with `jax.jit`.
`VectorEnv` (vector.py) adds batching, fresh levels and episode statistics.
"""

import abc
import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray, PyTree

from maskless.errors import MasklessError, UnknownNameError
from maskless.nets.encoders import Encoder

State = Any  # a pytree that only the environment looks into
Observation = PyTree[Array]
Info = dict[str, Array]


class Environment(abc.ABC):
    """One world. Subclass it, or imitate it, to use your own."""

    id: str
    """The name `maskless.make` knows it by."""
    action_names: tuple[str, ...]
    """One name per action, in the order of the action numbers and of the mask."""
    episode_limit: int
    """The number of steps after which an episode is cut off."""
    noop_action: int | None = None
    """The action that leaves the world to itself: the audit's reference. None: there is none."""
    achievement_names: tuple[str, ...] = ()
    """What can be achieved once per episode; empty when the game has no such notion."""
    rule_sets: ClassVar[tuple[str, ...]] = ("exact",)
    """The names of the mask rules on offer; the first one is the default."""
    exact_rules: ClassVar[str | None] = "exact"
    """The rule set, if any, that promises: valid = can change the world."""
    rules: str = "exact"
    """The rules that `validity` follows."""
    encoder: Encoder = Encoder()
    """How networks read its observations, and what it records."""
    default_hyperparameters: Mapping[str, Any] = MappingProxyType({})
    """Where this world needs other ones than `Hyperparameters` has."""
    runs_on_host: bool = False
    """Whether it is played in Python processes instead of inside JAX."""
    made_from: tuple[str, Mapping[str, Any]] | None = None
    """The id and the options that `maskless.make` made it from; None: somebody else made it."""
    has_masks: bool = True
    """False: no oracle tells what is valid here."""
    levels_at_a_time: ClassVar[int] = 64
    """How many levels a CPU makes fastest side by side (large worlds fall out of its cache)."""
    levels_at_a_time_on_accelerators: ClassVar[int] = 64
    """The same for a GPU, which makes more of them in the same time as long as they fit."""

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray, params: Any = None) -> tuple[Observation, State]:
        """A fresh level."""

    @abc.abstractmethod
    def step(
        self, key: PRNGKeyArray, state: State, action: Integer[Array, ""] | int, params: Any = None
    ) -> tuple[Observation, State, Float[Array, ""], Bool[Array, ""], Info]:
        """One step, without auto-reset: after `done` the state is the last one of the episode.

        `info["truncated"]` is True when the time limit alone ended the episode.
        """

    @abc.abstractmethod
    def observe(self, state: State) -> Observation:
        """What the agent sees of `state`: what `reset` and `step` return with it."""

    @abc.abstractmethod
    def validity(self, state: State, params: Any = None) -> Bool[Array, " actions"]:
        """The mask of `state`: True = valid. At least one action is valid in every state."""

    def record(self, state: State) -> PyTree[Array]:
        """What a rollout stores of `state` for learning: anything that `encoder` reads as it reads
        the observation. By default the observation; in fewer bytes, more of it fits."""
        return self.observe(state)

    @property
    def num_actions(self) -> int:
        return len(self.action_names)

    @property
    def observation_shapes(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and types of one observation."""
        return jax.eval_shape(self.reset, jax.random.key(0))[0]

    @property
    def default_params(self) -> Any:
        """The parameters used when none are given."""
        return None

    def achievements(self, state: State) -> Bool[Array, " achievements"]:
        """Which of `achievement_names` have been reached in this episode."""
        return jax.numpy.zeros(len(self.achievement_names), bool)

    def waivers(self, state: State) -> dict[str, Bool[Array, " actions"]]:
        """Where the mask may differ from what the game does, by decision, and why.

        A name that states the reason -> the actions of this state it covers. The audit counts
        these apart from errors.
        """
        return {}

    def effect_view(self, state: State) -> Any:
        """The part of a state in which a change counts as an effect of an action. The audit asks
        only where there is no reference no-op; then drop what every step changes (step counters).
        """
        return state

    def perturb(self, key: PRNGKeyArray, state: State) -> State | None:
        """An edit of `state` that meets preconditions which random play hardly reaches, for the
        audit. None: this environment has no such edits."""
        return None

    def render(self, state: State) -> dict[str, Any]:
        """Pictures of one state for the terminal, by title (anything `rich` prints); empty: the
        environment has no such view."""
        return {}

    def with_rules(self, rules: str) -> "Environment":
        """The same environment under other mask rules."""
        if rules not in self.rule_sets:
            raise UnknownNameError(f"mask rules of {self.id}", rules, self.rule_sets)
        other = copy.copy(self)
        other.rules = rules
        return other

    def check_action(self, action: Any) -> None:
        """Refuses an action number that does not exist. Inside jit the value cannot be seen;
        there every environment treats such a number as some no-op."""
        if isinstance(action, jax.core.Tracer):
            return
        numbers = np.asarray(action)
        if not np.issubdtype(numbers.dtype, np.integer):
            raise MasklessError(f"An action is an integer, not {numbers.dtype}: {action!r}.")
        if numbers.size and (numbers.min() < 0 or numbers.max() >= self.num_actions):
            raise MasklessError(
                f"{self.id} has the actions 0 to {self.num_actions - 1}; got {action!r}."
            )
