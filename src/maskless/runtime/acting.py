"""A policy that acts with NumPy alone. The arguments and answers are those of `maskless.policy`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maskless.artifact.clocks import clock_entries
from maskless.artifact.fields import WHOLE, encode, match_named
from maskless.artifact.folder import check_about, find_policy, naming, read_about, read_weights
from maskless.artifact.masks import check_kind, check_mask, check_reset
from maskless.artifact.overrides import Rules
from maskless.errors import MasklessError, require
from maskless.runtime.deciding import Info, Memory, choose, falls_back, fill, restrict
from maskless.runtime.layers import sigmoid
from maskless.runtime.networks import Heads, make_network


class ActingCarry(NamedTuple):
    """What a policy remembers from step to step."""

    network: np.ndarray
    memory: Memory
    """Of what it tried in vain."""

    @property
    def arrays(self) -> list[np.ndarray]:
        """All that begin with the batch axis."""
        leaves, action, failures = self.memory
        return [self.network, action, failures, *leaves]


class Policy:
    """A network with its weights, thresholds and overrides, in NumPy. `load` makes it."""

    def __init__(self, about: dict[str, Any], weights: Mapping[str, np.ndarray]):
        """`about`: the entries of policy.json."""
        fields, overrides = check_about(about)
        self.fields, self.overrides = fields, overrides
        self.action_names = tuple(about["action_names"])
        self.classifier, self.clone = about["classifier"], about.get("clone", False)
        self.clock_fields = tuple(about.get("clock_fields", ()))
        self.default_masks = "clone" if self.clone and not self.classifier else "predicted"
        thresholds = about.get("thresholds") or [about["threshold"]] * len(self.action_names)
        # None, which means always valid, becomes one below all scores.
        self.thresholds = np.array([-1.0 if t is None else t for t in thresholds], np.float32)
        self.net = make_network(about["net"], weights, fields)
        require(self.net.cloned or not self.clone, "its network has no cloned head")
        self._everything = np.ones(len(self.action_names), bool)
        self._rules = Rules(overrides, self.action_names, fields)
        clocks = (clock_entries(self.clock_fields, f.name, f.shape) for f in fields)
        self._clocks = [clock if clock.any() else None for clock in clocks]
        self._carry_shapes = [x.shape[1:] for x in self.initial_carry().arrays]
        self._rng = np.random.default_rng()

    def initial_carry(self, batch: int = 1) -> ActingCarry:
        """What the policy remembers at the start of an episode. All arrays begin with the batch
        axis, also for a single observation (batch = 1)."""
        leaves = [np.zeros((batch, *field.shape), field.dtype) for field in self.fields]
        none_yet = np.zeros((batch, len(self.action_names)), np.int32)
        memory = Memory(leaves, np.full(batch, -1, np.int32), none_yet)
        return ActingCarry(self.net.initial_carry(batch), memory)

    def act(
        self,
        obs: Any,
        carry: ActingCarry | None = None,
        rng: np.random.Generator | int | None = None,
        masks: Any = None,
        *,
        memory: bool | None = None,
        reset: Any = None,
        greedy: bool = False,
    ) -> tuple[np.ndarray, ActingCarry, Info]:
        """An action for each observation, what to remember until the next, and why.

        The arguments are those of `maskless.policy.Policy.act`, but for `rng`: NumPy's generator
        for the draw, or a seed; by default one of the policy's own.
        """
        leaves, batched = match_named(_by_name(obs), self.fields)
        batch = len(leaves[0])
        carry = self.initial_carry(batch) if carry is None else self._check_carry(carry, batch)
        kind, allowed = self._check_masks(masks, batch, batched)
        starts = None
        if reset is not None:
            check_reset(reset := np.asarray(reset), batch, batched)
            starts = reset.reshape(batch)
        network, heads = self.net(carry.network, leaves, starts, cloned=kind == "clone")
        tried = carry.memory.look(leaves, starts, self._clocks)
        remembers = kind in ("predicted", "clone") if memory is None else memory
        info = self._apply_mask(leaves, heads, kind, allowed, tried if remembers else None)
        action = choose(info.logits, info.mask, None if greedy else self._dice(rng))
        carry = ActingCarry(network, Memory([leaf.copy() for leaf in leaves], action, tried))
        return (action, carry, info) if batched else (action[0], carry, info.first())

    def encode(self, observation: Any) -> dict[str, np.ndarray]:
        """One observation as a Gymnasium environment shows it, as `act` reads it."""
        return encode(_by_name(observation), self.fields)

    def _apply_mask(
        self,
        leaves: list[np.ndarray],
        heads: Heads,
        kind: str,
        allowed: np.ndarray | None,
        tried: np.ndarray | None,
    ) -> Info:
        """The mask that is applied, as `maskless.policy.Policy.make_mask` has it."""
        validity = sigmoid(heads.validity)
        everything = self._everything  # broadcast to the batch
        if kind == "predicted":
            predicted = validity > self.thresholds
        else:
            predicted = np.ones_like(validity, bool)
        mask, candidates = predicted, everything
        changed: list[np.ndarray] = []
        if self.overrides:
            scores = validity if kind == "predicted" else np.full_like(validity, np.inf)
            mask, forbidden, changed = self._rules.apply(leaves, scores, predicted)
            candidates = ~forbidden
        if kind == "none":
            mask, candidates = predicted, everything
            changed = [np.zeros_like(where) for where in changed]
        overridden = mask != predicted if self.overrides else np.zeros_like(mask)
        if allowed is not None:
            permitted = candidates & allowed
            candidates = permitted | (falls_back(permitted)[:, None] & allowed)
            mask = mask & allowed
        if tried is not None:
            mask, excluded, fallback = restrict(mask, candidates, heads.validity, tried)
        else:
            fallback, excluded = falls_back(mask), np.zeros_like(mask)
            mask = mask | (fallback[:, None] & fill(candidates))
        logits = heads.logits if heads.clone is None else heads.clone
        return Info(validity, mask, fallback, excluded, overridden, changed, logits)

    def _dice(self, rng: Any) -> np.random.Generator:
        if rng is None:
            return self._rng
        if isinstance(rng, int | np.integer):
            return np.random.default_rng(rng)
        right = isinstance(rng, np.random.Generator)
        require(right, f"rng must be NumPy's generator or a seed, not {type(rng).__name__}.")
        return rng

    def _check_masks(self, masks: Any, batch: int, batched: bool) -> tuple[str, np.ndarray | None]:
        """The kind of masks, and the caller's own if there is one."""
        if masks is None:
            masks = self.default_masks
        if isinstance(masks, str):
            check_kind(masks, classifier=self.classifier, clone=self.clone)
            return masks, None
        own, actions = np.asarray(masks), len(self.action_names)
        check_mask(own, (batch, actions) if batched else (actions,))
        return "none", own.astype(bool).reshape(batch, actions)

    def _check_carry(self, carry: Any, batch: int) -> ActingCarry:
        shapes = [(batch, *shape) for shape in self._carry_shapes]
        known = isinstance(carry, ActingCarry) and shapes == [x.shape for x in carry.arrays]
        if not known:
            raise MasklessError(
                f"The carry does not fit {batch} observations of this policy: start with"
                f" policy.initial_carry({batch}) and pass on what act returns."
            )
        return carry


def load(path: Path | str) -> Policy:
    """The policy in an artifact's folder, or in a run's folder that has one in `policy/`.

    Executes nothing from the folder, and checks it as `maskless.load` does.
    """
    folder = find_policy(path)
    with naming(folder):
        about = read_about(folder)
        return Policy(about, read_weights(folder, about["weights_sha256"]))


def _by_name(observation: Any, prefix: str = "") -> dict[str, Any]:
    """The arrays of an observation: of mappings, tuples and dataclasses within one another."""
    parts = observation
    if hasattr(parts, "_asdict"):
        parts = parts._asdict()
    elif hasattr(parts, "__dataclass_fields__"):
        parts = {name: getattr(parts, name) for name in parts.__dataclass_fields__}
    elif isinstance(parts, tuple):
        parts = {str(n): part for n, part in enumerate(parts)}
    if not isinstance(parts, Mapping):
        return {prefix or WHOLE: parts}
    named = {}
    for name, part in parts.items():
        named.update(_by_name(part, f"{prefix}.{name}" if prefix else str(name)))
    return named
