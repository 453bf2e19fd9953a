"""maskless: train with action masks, deploy without them.

training = maskless.train("staircase", "masked-focal", frames=1e5)
action, carry, info = training.policy().act(observation, key=key)      # under predicted masks
"""

import importlib
from typing import TYPE_CHECKING, Any

from maskless import forks  # noqa: F401 (it listens, from the beginning)
from maskless.errors import MasklessError

if TYPE_CHECKING:
    from maskless import losses, masking
    from maskless.api import Training, train
    from maskless.conditions import CONDITIONS, Condition, grid
    from maskless.config import Config
    from maskless.envs import Environment, VectorEnv, ids, make, register
    from maskless.evaluation import Evaluation, evaluate
    from maskless.hyperparameters import Hyperparameters
    from maskless.policy import Policy, load
    from maskless.training.session import Progress

__version__ = "0.1.0"

__all__ = [
    "CONDITIONS",
    "Condition",
    "Config",
    "Environment",
    "Evaluation",
    "Hyperparameters",
    "MasklessError",
    "Policy",
    "Progress",
    "Training",
    "VectorEnv",
    "__version__",
    "evaluate",
    "grid",
    "ids",
    "load",
    "losses",
    "make",
    "masking",
    "register",
    "train",
]

# Imported when first used: a policy can be loaded where neither trainer nor games are installed,
# and the command line answers before JAX is imported.
_HOMES = {
    "maskless.api": ("Training", "train"),
    "maskless.conditions": ("CONDITIONS", "Condition", "grid"),
    "maskless.config": ("Config",),
    "maskless.envs": ("Environment", "VectorEnv", "ids", "make", "register"),
    "maskless.evaluation": ("Evaluation", "evaluate"),
    "maskless.hyperparameters": ("Hyperparameters",),
    "maskless.policy": ("Policy", "load"),
    "maskless.training.session": ("Progress",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("conditions", "envs", "losses", "masking", "nets", "policy", "runtime")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"maskless.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'maskless' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
