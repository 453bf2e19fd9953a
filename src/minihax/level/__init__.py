"""Levels as arrays: what a square can be (terrain), and the generators of corridors and mazes."""
