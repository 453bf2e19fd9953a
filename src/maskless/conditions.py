"""What is compared: the paper's conditions C1 to C4, its ablation, a control, and ours, as data.

A run is named by its condition and, after a colon, by the numbers in which it differs, those of the
condition or of PPO: `masked-kl:strength=20,learning_rate=0.001`. All of them are arrays inside the
compiled program, so that conditions times numbers times seeds train together.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from maskless.errors import MasklessError, UnknownNameError
from maskless.hyperparameters import VARYING


@struct.dataclass
class Condition:
    """One way to train.

    maskless.Condition(masked=True, strength=10.0)     # what "masked-focal" stands for
    """

    masked: bool
    """Whether the behaviour policy is under the oracle's mask; otherwise it may choose anything."""
    strength: float = 0.0
    """lambda: the weight of the classification loss beside PPO's. 0: no classifier."""
    gamma: float = 2.0
    """The focal parameter; 0 is cross-entropy."""
    threshold: float = 0.5
    """tau: an action is predicted valid above this probability."""
    kl_share: float = 0.0
    """1: the KL-balanced loss; 0: the focal loss; between: a mixture."""
    predicted_share: float = 0.0
    """The share of environments that act under the predicted mask while training. Labels always
    come from the oracle."""
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
    entropy_factor: float = 1.0
    """Control: multiplies the weight of PPO's entropy bonus."""

    @property
    def has_classifier(self) -> bool:
        return self.strength > 0


CONDITIONS: dict[str, Condition] = {
    "masked": Condition(masked=True),  # C1
    "unmasked": Condition(masked=False),  # C2
    "masked-focal": Condition(masked=True, strength=10.0),  # C3
    "masked-kl": Condition(masked=True, strength=10.0, kl_share=1.0),  # C4
    "unmasked-kl": Condition(masked=False, strength=10.0, kl_share=1.0),  # the paper's ablation
    "masked-bce": Condition(masked=True, strength=10.0, gamma=0.0),  # control: cross-entropy
    "masked-mix": Condition(masked=True, strength=10.0, kl_share=0.5),  # ours
    "masked-tv": Condition(masked=True, strength=10.0, kl_share=1.0, acting=True),  # ours
    "masked-loop": Condition(  # ours; the idea, offline: Wu et al., 2024
        masked=True, strength=10.0, kl_share=0.5, predicted_share=0.25
    ),
}
DEFAULT_CONDITIONS = ("masked", "unmasked", "masked-kl")
"""What is trained unless somebody asks for others."""

_SWITCHES = tuple(field.name for field in dataclasses.fields(Condition) if field.type is bool)
_NUMBERS = tuple(field.name for field in dataclasses.fields(Condition) if field.type is float)


def condition(name: str) -> Condition:
    """The condition of this name; changes follow a colon: `masked-kl:strength=20,gamma=1`."""
    base, changes = _parse(name)
    own: dict[str, Any] = {
        field: bool(value) if field in _SWITCHES else value
        for field, value in changes.items()
        if field not in VARYING
    }
    chosen = dataclasses.replace(CONDITIONS[base], **own)
    _check(name, chosen)
    return chosen


def numbers(name: str) -> dict[str, float]:
    """PPO's numbers in the name of a run: `masked:learning_rate=0.001` has one."""
    return {field: value for field, value in _parse(name)[1].items() if field in VARYING}


def grid(*conditions: str, **values: float | Iterable[float]) -> tuple[str, ...]:
    """Names for all combinations of conditions and numbers, to be trained in one program.

        maskless.train("staircase", maskless.grid("masked-kl", learning_rate=[1e-4, 3e-4]))

    Numbers are those of `Condition` and those of `Hyperparameters` that change no shape.
    """
    lists = {name: _as_tuple(name, value) for name, value in values.items()}
    names = []
    for base, chosen in itertools.product(conditions, itertools.product(*lists.values())):
        changes = [f"{name}={value!r}" for name, value in zip(lists, chosen, strict=True)]
        mark = "," if ":" in base else ":"
        names.append(base + (mark + ",".join(changes) if changes else ""))
        _parse(names[-1])
    return tuple(names)


def _as_tuple(name: str, value: Any) -> tuple[float | int, ...]:
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    given: list[Any] = list(value) if listed else [value]
    given = [x.item() if hasattr(x, "item") else x for x in given]  # NumPy's numbers, too
    if not given or not all(isinstance(number, int | float) for number in given):
        raise MasklessError(f"{name} needs one or more numbers, not {value!r}.")
    return tuple(given)


def _parse(name: str) -> tuple[str, dict[str, float]]:
    """The condition that a run's name begins with, and the numbers that follow."""
    base, _, changes = name.partition(":")
    if base not in CONDITIONS:
        raise UnknownNameError("condition", base, CONDITIONS)
    values = {}
    for change in changes.split(",") if changes else []:
        field, _, text = change.partition("=")
        known = (*_NUMBERS, *_SWITCHES, *VARYING)
        if field not in known:
            raise UnknownNameError(f"part of the condition {base}", field, known)
        try:
            values[field] = float({"True": "1", "False": "0"}.get(text, text))
        except ValueError:
            raise MasklessError(f"{change!r} in {name!r} needs a number: {field}=0.5.") from None
        if field in _SWITCHES and values[field] not in (0.0, 1.0):
            raise MasklessError(f"{field} in {name!r} must be 0 or 1.")
    return base, values


def _check(name: str, condition: Condition) -> None:
    for share in ("threshold", "kl_share", "predicted_share"):
        if not 0.0 <= getattr(condition, share) <= 1.0:
            raise MasklessError(f"{share} in {name!r} must be between 0 and 1.")
    for amount in ("strength", "gamma", "entropy_factor"):
        if not 0.0 <= getattr(condition, amount) < float("inf"):
            raise MasklessError(f"{amount} in {name!r} must be a number of at least 0.")
    if condition.predicted_share and not condition.has_classifier:
        raise MasklessError(
            f"{name!r} acts under predicted masks but trains no classifier: give it a strength."
        )


def stack(conditions: list[Condition]) -> Condition:
    """Many conditions as one, with arrays for its fields: vmap over it."""

    def together(*values: float | bool) -> jax.Array:
        return jnp.array(values, bool if isinstance(values[0], bool) else jnp.float32)

    return jax.tree.map(together, *conditions)


def name_of(condition: Condition) -> str:
    """A name that `condition` turns back into these values."""
    base = CONDITIONS["masked" if condition.masked else "unmasked"]
    changes = {
        field: float(getattr(condition, field))
        for field in (*_NUMBERS, *_SWITCHES)
        if getattr(condition, field) != getattr(base, field)
    }
    return grid("masked" if condition.masked else "unmasked", **changes)[0]
