"""The worlds, all behind one contract."""

from maskless.envs.base import Environment
from maskless.envs.contract import check_contract
from maskless.envs.registry import ids, make, register
from maskless.envs.vector import VectorEnv, VectorState

__all__ = [
    "Environment",
    "VectorEnv",
    "VectorState",
    "check_contract",
    "ids",
    "make",
    "register",
]
