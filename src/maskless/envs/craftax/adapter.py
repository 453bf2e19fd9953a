"""Craftax and Craftax-Classic behind the contract. Upstream plays; we only add masks.

`state` is upstream's `EnvState`, unchanged, and observation, reward and done are upstream's own.
"""

import enum
import functools
from collections.abc import Sequence
from types import MappingProxyType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from craftax.craftax.constants import Achievement as FullAchievement
from craftax.craftax.constants import Action as FullAction
from craftax.craftax.envs.craftax_symbolic_env import CraftaxSymbolicEnvNoAutoReset
from craftax.craftax_classic.constants import Achievement as ClassicAchievement
from craftax.craftax_classic.constants import Action as ClassicAction
from craftax.craftax_classic.envs.craftax_symbolic_env import CraftaxClassicSymbolicEnvNoAutoReset
from jaxtyping import Array, Bool

from maskless.envs.base import Environment, Info, Observation, State
from maskless.envs.craftax import masks_classic as classic
from maskless.envs.craftax import masks_full as full
from maskless.envs.craftax.loopless import loopless
from maskless.envs.craftax.observation import (
    Compact,
    CompactEncoder,
    compact_classic,
    compact_full,
    expand_classic,
    expand_full,
)
from maskless.envs.craftax.perturb import edit_classic, edit_full, perturb
from maskless.envs.craftax.prudence import (
    CLASSIC_RULES,
    FULL_RULES,
    REASONS,
    Waste,
    classic_waste,
    full_waste,
)
from maskless.errors import UnknownNameError

ENGINES = ("auto", "upstream", "loopless")
_OLD_NAMES = {"straight": "loopless"}


def _by_number(members: type[enum.Enum]) -> tuple[str, ...]:
    """The names of an upstream enumeration, ordered by value rather than by definition."""
    return tuple(members(value).name.lower() for value in range(len(members)))


class CraftaxEnvironment(Environment):
    """What the two games have in common."""

    default_preset = "paper"
    rule_sets = ("paper", "exact", "prudent")
    noop_action = 0
    levels_at_a_time = 16
    _upstream: Any
    _rules: ModuleType
    _waste: Waste
    _edit: Any
    _compact: Any
    _expand: Any

    def __init__(
        self, rules: str = "paper", engine: str = "auto", prudence: Sequence[str] | None = None
    ):
        """`prudence`: the rules (prudence.py) that `rules="prudent"` adds to the exact ones; None:
        all that the game has. `engine`: how a step is computed, with the same result bit for bit:
        "upstream" as it is written, "loopless" without its loops (loopless.py: several times
        faster on a GPU, slower on a CPU; also called "straight"), "auto" what suits the device."""
        engine = _OLD_NAMES.get(engine, engine)
        if engine not in ENGINES:
            raise UnknownNameError("engine", engine, ENGINES)
        self.engine = engine
        self.encoder = CompactEncoder(self._expand)
        self.rules = self.with_rules(rules).rules
        for name in prudence or ():
            if name not in self.prudent_rules:
                raise UnknownNameError(f"prudent rule of {self.id}", name, self.prudent_rules)
        self.prudence = tuple(self.prudent_rules if prudence is None else prudence)
        self.episode_limit = self.default_params.max_timesteps

    @property
    def default_params(self) -> Any:
        return self._upstream.default_params

    def reset(self, key: Any, params: Any = None) -> tuple[Observation, State]:
        return self._upstream.reset(key, self._params(params))

    def step(
        self, key: Any, state: State, action: Any, params: Any = None
    ) -> tuple[Observation, State, Any, Any, Info]:
        self.check_action(action)
        # Inside jit a wrong number cannot be refused; upstream would wrap a negative one around
        # and walk.
        action = jnp.where((action >= 0) & (action < self.num_actions), action, self.noop_action)
        params = self._params(params)
        state, reward, done, ended, info = self._play(key, state, action, params)
        info = info | {"truncated": done & ~ended}
        return self.observe(state), state, reward, done, info

    def _play(self, *arguments: Any) -> tuple[State, Any, Any, Any, Info]:
        """Upstream's step, without its observation; fourth: whether the game ended by itself."""

        def play(key: Any, state: State, action: Any, params: Any) -> Any:
            _, state, reward, done, info = self._upstream.step(key, state, action, params)
            # Upstream's `done` mixes the time limit with death; without the limit it is death (or,
            # in the full game, victory) alone.
            no_limit = params.replace(max_timesteps=state.timestep + 1)
            return state, reward, done, self._upstream.is_terminal(state, no_limit), info

        on_cpu = jax.default_backend() == "cpu"
        if self.engine == "upstream" or (self.engine == "auto" and on_cpu):
            return play(*arguments)
        return loopless(play)(*arguments)

    def observe(self, state: State) -> Observation:
        return self._expand(self._compact(state))

    def record(self, state: State) -> Compact:
        return self._compact(state)

    def validity(self, state: State, params: Any = None) -> Bool[Array, " actions"]:
        if self.rules == "paper":
            return _validity(self._rules, "paper", state, self._params(params))
        valid = self.feasible(state, params)
        for forbidden in self._forbidden(state).values():
            valid = valid & ~forbidden
        return valid

    def feasible(self, state: State, params: Any = None) -> Bool[Array, " actions"]:
        return _validity(self._rules, "exact", state, self._params(params))

    def waste(self, state: State) -> dict[str, Bool[Array, " actions"]]:
        return self._waste(state)

    def achievements(self, state: State) -> Bool[Array, " achievements"]:
        return state.achievements

    def waivers(self, state: State) -> dict[str, Bool[Array, " actions"]]:
        if self.rules == "paper":
            return {}
        return self._rules.waivers(state) | self._forbidden(state)

    def perturb(self, key: Any, state: State) -> State:
        return perturb(self._edit, key, state)

    def _forbidden(self, state: State) -> dict[str, Bool[Array, " actions"]]:
        """By reason: what works and is not to be tried. Nothing, unless the rules are prudent."""
        if self.rules != "prudent":
            return {}
        waste = self.waste(state)
        return {REASONS[name]: waste[name] for name in self.prudence}

    def _params(self, params: Any) -> Any:
        return self.default_params if params is None else params


class Craftax(CraftaxEnvironment):
    """The full game: 43 actions, 9 floors, 8268 numbers per observation."""

    id = "craftax"
    action_names = _by_number(FullAction)
    achievement_names = _by_number(FullAchievement)
    _upstream = CraftaxSymbolicEnvNoAutoReset()
    _rules = full
    prudent_rules = MappingProxyType({name: REASONS[name] for name in FULL_RULES})
    _waste = staticmethod(full_waste)
    _edit = staticmethod(edit_full)
    _compact = staticmethod(compact_full)
    _expand = staticmethod(expand_full)


class CraftaxClassic(CraftaxEnvironment):
    """The small game: 17 actions, one floor, 1345 numbers per observation."""

    id = "craftax-classic"
    action_names = _by_number(ClassicAction)
    achievement_names = _by_number(ClassicAchievement)
    _upstream = CraftaxClassicSymbolicEnvNoAutoReset()
    _rules = classic
    prudent_rules = MappingProxyType({name: REASONS[name] for name in CLASSIC_RULES})
    _waste = staticmethod(classic_waste)
    _edit = staticmethod(edit_classic)
    _compact = staticmethod(compact_classic)
    _expand = staticmethod(expand_classic)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _validity(module: ModuleType, rules: str, state: State, params: Any) -> Bool[Array, " actions"]:
    return {"paper": module.paper_rules, "exact": module.exact_rules}[rules](state, params)
