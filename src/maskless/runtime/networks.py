"""The networks of `maskless.nets`, one step at a time: every array begins with the batch axis."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from maskless.artifact.fields import Field
from maskless.artifact.folder import POLICY, STUDENT
from maskless.errors import require
from maskless.runtime.encoders import make_encoder
from maskless.runtime.layers import (
    SparseDense,
    Trunk,
    Weights,
    beside,
    log_sigmoid,
    relu,
    sigmoid,
    silu,
)

NETS = ("mlp", "gru")
OPTIONS = {"cloned", "uncertain"}
SHARPNESS, LARGEST = 4.0, 10.0
"""Of the student, as in nets/deployable.py."""


class Heads(NamedTuple):
    """[batch, actions] each."""

    logits: np.ndarray
    validity: np.ndarray
    clone: np.ndarray | None


class Shape(NamedTuple):
    """What the sizes of all layers follow from."""

    fields: Sequence[Field]
    encoder: str
    num_actions: int
    width: int


def make_network(
    entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray], fields: Sequence[Field]
) -> "Network":
    """The network that the entry "net" of policy.json describes, with these weights."""
    name, encoder, width = (entry.get(key) for key in ("name", "encoder", "width"))
    require(
        name in NETS,
        f"the NumPy runtime has the networks {' and '.join(NETS)}, and not {name!r}: export the"
        " policy to ONNX (`maskless export RUN --format onnx`), or act with `maskless.load`",
    )
    named = isinstance(encoder, str) and type(width) is int
    require(named, f"its network is not one of {', '.join(NETS)} with a width")
    options = entry.get("options", {})
    known = isinstance(options, dict) and options.keys() <= OPTIONS
    right = known and all(value is True for value in options.values())
    require(right, f"the options {options!r} are none of its network")
    weights = Weights(arrays)
    shape = Shape(fields, str(encoder), entry["num_actions"], int(width or 0))
    net = Network(entry, weights, shape)
    weights.check_none_left()
    return net


class Network:
    """A body, with the heads that acting needs."""

    def __init__(self, entry: Mapping[str, Any], weights: Weights, shape: Shape):
        """`entry`: the names and sizes in it are checked, but for those of a student."""
        options = entry.get("options", {})
        body = MLP if entry["name"] == "mlp" else GRU
        actions = shape.num_actions
        own = weights.inside(POLICY) if STUDENT in entry else weights
        self.body = body(own, shape)
        self.logits = own.dense("heads/logits", shape.width, actions)
        self.validity = own.dense("heads/validity", shape.width, actions)
        self.both = beside(self.logits, self.validity)
        own.dense("heads/values", shape.width, 2)
        self.uncertainty = None
        if "uncertain" in options:
            self.uncertainty = own.take("heads/uncertainty", shape.width + 1, shape.width + 1)
        self.clone = Clone(own.inside("clone"), shape, body.reads) if "cloned" in options else None
        self.student = None
        if STUDENT in entry:
            about = entry[STUDENT]
            sizes: Any = {"comparisons": 0} | (about if isinstance(about, dict) else {})
            width, slots = sizes.get("width"), sizes["comparisons"]
            whole = type(width) is int and type(slots) is int and slots >= 0
            require(whole, "its student has no width")
            of_student = weights.inside(STUDENT)
            self.student = Student(of_student, shape, width, slots, recurrent=body is GRU)
        self.cloned = bool(self.clone or self.student)

    def initial_carry(self, batch: int) -> np.ndarray:
        """What is remembered before anything was seen."""
        return np.zeros((batch, self.body.remembers), np.float32)

    def __call__(
        self,
        carry: np.ndarray,
        leaves: Sequence[np.ndarray],
        reset: np.ndarray | None,
        *,
        cloned: bool,
    ) -> tuple[np.ndarray, Heads]:
        """`reset`: where a new episode starts; None: nowhere. `cloned`: whether to compute it."""
        carry, features, hidden = self.body(carry, leaves, reset)
        if self.student:
            return carry, self.student(leaves, features, self.logits(hidden), cloned)
        if features is hidden:
            both, actions = self.both(features), len(self.logits.bias)
            logits, validity = both[:, :actions], both[:, actions:]
        else:
            logits, validity = self.logits(hidden), self.validity(features)
        clone = None
        if self.uncertainty is not None:
            projected = features @ self.uncertainty[:-1] + self.uncertainty[-1]
            validity = validity + np.sqrt((projected**2).sum(-1, keepdims=True))
        if cloned and self.clone:
            reads = [features, hidden][: self.body.reads]
            clone = self.clone(leaves, reads, logits)
        return carry, Heads(logits, validity, clone)


class MLP:
    """Three tanh layers; the validity and the logits read the last one."""

    remembers, reads = 0, 1
    """Numbers that it remembers, and vectors of it that its clone reads."""

    def __init__(self, weights: Weights, shape: Shape):
        trunks = {}
        for name in ("actor", "critic"):  # the critic's are taken, for the weights must be whole
            of_encoder = weights.inside(f"{name}_encoder")
            encoder = make_encoder(shape.encoder, of_encoder, shape.fields, shape.num_actions)
            own, inputs = weights.inside(name), encoder.outputs
            trunks[name] = Trunk(own, inputs, shape.width, layers=3, activation=np.tanh)
            if name == "actor":
                self.encode = encoder.encode
        self.actor = trunks["actor"]

    def __call__(
        self, carry: np.ndarray, leaves: Sequence[np.ndarray], reset: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The carry, the features and what the logits read."""
        features = self.actor(self.encode(leaves))
        return carry, features, features


