"""The policy outside of training: the artifact, acting, overrides, export."""

from maskless.policy.acting import Policy, load

__all__ = ["Policy", "load"]
