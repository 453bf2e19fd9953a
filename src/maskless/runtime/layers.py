"""Dense layers in NumPy, and the weights of an artifact, each checked when it is taken."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from maskless.artifact.folder import check_weight
from maskless.errors import require

DENSE_SHARE = 0.25
"""Of a vector's numbers: if more of them are not zero, gathering rows saves no time."""
Activation = Callable[[np.ndarray], np.ndarray]


class Dense(NamedTuple):
    """x @ kernel + bias, for x [batch, inputs]."""

    kernel: np.ndarray
    bias: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        y: np.ndarray = x.dot(self.kernel)
        y += self.bias
        return y


class SparseDense(Dense):
    """The same for what is mostly zeros, such as one-hots: for one vector, the rows of the kernel
    that count are gathered, and nothing is multiplied with zeros."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if len(x) == 1:
            (used,) = (x[0] != 0.0).nonzero()
            if len(used) <= DENSE_SHARE * x.shape[1]:
                y: np.ndarray = x.take(used, 1).dot(self.kernel.take(used, 0))
                y += self.bias
                return y
        return super().__call__(x)


def beside(first: Dense, second: Dense) -> Dense:
    """Both layers in one product: the outputs of the first, then those of the second."""
    kernel = np.concatenate([first.kernel, second.kernel], axis=1)
    return Dense(np.asfortranarray(kernel), np.concatenate([first.bias, second.bias]))


class Weights:
    """The arrays of an artifact by name. `left`: those that no network has taken yet."""

    def __init__(self, arrays: Mapping[str, np.ndarray], prefix: str = "", left: set | None = None):
        self._arrays, self._prefix = arrays, prefix
        self.left: set[str] = set(arrays) if left is None else left

    def inside(self, name: str) -> "Weights":
        """Those whose names begin with NAME/."""
        return Weights(self._arrays, f"{self._prefix}{name}/", self.left)

    def take(self, name: str, *shape: int) -> np.ndarray:
        """The array, if it has this shape."""
        name = self._prefix + name
        check_weight(name, self._arrays, shape, np.dtype(np.float32))
        self.left.discard(name)
        return self._arrays[name]

    def dense(self, name: str, inputs: int, outputs: int, kind: type[Dense] = Dense) -> Dense:
        """The kernel and the bias of a layer."""
        layer = self.inside(name)
        kernel, bias = layer.take("kernel", inputs, outputs), layer.take("bias", outputs)
        # A vector is multiplied faster column by column; what is gathered are rows.
        return kind(kernel if kind is SparseDense else np.asfortranarray(kernel), bias)

    def check_none_left(self) -> None:
        """Refuses weights of another network."""
        for name in sorted(self.left):
            require(False, f"its weights and its network differ in {name!r}")


class Trunk:
    """Dense layers of equal width, each followed by the activation."""

    def __init__(
        self, weights: Weights, inputs: int, width: int, *, layers: int, activation: Activation
    ):
        sizes = [inputs] + [width] * layers
        self.layers = [
            weights.dense(f"Dense_{n}", sizes[n], width, Dense if n else SparseDense)
            for n in range(layers)
        ]
        self.activation = activation

    def __call__(self, x: np.ndarray) -> np.ndarray:
        for layer in self.layers:
            x = self.activation(layer(x))
        return x


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # 1 / inf is the zero that it should be
        return 1.0 / (1.0 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -x)
