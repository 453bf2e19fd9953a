"""The mazes of MiniHack's MazeWalk levels.

Cells lie on a lattice, every second square of the map; the maze is a random depth-first spanning
tree of them. The walls are plain stone, everything is lit. `Level` is the same as for corridors;
the "mapped" variants have the same levels and only tell the player more.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, PRNGKeyArray, UInt32

from minihax.level.random_bits import bits_to_int
from minihax.level.terrain import HEIGHT, WIDTH, Level, Terrain


@dataclasses.dataclass(frozen=True)
class Maze:
    """The fixed parts of a maze."""

    rows: int
    columns: int
    """The size in cells."""
    top: int
    left: int
    """The square of the first cell."""
    root: tuple[int, int]
    """The cell (row, column) where the digging starts."""
    gap: tuple[int, int]
    """A square (y, x) next to the root that is always open. It closes a loop when the tree does
    not run through it."""
    wall_below: bool = False
    """A row of wall under the maze, at the edge of the map."""


MAZES = {
    "9x9": Maze(rows=4, columns=4, top=7, left=37, root=(1, 2), gap=(10, 41)),
    "15x15": Maze(rows=7, columns=7, top=5, left=33, root=(3, 4), gap=(11, 40)),
    "45x19": Maze(rows=9, columns=22, top=3, left=19, root=(3, 11), gap=(10, 41), wall_below=True),
}

# While the walk goes on, a cell holds 0 when it has not been visited, else the direction back to
# where it was entered from (1..4; 5: the root and the border around the lattice) plus 8 for each
# time it was left.
_BORDER = 5
_LEFT_ONCE = 8
# The game leaves no cell more than twice, so no crossing of four ways comes from the walk: in the
# recorded mazes there is none, where a walk without this limit makes one in five 45x19 mazes.
_MOST_DEPARTURES = 2


def maze_level(key: PRNGKeyArray, maze: Maze) -> Level:
    """A maze with start and goal on different floor squares, all equally likely."""
    walk_key, stairs_key = jax.random.split(key)
    steps = 2 * (maze.rows * maze.columns - 1)
    passages = _walk(jax.random.bits(walk_key, (steps,)), maze)
    terrain = jnp.asarray(_empty_maze(maze)).reshape(-1)
    terrain = terrain.at[passages].set(Terrain.FLOOR, mode="promise_in_bounds")

    start, goal = _two_squares(jax.random.bits(stairs_key, (2,)), terrain == Terrain.FLOOR)
    terrain = terrain.at[start].set(Terrain.UP_STAIRS).at[goal].set(Terrain.DOWN_STAIRS)
    nothing = jnp.zeros((HEIGHT, WIDTH), bool)
    return Level(
        terrain=terrain.reshape(HEIGHT, WIDTH),
        lit=jnp.ones((HEIGHT, WIDTH), bool),
        horizontal=nothing,
        boulders=nothing,
        start=jnp.stack([start // WIDTH, start % WIDTH]),
    )


def _empty_maze(maze: Maze) -> Int8[np.ndarray, "21 80"]:
    """What all levels of a maze share: the cells, the gap, and the wall below."""
    terrain = np.full((HEIGHT, WIDTH), Terrain.STONE, np.int8)
    bottom, right = maze.top + 2 * maze.rows, maze.left + 2 * maze.columns
    terrain[maze.top : bottom : 2, maze.left : right : 2] = Terrain.FLOOR
    terrain[maze.gap] = Terrain.FLOOR
    if maze.wall_below:
        terrain[HEIGHT - 1, maze.left - 1 : right] = Terrain.HORIZONTAL_WALL
    return terrain


def _walk(bits: UInt32[Array, "steps"], maze: Maze) -> Int32[Array, "steps"]:
    """A depth-first walk through all cells, going to a random unvisited neighbour or else back.

    Returns the map square (flat) opened in each step; in steps that go back, one that is floor
    anyway. Every cell but the root is entered once and left backwards at most once, so the number
    of steps is known.
    """
    across = maze.columns + 2  # one border cell on either side
    cell_moves = jnp.array([-across, 1, across, -1])
    square_moves = jnp.array([-WIDTH, 1, WIDTH, -1])
    visited = np.full((maze.rows + 2, across), _BORDER, np.int8)
    visited[1:-1, 1:-1] = 0
    visited[maze.root[0] + 1, maze.root[1] + 1] = _BORDER

    def square(cell: Int32[Array, ""]) -> Int32[Array, ""]:
        y = maze.top + 2 * (cell // across - 1)
        return y * WIDTH + maze.left + 2 * (cell % across - 1)

    def step(
        carry: tuple[Int32[Array, ""], Int8[Array, "cells"]], bits: UInt32[Array, ""]
    ) -> tuple[tuple[Int32[Array, ""], Int8[Array, "cells"]], Int32[Array, ""]]:
        cell, visited = carry
        own = visited[cell].astype(jnp.int32)
        open_ways = (visited[cell + cell_moves] == 0) & (own < _MOST_DEPARTURES * _LEFT_ONCE)
        forward = open_ways.any()
        way = _pick(bits, open_ways)
        entered_by = own % _LEFT_ONCE
        is_root = entered_by == _BORDER
        back = jnp.where(is_root, 0, cell_moves[(entered_by - 1) % 4])
        following = cell + jnp.where(forward, cell_moves[way], back)

        visited = visited.at[cell].add(jnp.where(forward, _LEFT_ONCE, 0).astype(jnp.int8))
        new = jnp.where(forward, (way + 2) % 4 + 1, 0)
        visited = visited.at[following].max(new.astype(jnp.int8))
        opened = square(cell) + jnp.where(forward, square_moves[way], 0)
        return (following, visited), opened

    root = (maze.root[0] + 1) * across + maze.root[1] + 1
    start = (jnp.int32(root), jnp.asarray(visited).reshape(-1))
    return jax.lax.scan(step, start, bits)[1]


def _pick(bits: UInt32[Array, ""], among: Bool[Array, "n"]) -> Int32[Array, ""]:
    """The index of a random True; any index when there is none."""
    rank = 1 + bits_to_int(bits, jnp.maximum(among.sum(), 1))
    return jnp.argmax(among & (jnp.cumsum(among) == rank)).astype(jnp.int32)


def _two_squares(
    bits: UInt32[Array, "2"], floor: Bool[Array, "squares"]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Two different True squares, each pair equally likely."""
    numbers = jnp.cumsum(floor)
    first = bits_to_int(bits[0], numbers[-1])
    second = bits_to_int(bits[1], numbers[-1] - 1)
    second = second + (second >= first)
    squares = jnp.searchsorted(numbers, jnp.stack([first, second]) + 1)
    return squares[0].astype(jnp.int32), squares[1].astype(jnp.int32)
