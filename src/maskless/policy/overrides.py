"""Rules that a person adds to a policy (`maskless.artifact.overrides`), on JAX's arrays."""

import dataclasses

import jax
from jaxtyping import Array, Bool, Float, PyTree

from maskless.artifact.overrides import (
    EFFECTS,
    Condition,
    Override,
    Rules,
    check_overrides,
    parse_condition,
)
from maskless.policy.observations import match

__all__ = ["EFFECTS", "Condition", "Override", "Overruling", "check_overrides", "parse_condition"]


@dataclasses.dataclass(frozen=True)
class Overruling(Rules):
    """The rules as a function on masks, for acting and for `maskless.evaluation`."""

    def __call__(
        self,
        observation: PyTree[Array],
        validity_logits: Float[Array, "batch actions"],
        mask: Bool[Array, "batch actions"],
    ) -> tuple[Bool[Array, "batch actions"], Bool[Array, "batch actions"]]:
        """The mask after the rules, and where they forbid an action."""
        leaves, _ = match(observation, self.fields)
        mask, forbidden, _ = self.apply(leaves, jax.nn.sigmoid(validity_logits), mask)
        return mask, forbidden
