"""maskless: train with action masks, deploy without them."""

from maskless import losses, masking
from maskless.envs import Environment, VectorEnv, ids, make, register
from maskless.errors import MasklessError

__version__ = "0.1.0"

__all__ = [
    "Environment",
    "MasklessError",
    "VectorEnv",
    "__version__",
    "ids",
    "losses",
    "make",
    "masking",
    "register",
]
