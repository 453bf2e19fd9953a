"""Levels, and their shortest paths, from one compiled program for each kind of level.

Compiling a generator takes seconds, so all tests share these programs and their batch size.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from shortest_paths import path_lengths

from minihax.level.corridors import Generation, corridor_level_and_rooms
from minihax.level.mazes import MAZES, maze_level

BATCH = 128


def corridor_levels(keys: jax.Array, rooms: int, generation: Generation) -> Any:
    """(levels, rooms) of these keys, as NumPy arrays."""
    return _in_batches(_corridor_program(rooms, generation), keys)


def maze_levels(keys: jax.Array, name: str) -> Any:
    return _in_batches(_maze_program(name), keys)


def shortest_paths(terrain: np.ndarray, start: np.ndarray) -> np.ndarray:
    """`path_lengths` of many levels: int32[levels, tool sets]."""
    return _in_batches(_path_program(), terrain, start)


@functools.cache
def _corridor_program(rooms: int, generation: Generation) -> Callable:
    return jax.jit(jax.vmap(lambda key: corridor_level_and_rooms(key, rooms, generation)))


@functools.cache
def _maze_program(name: str) -> Callable:
    return jax.jit(jax.vmap(lambda key: maze_level(key, MAZES[name])))


@functools.cache
def _path_program() -> Callable:
    return jax.jit(jax.vmap(path_lengths))


def _in_batches(program: Callable, *arguments: Any) -> Any:
    """What the program gives for all rows of the arguments, `BATCH` at a time."""
    count = len(arguments[0])
    rows = np.resize(np.arange(count), -(-count // BATCH) * BATCH).reshape(-1, BATCH)
    outputs = [jax.tree.map(np.asarray, program(*(a[row] for a in arguments))) for row in rows]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *outputs)
