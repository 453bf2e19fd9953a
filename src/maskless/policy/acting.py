"""A policy that acts where no oracle exists.

    policy = maskless.load("runs/staircase-gru-1/masked-kl/seed-0")
    carry = policy.initial_carry(batch)
    action, carry, info = policy.act(obs, carry, key)     # under the predicted mask

What has just been tried in vain is not tried again until the observation changes: the carry holds
a memory of failures (`maskless.failures`) beside the network's.
"""

import dataclasses
import os
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from maskless import failures, forks, masking, runtime
from maskless.artifact.masks import check_kind, check_mask, check_reset
from maskless.errors import MasklessError
from maskless.nets import Carry, Heads, apply
from maskless.policy.artifact import (
    Artifact,
    contents,
    describe_policy,
    read_artifact,
    write_artifact,
)
from maskless.policy.observations import PolicyEnvironment, encode_shown, match, rebuild
from maskless.policy.overrides import Overruling

_COUNT_BUFFER = 256
_process: int | None = None
"""Where the first policy was made."""


@struct.dataclass
class ActingCarry:
    """What a policy remembers from step to step. All leaves begin with the batch axis."""

    network: Carry
    memory: failures.Memory
    """Of what it tried in vain."""


@struct.dataclass
class AppliedMask:
    """A mask and how it came about. [batch, ...]; without that axis for one observation."""

    validity: Float[Array, "batch actions"]
    """The predicted probability that each action is valid; also where another mask was applied."""
    mask: Bool[Array, "batch actions"]
    """The mask that was applied. True = valid."""
    fallback: Bool[Array, " batch"]
    """True where nothing was left of the predicted mask: the policy then took, of what no override
    forbids and what has not just failed, the action with the highest validity (without a memory of
    failures, it chose among all that no override forbids)."""
    excluded: Bool[Array, "batch actions"]
    """What was left out because it has just failed."""
    overridden: Bool[Array, "batch actions"]
    """Where overrides changed the predicted mask; by the clone, where they forbid an action."""
    changed: list[Bool[Array, " batch"]]
    """For each override: where it changed the mask that those before it left."""


@struct.dataclass
class Info(AppliedMask):
    """Why the policy chose what it chose."""

    probabilities: Float[Array, "batch actions"]
    """Of the actions, under the mask that was applied."""