class GRU:
    """Dense embedding, GRU, and two ReLU layers for the actor."""

    reads = 2

    def __init__(self, weights: Weights, shape: Shape):
        width = self.remembers = shape.width
        of_encoder = weights.inside("encoder")
        encoder = make_encoder(shape.encoder, of_encoder, shape.fields, shape.num_actions)
        self.encode = encoder.encode
        self.embed = weights.dense("embed", encoder.outputs, width, SparseDense)
        self.input = weights.dense("gru/input", width, 3 * width)
        self.recurrent = weights.take("gru/recurrent", width, 3 * width)
        self.candidate_bias = weights.take("gru/candidate_bias", width)
        self.actor, _ = (
            Trunk(weights.inside(name), width, width, layers=2, activation=relu)
            for name in ("actor", "critic")
        )

    def __call__(
        self, carry: np.ndarray, leaves: Sequence[np.ndarray], reset: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The carry, the features and what the logits read."""
        state = self.step(carry, self.input(relu(self.embed(self.encode(leaves)))), reset)
        return state, state, self.actor(state)

    def step(self, state: np.ndarray, wx: np.ndarray, reset: np.ndarray | None) -> np.ndarray:
        """h' = (1 - z) n + z h with candidate n = tanh(W x + r (U h + b)) and gates r and z."""
        h = state if reset is None else np.where(reset[:, None], np.float32(0.0), state)
        uh, width = h @ self.recurrent, h.shape[-1]
        r, z = np.split(sigmoid(wx[:, : 2 * width] + uh[:, : 2 * width]), 2, axis=-1)
        n = np.tanh(wx[:, 2 * width :] + r * (uh[:, 2 * width :] + self.candidate_bias))
        return (1.0 - z) * n + z * h


class Clone:
    """A correction to the policy's logits, from the observation and from what it makes of it."""

    def __init__(self, weights: Weights, shape: Shape, reads: int):
        of_encoder = weights.inside("encoder")
        encoder = make_encoder(shape.encoder, of_encoder, shape.fields, shape.num_actions)
        self.encode, inputs = encoder.encode, encoder.outputs + reads * shape.width
        trunk = weights.inside("trunk")
        self.trunk = Trunk(trunk, inputs, shape.width, layers=2, activation=relu)
        self.logits = weights.dense("logits", shape.width, shape.num_actions)

    def __call__(
        self, leaves: Sequence[np.ndarray], reads: Sequence[np.ndarray], logits: np.ndarray
    ) -> np.ndarray:
        x = self.trunk(np.concatenate([self.encode(leaves), *reads], axis=-1))
        return logits + self.logits(x)


class Bounds(NamedTuple):
    """What a student compares: `Comparisons` of nets/deployable.py. [rules]"""

    first: np.ndarray
    second: np.ndarray
    offset: np.ndarray

    def sides(self, numbers: np.ndarray) -> np.ndarray:
        """On which side of each bound the numbers are, [batch, rules]."""
        x = np.concatenate([numbers, np.zeros_like(numbers[:, :1]), -numbers], axis=-1)
        return np.sign(x[:, self.first] - x[:, self.second] - self.offset)


class Student:
    """Validity and a clone from the observation, and from the features of what remembers."""

    def __init__(
        self, weights: Weights, shape: Shape, width: int, comparisons: int, *, recurrent: bool
    ):
        fields, actions = shape.fields, shape.num_actions
        self.recurrent = recurrent
        self.encoder = make_encoder(
            shape.encoder, weights.inside("encoder"), fields, actions, width
        )
        numbers = recurrent * shape.width + self.encoder.plain * self.encoder.outputs
        self.mean = weights.take("normaliser/mean", numbers)
        self.scale = weights.take("normaliser/scale", numbers)
        self.bounds = None
        if comparisons:
            names = ("first", "second", "offset")
            rules = [weights.take(f"comparisons/{name}", comparisons) for name in names]
            last = 2 * self.encoder.outputs
            first, second = (np.clip(np.round(x), 0, last).astype(int) for x in rules[:2])
            self.bounds = Bounds(first, second, rules[2])
        inputs = numbers + (not self.encoder.plain) * width + comparisons
        self.body = Trunk(weights.inside("body"), inputs, width, layers=2, activation=silu)
        self.validity = weights.dense("validity", width, actions)
        self.correction = weights.dense("correction", width, actions)

    def __call__(
        self,
        leaves: Sequence[np.ndarray],
        features: np.ndarray,
        logits: np.ndarray,
        cloned: bool,
    ) -> Heads:
        encoded = self.encoder.encode(leaves)
        x = np.concatenate(
            [
                features[:, : self.recurrent * features.shape[1]],
                encoded[:, : self.encoder.plain * encoded.shape[1]],
            ],
            axis=-1,
        )
        x = np.clip((x - self.mean) * self.scale, -LARGEST, LARGEST)
        if not self.encoder.plain:
            x = np.concatenate([encoded, x], axis=-1)
        elif self.bounds:
            x = np.concatenate([x, self.bounds.sides(encoded)], axis=-1)
        x = self.body(x)
        validity, clone = self.validity(x), None
        if cloned:
            clone = logits + log_sigmoid(SHARPNESS * validity) + self.correction(x)
        return Heads(logits, validity, clone)
