"""maskless: train with action masks, deploy without them."""

from typing import TYPE_CHECKING, Any

from maskless.errors import MasklessError

if TYPE_CHECKING:
    from maskless import losses, masking
    from maskless.envs import Environment, VectorEnv, ids, make, register
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

# Imported when first used: an artifact can be loaded where neither trainer nor environments are
# installed, and the command line answers before JAX is imported.
_LATER = {
    "evaluate": "maskless.evaluation.evaluate",
    "load": "maskless.policy",
    "train": "maskless.training.train",
    **dict.fromkeys(("Environment", "VectorEnv", "ids", "make", "register"), "maskless.envs"),
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("envs", "losses", "masking", "nets", "policy"):
        return importlib.import_module(f"maskless.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'maskless' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
