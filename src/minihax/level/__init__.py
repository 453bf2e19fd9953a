"""Levels: terrain, rooms, passages, mazes."""
