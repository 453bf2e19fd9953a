"""What the encoder "glyphs" reads: NetHack's corridors and mazes, numbered as in `minihax`."""

import numpy as np

FIELDS = ("glyphs", "blstats", "message", "previous_action")
CROP, NUM_BLSTATS, NUM_MESSAGES = 9, 27, 42
GLYPH_IDS = 50
"""Rows of the embedding: room for glyphs that are still to come."""
GLYPHS_IN_USE = 24
"""One-hots have room for these only. The games show no others, and others would give zeros."""

# About the largest number each entry of blstats takes in our games (order: see
# `minihax.Observation`). Fixed scales keep neighbouring squares and single hit points apart, which
# a logarithm blurs; what grows beyond them, as the turn does in a long game, stays at 1 (or -1).
# fmt: off
BLSTATS_SCALES = np.array([
    80, 21, 25, 125, 25, 25, 25, 25, 25, 1000, 20, 20, 10, 1000,
    20, 20, 10, 30, 30, 1000, 1000, 6, 5, 10, 10, 8192, 1,
], np.float32)
# fmt: on
