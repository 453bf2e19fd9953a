"""maskless: train with action masks, deploy without them."""

from typing import TYPE_CHECKING, Any

from maskless import losses, masking
from maskless.envs import Environment, VectorEnv, ids, make, register
from maskless.errors import MasklessError

if TYPE_CHECKING:
    from maskless.evaluation.evaluate import evaluate
    from maskless.policy.acting import load
    from maskless.training.train import train

__version__ = "0.1.0"

__all__ = [
    "Environment",
    "MasklessError",
    "VectorEnv",
    "__version__",
    "evaluate",
    "ids",
    "load",
    "losses",
    "make",
    "masking",
    "register",
    "train",
]

# Imported when first used: an artifact can be loaded where the trainer is not installed.
_LATER = {
    "evaluate": "maskless.evaluation",
    "load": "maskless.policy.acting",
    "train": "maskless.training.train",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'maskless' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATER[name]), name)
