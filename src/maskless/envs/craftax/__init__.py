"""Craftax and Craftax-Classic, with two sets of mask rules each."""

from maskless.envs.craftax.adapter import Craftax, CraftaxClassic

__all__ = ["Craftax", "CraftaxClassic"]
