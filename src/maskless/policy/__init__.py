"""Policies outside training: the artifact on the disk, and acting with predicted masks."""

from maskless.policy.acting import Info, Policy, load, policy_of
from maskless.policy.artifact import Artifact, change_policy, find_policy, save_policy
from maskless.policy.observations import Field
from maskless.policy.overrides import Override

__all__ = [
    "Artifact",
    "Field",
    "Info",
    "Override",
    "Policy",
    "change_policy",
    "find_policy",
    "load",
    "policy_of",
    "save_policy",
]