class Policy:
    """A network with its weights, thresholds and overrides. `load` and `policy_of` make it.

    `act` compiles once for every batch size and kind of masks.
    """

    def __init__(self, artifact: Artifact):
        _refuse_fork()
        self.artifact = artifact
        self.net = artifact.net
        self.action_names, self.fields = artifact.action_names, artifact.fields
        self.overrides = artifact.overrides
        self.params = jax.tree.map(jnp.asarray, artifact.params)
        self.thresholds = as_array(artifact.thresholds)
        self.clock_fields = artifact.clock_fields
        self.default_masks = "clone" if artifact.clone and not artifact.classifier else "predicted"
        self._act = jax.jit(self._choose, static_argnames=("masks", "remembers", "greedy"))
        self._carry_shapes: dict[int, Any] = {}
        self._pending_counts: list[Array] = []
        self._counts = np.zeros(2 + len(artifact.overrides), np.int64)
        self._counting = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins with its counts at zero, and compiles for itself."""
        try:
            pickle.dumps(self.net)
        except Exception as error:  # anything can go wrong in other people's classes
            raise MasklessError(
                f"The policy's network cannot be pickled ({error}): define its class in a module,"
                " or save the policy, and load it where it is to act."
            ) from error
        params = jax.tree.map(np.asarray, self.artifact.params)
        return Policy, (dataclasses.replace(self.artifact, params=params),)

    def initial_carry(self, batch: int = 1) -> ActingCarry:
        """What the policy remembers at the start of an episode: the network's memory, and what was
        tried in vain. All leaves begin with the batch axis, also for a single observation
        (batch = 1)."""
        _refuse_fork()
        blank = [jnp.zeros((batch, *field.shape), field.dtype) for field in self.fields]
        return self._start(blank, batch)

    def act(
        self,
        obs: PyTree[ArrayLike],
        carry: ActingCarry | None = None,
        key: PRNGKeyArray | int | None = None,
        masks: str | ArrayLike | None = None,
        *,
        memory: bool | None = None,
        reset: ArrayLike | None = None,
        greedy: bool = False,
    ) -> tuple[Int[Array, "*batch"], ActingCarry, Info]:
        """An action for each observation, what to remember until the next, and why.

        `obs`: a batch [batch, ...] or one observation. `carry`: what the step before returned; None
        at the start (None at every step means that nothing is remembered). `key`: for the draw, an
        integer will do; a greedy policy, which takes the most probable action, needs none. `masks`:
        "predicted" (the default where a classifier was trained), "clone" (the cloned head, without
        any mask), "none", or a mask of yours (True = valid; overrides do not touch it). `memory`:
        whether an action after which the observation was the same is left out until it changes; by
        default for "predicted" and "clone". `reset`: True where a new episode starts with this
        observation.
        """
        _refuse_fork()
        leaves, batched = match(obs, self.fields)
        batch = leaves[0].shape[0]
        if carry is None:
            # Nothing is compared with the first observation, so any will do as the one before it.
            leaves = [jnp.asarray(leaf) for leaf in leaves]
            carry = self._start(leaves, batch)
        else:
            carry = self._check_carry(carry, batch)
        if key is None and not greedy:
            raise MasklessError("Drawing an action needs a key: give one, or greedy=True.")
        if isinstance(key, int | np.integer):
            key = jax.random.key(int(key))
        kind, mask = self._check_masks(masks, batch, batched)
        how = {
            "masks": kind,
            "remembers": kind in ("predicted", "clone") if memory is None else bool(memory),
            "greedy": greedy,
        }
        starts = _as_reset(reset, batch, batched)
        action, carry, info, counts = self._act(
            self.params, leaves, carry, key, starts, mask, **how
        )
        self._record_counts(counts)
        if not batched:
            action, info = jax.tree.map(lambda x: x[0], (action, info))
        return action, carry, info

    def encode(self, observation: Any) -> dict[str, np.ndarray]:
        """One observation as a Gymnasium environment shows it, as `act` reads it: numbers from
        closed lists one-hot, images divided by their largest number."""
        return encode_shown(observation, self.fields)

    @property
    def counts(self) -> dict[str, int]:
        """How many actions were chosen, how many of them in a fallback, and for each override how
        often it changed the mask, since the policy was made. Calls inside a jit of yours are not
        counted."""
        self._flush_counts()
        rules = [f"override {n}: {rule}" for n, rule in enumerate(self.overrides, 1)]
        names = ["actions", "fallbacks", *rules]
        return dict(zip(names, map(int, self._counts), strict=True))

    def save(self, folder: Path | str) -> Path:
        """Writes the artifact, in place of one that may be there; `load` reads it."""
        return write_artifact(self.artifact, folder)

    def numpy(self) -> runtime.Policy:
        """The same policy in NumPy alone: for one observation at a time, on a CPU, it is faster."""
        return runtime.Policy(*contents(self.artifact))

    def forward(
        self, params: PyTree, carry: Carry, leaves: Sequence[Array], reset: Bool[Array, " batch"]
    ) -> tuple[Carry, Heads]:
        """One step of the network. `leaves`: the observation in the order of `fields`."""
        encoder = getattr(self.net, "encoder", None)
        observation = rebuild(encoder, self.fields, [x[None] for x in leaves])
        outputs = apply(self.net, params, carry, observation, reset[None])
        return outputs[0], jax.tree.map(lambda x: x[0], outputs[1])

    def make_mask(
        self,
        leaves: Sequence[Array],
        validity_logits: Float[Array, "batch actions"],
        masks: str = "predicted",
        *,
        allowed: Bool[Array, "batch actions"] | None = None,
        tried: Int[Array, "batch actions"] | None = None,
    ) -> AppliedMask:
        """The mask that is applied, of one of the kinds in `MASKS`.

        Valid is what has a predicted probability above its threshold, unless an override says
        otherwise. `allowed`: what may be chosen at all. `tried`: how often each action was tried
        in vain (`maskless.failures`); None: without a memory. A rule "never" holds in a fallback
        too, unless it leaves nothing to choose.
        """
        everything = jnp.ones(validity_logits.shape, bool)
        predicted, validity = everything, jax.nn.sigmoid(validity_logits)
        if masks == "predicted" and self.artifact.classifier:
            predicted = masking.predicted_mask(validity_logits, self.thresholds)
        # Without a prediction, rules can only forbid: all are above every threshold.
        scores = validity if masks == "predicted" else jnp.full_like(validity, jnp.inf)
        rules = Overruling(self.overrides, self.action_names, self.fields)
        mask, forbidden, changed = rules.apply(leaves, scores, predicted)
        if masks == "none":
            mask, forbidden = everything, ~everything
            changed = [jnp.zeros_like(where) for where in changed]
        overridden, candidates = mask != predicted, ~forbidden
        if allowed is not None:
            mask, permitted = mask & allowed, candidates & allowed
            candidates = permitted | (masking.falls_back(permitted)[..., None] & allowed)
        if tried is None:
            fallback, excluded = masking.falls_back(mask), ~everything
            mask = masking.fall_back(mask, ~candidates)
        else:
            mask, excluded, fallback = failures.restrict(mask, candidates, validity_logits, tried)
        return AppliedMask(
            validity=validity,
            mask=mask,
            fallback=fallback,
            excluded=excluded,
            overridden=overridden,
            changed=changed,
        )

    def _choose(
        self,
        params: PyTree,
        leaves: list[Array],
        carry: ActingCarry,
        key: PRNGKeyArray | None,
        reset: Bool[Array, " batch"],
        mask: Bool[Array, "batch actions"] | None,
        *,
        masks: str,
        remembers: bool,
        greedy: bool,
    ) -> tuple[Array, ActingCarry, Info, Int[Array, " counts"]]:
        network, heads = self.forward(params, carry.network, leaves, reset)
        observed = self._by_name(leaves)
        tried = carry.memory.look(observed, reset, self.clock_fields)
        applied = self.make_mask(
            leaves, heads.validity, masks, allowed=mask, tried=tried if remembers else None
        )
        logits = heads.clone if masks == "clone" else heads.logits
        decision = masking.decide(key, logits, applied.mask, greedy=greedy)
        info = Info(**vars(applied), probabilities=jnp.exp(decision.log_probs))
        counts = jnp.stack([jnp.ones_like(info.fallback), info.fallback, *info.changed])
        action = decision.action.astype(jnp.int32)
        carry = ActingCarry(network, failures.Memory(observed, action, tried))
        return action, carry, info, counts.sum(-1, dtype=jnp.int32)

    def _start(self, leaves: list[Array], batch: int) -> ActingCarry:
        observed = self._by_name(leaves)
        memory = failures.Memory.start(observed, batch, len(self.action_names))
        return ActingCarry(self.net.initial_carry(batch), memory)

    def _by_name(self, leaves: Sequence[Array]) -> dict[str, Array]:
        return {field.name: leaf for field, leaf in zip(self.fields, leaves, strict=True)}

    def _check_carry(self, carry: ActingCarry, batch: int) -> ActingCarry:
        if batch not in self._carry_shapes:
            expected = jax.eval_shape(lambda: self.initial_carry(batch))
            self._carry_shapes[batch] = _shapes(expected)
        if _shapes(carry) != self._carry_shapes[batch]:
            raise MasklessError(
                f"The carry does not fit {batch} observations of this policy: start with"
                f" policy.initial_carry({batch}) and pass on what act returns."
            )
        return carry

    def _check_masks(
        self, masks: Any, batch: int, batched: bool
    ) -> tuple[str, Array | np.ndarray | None]:
        """The kind of masks, and the caller's own if there is one."""
        if masks is None:
            masks = self.default_masks
        if not isinstance(masks, str):
            return "none", self._check_own(masks, batch, batched)
        check_kind(masks, classifier=self.artifact.classifier, clone=self.artifact.clone)
        return masks, None

    def _check_own(self, mask: Any, batch: int, batched: bool) -> Array | np.ndarray:
        traced = isinstance(mask, jax.core.Tracer)
        mask = mask if traced else np.asarray(mask)
        shape = (batch, len(self.action_names)) if batched else (len(self.action_names),)
        check_mask(mask, shape, traced=traced)
        mask = mask.astype(bool)
        return mask if batched else mask[None]

    def _record_counts(self, counts: Array) -> None:
        if isinstance(counts, jax.core.Tracer):
            return
        # Fetched later: waiting for the device here would slow down every action.
        self._pending_counts.append(counts)
        if len(self._pending_counts) >= _COUNT_BUFFER:
            self._flush_counts()

    def _flush_counts(self) -> None:
        with self._counting:  # many threads may act
            pending = self._pending_counts[:]
            del self._pending_counts[: len(pending)]
            for counts in jax.device_get(pending):
                self._counts += counts


