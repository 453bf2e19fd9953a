"""A policy that acts where no oracle exists.

policy = maskless.load("runs/staircase-gru-1/masked-kl/seed-0")
carry = policy.initial_carry(batch)
action, carry, info = policy.act(obs, carry, key)     # under the predicted mask
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from maskless import masking
from maskless.errors import MasklessError, UnknownNameError
from maskless.nets import Carry, Heads, apply
from maskless.policy.artifact import Artifact, describe_policy, read_artifact, write_artifact
from maskless.policy.observations import PolicyEnvironment, match, rebuild
from maskless.policy.overrides import Overruling

MASKS = ("predicted", "none")
_COUNT_BUFFER = 256


@struct.dataclass
class PredictedMask:
    """A mask and how it came about. [batch, ...]; without that axis for one observation."""

    validity: Float[Array, "batch actions"]
    """The predicted probability that each action is valid."""
    mask: Bool[Array, "batch actions"]
    """The mask that was applied. True = valid."""
    fallback: Bool[Array, " batch"]
    """True where no action was predicted valid: the policy then chose among all that no override
    forbids."""
    overridden: Bool[Array, "batch actions"]
    """Where overrides changed the predicted mask."""
    changed: list[Bool[Array, " batch"]]
    """For each override: where it changed the mask that those before it left."""


@struct.dataclass
class Info(PredictedMask):
    """Why the policy chose what it chose. The validity is the predicted one, also where another
    mask was applied."""

    probabilities: Float[Array, "batch actions"]
    """Of the actions, under the mask that was applied."""


class Policy:
    """A network with its weights, thresholds and overrides. `load` and `policy_of` make it.

    `act` compiles once for every batch size and kind of masks.
    """

    def __init__(self, artifact: Artifact):
        self.artifact = artifact
        self.net = artifact.net
        self.action_names, self.fields = artifact.action_names, artifact.fields
        self.overrides = artifact.overrides
        self.params = jax.tree.map(jnp.asarray, artifact.params)
        self.thresholds = as_array(artifact.thresholds)
        self._act = jax.jit(self._choose, static_argnames=("masks", "greedy"))
        self._carry_shapes: dict[int, Any] = {}
        self._pending_counts: list[Array] = []
        self._counts = np.zeros(2 + len(artifact.overrides), np.int64)

    def initial_carry(self, batch: int = 1) -> Carry:
        """What the policy remembers at the start of an episode. All leaves begin with the batch
        axis, also for a single observation (batch = 1)."""
        return self.net.initial_carry(batch)

    def act(
        self,
        obs: PyTree[ArrayLike],
        carry: Carry | None = None,
        key: PRNGKeyArray | None = None,
        masks: str | ArrayLike = "predicted",
        *,
        reset: ArrayLike | None = None,
        greedy: bool = False,
    ) -> tuple[Int[Array, "*batch"], Carry, Info]:
        """An action for each observation, what to remember until the next, and why.

        `obs`: a batch [batch, ...] or one observation. `carry`: of the step before; None at the
        start. `key`: for the draw; a greedy policy, which takes the most probable action, needs
        none. `masks`: the policy's own, none, or yours (True = valid; overrides do not touch it).
        `reset`: True where a new episode starts with this observation.
        """
        leaves, batched = match(obs, self.fields)
        batch = leaves[0].shape[0]
        carry = self.initial_carry(batch) if carry is None else self._check_carry(carry, batch)
        if key is None and not greedy:
            raise MasklessError("Drawing an action needs a key: give one, or greedy=True.")
        mask = None
        if not isinstance(masks, str):
            mask, masks = self._check_mask(masks, batch, batched), "none"
        elif masks not in MASKS:
            raise UnknownNameError("kind of masks", masks, MASKS)
        starts = _check_reset(reset, batch, batched)
        how = {"masks": masks, "greedy": greedy}
        action, carry, info, counts = self._act(
            self.params, leaves, carry, key, starts, mask, **how
        )
        self._record_counts(counts)
        if not batched:
            action, info = jax.tree.map(lambda x: x[0], (action, info))
        return action, carry, info

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

    def forward(
        self, params: PyTree, carry: Carry, leaves: Sequence[Array], reset: Bool[Array, " batch"]
    ) -> tuple[Carry, Heads]:
        """One step of the network. `leaves`: the observation in the order of `fields`."""
        encoder = getattr(self.net, "encoder", None)
        observation = rebuild(encoder, self.fields, [x[None] for x in leaves])
        outputs = apply(self.net, params, carry, observation, reset[None])
        return outputs[0], jax.tree.map(lambda x: x[0], outputs[1])

    def predict_mask(
        self, leaves: Sequence[Array], validity_logits: Float[Array, "batch actions"]
    ) -> PredictedMask:
        """Valid is what has a probability above its threshold, unless an override says otherwise.

        A mask that is empty in the end allows everything but what an override forbids (everything,
        if that is nothing): a rule "never" holds in a fallback too.
        """
        validity = jax.nn.sigmoid(validity_logits)
        predicted = masking.predicted_mask(validity_logits, self.thresholds)
        rules = Overruling(self.overrides, self.action_names, self.fields)
        mask, forbidden, changed = rules.apply(leaves, validity, predicted)
        return PredictedMask(
            validity=validity,
            mask=masking.fall_back(mask, forbidden),
            fallback=masking.falls_back(mask),
            overridden=mask != predicted,
            changed=changed,
        )

    def _choose(
        self,
        params: PyTree,
        leaves: list[Array],
        carry: Carry,
        key: PRNGKeyArray | None,
        reset: Bool[Array, " batch"],
        mask: Bool[Array, "batch actions"] | None,
        *,
        masks: str,
        greedy: bool,
    ) -> tuple[Array, Carry, Info, Int[Array, " counts"]]:
        carry, heads = self.forward(params, carry, leaves, reset)
        applied = self.predict_mask(leaves, heads.validity)
        if masks != "predicted":  # the prediction is reported, not applied
            mask = jnp.ones_like(applied.mask) if mask is None else mask
            unused = jax.tree.map(jnp.zeros_like, applied)
            applied = unused.replace(validity=applied.validity, mask=mask)
        decision = masking.decide(key, heads.logits, applied.mask, greedy=greedy)
        info = Info(**vars(applied), probabilities=jnp.exp(decision.log_probs))
        counts = jnp.stack([jnp.ones_like(info.fallback), info.fallback, *info.changed])
        return decision.action, carry, info, counts.sum(-1, dtype=jnp.int32)

    def _check_carry(self, carry: Carry, batch: int) -> Carry:
        if batch not in self._carry_shapes:
            expected = jax.eval_shape(partial(self.net.initial_carry, batch))
            self._carry_shapes[batch] = _shapes(expected)
        if _shapes(carry) != self._carry_shapes[batch]:
            raise MasklessError(
                f"The carry does not fit {batch} observations of this policy: start with"
                f" policy.initial_carry({batch}) and pass on what act returns."
            )
        return carry

    def _check_mask(self, masks: Any, batch: int, batched: bool) -> Array:
        if not isinstance(masks, jax.core.Tracer):
            masks = np.asarray(masks)
        shape = (batch, len(self.action_names)) if batched else (len(self.action_names),)
        if masks.dtype != bool or masks.shape != shape:
            raise MasklessError(
                f"A mask must be of bool{list(shape)} (True = valid), or one of"
                f" {', '.join(map(repr, MASKS))}; got {masks.dtype}{list(masks.shape)}."
            )
        if isinstance(masks, np.ndarray) and not masks.any(-1).all():
            raise MasklessError("A mask of yours allows no action: at least one must be valid.")
        return masks if batched else masks[None]

    def _record_counts(self, counts: Array) -> None:
        if isinstance(counts, jax.core.Tracer):
            return
        # Fetched later: waiting for the device here would slow down every action.
        self._pending_counts.append(counts)
        if len(self._pending_counts) >= _COUNT_BUFFER:
            self._flush_counts()

    def _flush_counts(self) -> None:
        pending, self._pending_counts = self._pending_counts, []
        for counts in jax.device_get(pending):
            self._counts += counts


def load(path: Path | str, *, net: Any = None, encoder: Any = None) -> Policy:
    """The policy in an artifact's folder, or in a run's folder that has one in `policy/`.

    Needs neither the environment nor the training code, and executes nothing from the folder. If
    the policy's network is a Flax module of your own, pass it as `net`; if only its encoder is,
    pass that as `encoder` (a Flax module, or a `maskless.nets.Encoder`).
    """
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


def _check_reset(reset: Any, batch: int, batched: bool) -> Array | np.ndarray:
    if reset is None:
        return np.zeros(batch, bool)
    if not isinstance(reset, jax.Array):
        reset = np.asarray(reset)
    if reset.dtype != bool or reset.shape not in ((batch,), () if not batched else (batch,)):
        raise MasklessError(
            f"reset must be bool[{batch}], True where an episode starts; got"
            f" {reset.dtype}{list(reset.shape)}."
        )
    return reset.reshape(batch)
