"""One way to train, as data: numbers and switches, each of them an array in a compiled program."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Condition:
    """One way to train.

    maskless.Condition(masked=True, strength=10.0)     # what "masked-focal" stands for
    """

    # Who acts.
    masked: bool
    """Whether the behaviour policy is under the oracle's mask; otherwise it may choose anything."""
    prudence: float = -1.0
    """Which of the environment's prudent rules (`maskless.envs.prudence`) its masks have besides
    feasibility: 0: none; the sum of 1 for the first, 2 for the second, 4 for the third, and so on.
    -1: those of the rules that the environment was made with."""
    predicted_share: float = 0.0
    """The share of environments that act under the predicted mask while training. Labels always
    come from the oracle (unless `tried`)."""
    tolerance: float = 0.0
    """Above 0: that share begins at zero and reaches its full size as the predicted masks become
    right: it is multiplied by max(0, 1 - TV / tolerance), where TV is how far they move the policy
    (the total variation, averaged over past updates). 0: the share is constant."""
    clone_share: float = 0.0
    """The share of environments in which the clone acts. PPO does not learn from them."""
    explore: float = 0.0
    """The probability with which a step tries an action that the mask forbids, uniformly. Such
    steps give the policy no gradient."""
    remembers: bool = False
    """Whether an action that changed nothing is excluded until the observation changes, where the
    predicted mask or the clone decides."""
    soft_mask: float = 0.0
    """Below 0: what a mask adds to the logits of invalid actions, which stay possible."""
    replaces: bool = False
    """Whether the environment carries out a random valid action in place of an invalid choice."""
    learns_replaced: bool = False
    """With `replaces`: PPO learns about the action that was carried out, not the one chosen."""

    # What the policy learns.
    penalty: float = 0.0
    """Taken from the reward of a step whose choice is invalid."""
    silent: bool = False
    """Whether steps whose choice is invalid give the policy no gradient."""
    unmasked_ratio: bool = False
    """Whether PPO's ratio and entropy are those of the policy without masks, whoever acted."""
    importance: bool = False
    """With `unmasked_ratio`: the probability in the ratio's denominator is that under the mask."""
    distil: float = 0.0
    """beta: the weight of KL(masked policy || policy), which is -log of the valid mass."""
    distil_below: float = 1.0
    """rho: only the terms of valid actions with a probability of at most rho count."""
    invalid_mass: float = 0.0
    """The weight of the probability that the policy without masks gives to invalid actions."""
    entropy_factor: float = 1.0
    """Control: multiplies the weight of PPO's entropy bonus."""

    # What the classifier learns.
    strength: float = 0.0
    """lambda: the weight of the classification loss beside PPO's. 0: no classifier."""
    gamma: float = 2.0
    """The focal parameter; 0 is cross-entropy."""
    threshold: float = 0.5
    """tau: an action is predicted valid above this probability."""
    kl_share: float = 0.0
    """1: the KL-balanced loss; 0: the focal loss; between: a mixture."""
    uniform_fallback: bool = True
    """Control of the KL-balanced loss, where both masks lead to the same policy: whether to weigh
    all actions alike, or to learn nothing from such a state."""
    literal: bool = False
    """Control of the KL-balanced loss: weigh by the oracle's policy, a true KL divergence, in
    place of the unmasked one."""
    acting: bool = False
    """Weigh by how much a mistake moves the policy that acts, the masked one, and not the
    unmasked one, which never does."""
    detached: bool = False
    """Control: the classifier reads the features but does not shape them."""
    squared: bool = False
    """The squared error of the probabilities in place of the focal loss."""
    ridge: float = 0.0
    """Above 0: the classifier is a ridge regression on the features, solved after every update,
    with this regularisation."""
    confidence: float = 0.0
    """With `ridge`: invalid is what is predicted so by more than this many standard errors."""

    # Where its labels come from.
    tried: bool = False
    """Without an oracle: the only label is that of the action tried, whether it had an effect."""
    valid_weight: float = 1.0
    """The weight of the labels "valid" in the classification loss."""
    balance: float = 0.0
    """1: of each action, all labels "valid" together weigh as much as all labels "invalid", however
    rare; 0: every label weighs the same; between: a mixture."""
    label_noise: float = 0.0
    """The probability that a label is wrong."""
    labelled_share: float = 1.0
    """The share of labels that are there, drawn for every state and action anew."""
    labelled_states: float = 1.0
    """The share of states that have labels at all."""
    labelled_actions: float = 1.0
    """The share of actions that the oracle knows, always the same ones; it calls the others valid
    everywhere."""

    # The clone.
    clone: float = 0.0
    """The weight of the loss of a second policy, cloned from the masked one, that needs no mask.
    0: there is none. It shares nothing with the policy, not even the clipping of gradients, so that
    the size of the weight matters little."""

    @property
    def has_classifier(self) -> bool:
        return self.strength > 0 or self.ridge > 0

    @property
    def has_clone(self) -> bool:
        return self.clone > 0

    @property
    def needs_oracle(self) -> bool:
        """Whether it learns anything from the environment's mask."""
        by_mask = self.masked or self.replaces or self.has_clone or self.soft_mask < 0
        of_policy = self.penalty > 0 or self.distil > 0 or self.invalid_mass > 0
        return by_mask or of_policy or ((self.has_classifier or self.silent) and not self.tried)

    @property
    def deployments(self) -> tuple[str, ...]:
        """The kinds of masks it is trained to act under where there may be no oracle."""
        without_masks = not self.masked or self.unmasked_ratio or self.distil or self.invalid_mass
        ways = {
            "clone": self.has_clone,
            "predicted": self.has_classifier,
            "none": without_masks and not self.tried,
        }
        return tuple(way for way, trained in ways.items() if trained) or ("oracle",)

    def uses(self, field: str) -> bool:
        """Whether this part is in the program: whether any of its conditions differs from the
        default there. It is decided before anything is compiled, so that what no condition asks
        for costs nothing and changes no number."""
        value = getattr(self, field)
        return value is not None and (hasattr(value, "dtype") or value != DEFAULTS[field])

    def get(self, field: str) -> Any:
        """Its value; the default in a program that has no such part."""
        return getattr(self, field) if self.uses(field) else DEFAULTS[field]


ALWAYS = frozenset(
    {
        *("masked", "entropy_factor", "strength", "gamma", "threshold", "kl_share"),
        *("uniform_fallback", "literal", "acting", "detached"),
    }
)
"""The fields that are in every program."""
DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in dataclasses.fields(Condition) if field.name not in ALWAYS
}
"""The other fields, with the values at which they do nothing."""


def stack(conditions: list[Condition]) -> Condition:
    """Many conditions as one, with arrays for its fields: vmap over it. A field that none of them
    uses is None."""

    def together(field: str) -> jax.Array | None:
        values = [getattr(condition, field) for condition in conditions]
        if field not in ALWAYS and not any(condition.uses(field) for condition in conditions):
            return None
        return jnp.array(values, bool if isinstance(values[0], bool) else jnp.float32)

    fields: Any = {field.name: together(field.name) for field in dataclasses.fields(Condition)}
    return Condition(**fields)