def _refuse_fork() -> None:
    """In a process that was forked from one in which JAX runs, JAX waits for threads that are not
    there."""
    global _process
    if _process is None:
        _process = os.getpid()
    if _process != os.getpid() or forks.jax_was_left_behind:
        raise MasklessError(
            "This process was forked from one in which JAX runs, and JAX would hang"
            ' here: start it with multiprocessing.get_context("spawn"), or load policies only after'
            " forking."
        )


def load(path: Path | str, *, net: Any = None, encoder: Any = None) -> Policy:
    """The policy in an artifact's folder, or in a run's folder that has one in `policy/`.

    Needs neither the environment nor the training code, and executes nothing from the folder. If
    the policy's network is a Flax module of your own, pass it as `net`; if only its encoder is,
    pass that as `encoder` (a Flax module, or a `maskless.nets.Encoder`).
    """
    _refuse_fork()
    return Policy(read_artifact(path, net, encoder))


def policy_of(net: Any, params: PyTree, env: PolicyEnvironment, **options: Any) -> Policy:
    """A policy from a network and its parameters, without any file; `Policy.save` writes one.

    `env`: whose observations and actions it has. `options`: `threshold` (0.5) and `classifier`
    (True), as in `describe_policy`.
    """
    return Policy(describe_policy(net, params, env, **options))


def as_array(thresholds: Sequence[float | None]) -> Float[Array, " actions"]:
    """One number for each action; None, which means always valid, becomes one below all scores."""
    return jnp.array([-1.0 if t is None else t for t in thresholds], jnp.float32)


def _shapes(tree: PyTree) -> tuple[Any, list[tuple[int, ...]]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [tuple(np.shape(leaf)) for leaf in leaves]


def _as_reset(reset: Any, batch: int, batched: bool) -> Array | np.ndarray:
    if reset is None:
        return np.zeros(batch, bool)
    if not isinstance(reset, jax.Array):
        reset = np.asarray(reset)
    check_reset(reset, batch, batched)
    return reset.reshape(batch)
