"""The contract that every environment follows, so that masks, learner and audit are written once.

The calling convention is gymnax's, unbatched and without auto-reset, plus `validity`. Everything
is a pure function of its arguments: batch with `jax.vmap`, compile with `jax.jit`. `VectorEnv`
(vector.py) adds batching, fresh levels and episode statistics. One of your own, a walk from 0 to 3:

    class Walk(maskless.Environment):
        id, action_names, episode_limit = "walk", ("back", "on"), 20
        def reset(self, key, params=None): return self.observe(jnp.int32(0)), jnp.int32(0)
        def step(self, key, state, action, params=None):
            state = state + 2 * action - 1
            return self.observe(state), state, (state == 3) * 1.0, state == 3, {}
        def observe(self, state): return jax.nn.one_hot(state, 4)
        def validity(self, state, params=None): return jnp.array([state > 0, True])  # True = valid

`maskless.envs.check_contract(Walk())` says in one sentence what does not fit together.
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
Observation = PyTree[Array | np.ndarray]
Info = dict[str, Array]


class Environment(abc.ABC):
    """One environment. Subclass it, or imitate it, to use your own."""

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
    prudent_rules: Mapping[str, str] = MappingProxyType({})
    """The parts that its mask can have besides feasibility: the name of a rule that forbids what
    would work, and why. Which apply is a number of the condition (`envs.prudence`)."""
    encoder: Encoder = Encoder()
    """How networks read its observations, and what it records."""
    default_hyperparameters: Mapping[str, Any] = MappingProxyType({})
    """Where this environment needs other values than the defaults of `Hyperparameters`."""
    default_preset: str | None = None
    """The preset (`maskless.presets`) that it is trained with unless somebody asks for another;
    None: the one for its kind and this device."""
    runs_on_host: bool = False
    """Whether it is played in Python processes instead of inside JAX."""
    made_from: tuple[str, Mapping[str, Any]] | None = None
    """The id and the options that `maskless.make` made it from; None: it was made otherwise."""
    clock_fields: tuple[str, ...] = ()
    """Fields of the observation, or entries such as "status[3]", that change by themselves: what
    else is the same after an action, the action has failed (`maskless.failures`)."""
    has_masks: bool = True
    """Whether `validity` gives a mask; False: there is no oracle."""
    levels_at_a_time: ClassVar[int] = 64
    """Batch size at which a CPU makes levels fastest (large states fall out of its cache)."""
    levels_at_a_time_on_accelerators: ClassVar[int] = 64
    """The same for a GPU, where larger batches cost no more time as long as they fit."""

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
        """The mask of `state`: True = valid. While an episode goes on, at least one action is."""

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

    def feasible(self, state: State, params: Any = None) -> Bool[Array, " actions"]:
        """The mask of `state` without any prudent rule."""
        return self.validity(state, params)

    def waste(self, state: State) -> dict[str, Bool[Array, " actions"]]:
        """By prudent rule, all of them: what works in `state` and is not worth trying."""
        return {}

    def waivers(self, state: State) -> dict[str, Bool[Array, " actions"]]:
        """Where the mask may differ from what the game does, by decision, and why.

        A name that states the reason -> the actions of this state it covers. The audit counts
        these apart from errors.
        """
        return {}

    def effect_view(self, state: State) -> Any:
        """The part of a state in which a change counts as an effect of an action. Used by the
        audit where there is no `noop_action`; leave out what every step changes (step counters).
        """
        return state

    def perturb(self, key: PRNGKeyArray, state: State) -> State | None:
        """A random edit of `state`, for the audit: it meets preconditions that random play hardly
        reaches. None: this environment has no such edits."""
        return None

    def render(self, state: State) -> dict[str, Any]:
        """Pictures of one state for the terminal, by title (anything `rich` prints); empty: it has
        none."""
        return {}

    def with_rules(self, rules: str) -> "Environment":
        """A copy of this environment with other mask rules."""
        if rules not in self.rule_sets:
            raise UnknownNameError(f"mask rules of {self.id}", rules, self.rule_sets)
        other = copy.copy(self)
        other.rules = rules
        if self.made_from is not None and rules != self.rules:
            id, options = self.made_from
            other.made_from = (id, {**options, "rules": rules})
        return other

    def check_action(self, action: Any) -> None:
        """Refuses an action number that does not exist. Under jit the value is unknown; there every
        environment treats such a number as a no-op."""
        if isinstance(action, jax.core.Tracer):
            return
        numbers = np.asarray(action)
        if not np.issubdtype(numbers.dtype, np.integer):
            raise MasklessError(f"An action is an integer, not {numbers.dtype}: {action!r}.")
        if numbers.size and (numbers.min() < 0 or numbers.max() >= self.num_actions):
            raise MasklessError(
                f"{self.id} has the actions 0 to {self.num_actions - 1}; got {action!r}."
            )
