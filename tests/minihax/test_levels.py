"""What holds for every generated level, whatever the dice say."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from level_batches import BATCH, corridor_levels, maze_levels, shortest_paths
from shortest_paths import least_tools

from minihax.level import rooms as placing
from minihax.level.corridors import (
    PAPER_GAME,
    REAL_GAME,
    Generation,
    corridor_level,
)
from minihax.level.mazes import MAZES, maze_level
from minihax.level.terrain import DOORS, HEIGHT, WIDTH, Terrain

ROOM_COUNTS = (2, 3, 5)
GAMES = {"real": REAL_GAME, "paper": PAPER_GAME}
CORRIDORS = (Terrain.CORRIDOR, Terrain.SECRET_CORRIDOR)
FLOORS = (Terrain.FLOOR, Terrain.UP_STAIRS, Terrain.DOWN_STAIRS)


@functools.cache
def levels(rooms: int, generation: Generation):
    """A batch of levels and their rooms, as NumPy arrays."""
    return corridor_levels(jax.random.split(jax.random.key(1), BATCH), rooms, generation)


@functools.cache
def mazes(name: str):
    return maze_levels(jax.random.split(jax.random.key(1), BATCH), name)


every_kind = pytest.mark.parametrize(
    ("rooms", "generation"), [(r, g) for r in ROOM_COUNTS for g in GAMES.values()]
)


def inside(rectangle: np.ndarray, grow: int = 0) -> np.ndarray:
    left, top, right, bottom = rectangle
    squares = np.zeros((HEIGHT, WIDTH), bool)
    squares[top - grow : bottom + grow + 1, left - grow : right + grow + 1] = True
    return squares


@every_kind
def test_rooms_are_floor_within_closed_lit_walls(rooms, generation):
    level, placed = levels(rooms, generation)
    for terrain, lit, floor, count in zip(
        level.terrain, level.lit, placed.floor, placed.count, strict=True
    ):
        blocks = np.zeros_like(lit)
        for left, top, right, bottom in floor[:count]:
            assert 3 <= left < right <= 77
            assert 2 <= top < bottom <= 18
            rectangle = (left, top, right, bottom)
            assert not (blocks & inside(rectangle, grow=1)).any(), "rooms touch"
            blocks |= inside(rectangle, grow=1)
            assert np.isin(terrain[top : bottom + 1, left : right + 1], FLOORS).all()
            for row in (terrain[top - 1], terrain[bottom + 1]):
                wall = row[left : right + 1]
                assert (DOORS[wall] | (wall == Terrain.HORIZONTAL_WALL)).all()
            for column in (terrain[:, left - 1], terrain[:, right + 1]):
                wall = column[top : bottom + 1]
                assert (DOORS[wall] | (wall == Terrain.VERTICAL_WALL)).all()
            assert terrain[top - 1, left - 1] == Terrain.CORNER_TOP_LEFT
            assert terrain[top - 1, right + 1] == Terrain.CORNER_TOP_RIGHT
            assert terrain[bottom + 1, left - 1] == Terrain.CORNER_BOTTOM_LEFT
            assert terrain[bottom + 1, right + 1] == Terrain.CORNER_BOTTOM_RIGHT
        np.testing.assert_array_equal(lit, blocks)
        assert np.isin(terrain[~blocks], (Terrain.STONE, *CORRIDORS)).all()


@every_kind
def test_start_and_goal(rooms, generation):
    level, placed = levels(rooms, generation)
    number = np.arange(BATCH)
    assert ((level.terrain == Terrain.UP_STAIRS).sum((1, 2)) == 1).all()
    assert ((level.terrain == Terrain.DOWN_STAIRS).sum((1, 2)) == 1).all()
    start_y, start_x = level.start.T
    assert (level.terrain[number, start_y, start_x] == Terrain.UP_STAIRS).all()
    left, top, right, bottom = placed.floor[:, 1].T
    _, goal_y, goal_x = np.nonzero(level.terrain == Terrain.DOWN_STAIRS)
    assert ((left <= goal_x) & (goal_x <= right) & (top <= goal_y) & (goal_y <= bottom)).all()
    together = (left <= start_x) & (start_x <= right) & (top <= start_y) & (start_y <= bottom)
    if rooms == 2:
        assert 0.3 < together.mean() < 0.7
    else:
        assert not together.any()


@every_kind
def test_doors_know_their_wall_and_do_not_touch(rooms, generation):
    level, _ = levels(rooms, generation)
    door = DOORS[level.terrain]
    wall = door | (
        (level.terrain >= Terrain.VERTICAL_WALL) & (level.terrain <= Terrain.CORNER_BOTTOM_RIGHT)
    )
    beside = np.roll(wall, 1, axis=2) & np.roll(wall, -1, axis=2)
    np.testing.assert_array_equal(level.horizontal, door & beside)
    assert not (door & np.roll(door, 1, axis=1)).any()
    assert not (door & np.roll(door, 1, axis=2)).any()
    assert not (level.terrain == Terrain.BROKEN_DOOR).any()


@every_kind
def test_every_level_can_be_solved(rooms, generation):
    level, _ = levels(rooms, generation)
    lengths = shortest_paths(level.terrain, level.start)
    assert (lengths[:, -1] > 0).all()
    if not generation.secrets:
        assert (lengths[:, 2] == lengths[:, 4]).all(), "kicking must be enough"
        assert (np.asarray(least_tools(lengths)) <= 2).all()


@pytest.mark.parametrize("rooms", ROOM_COUNTS)
def test_the_papers_game_has_no_secrets_and_no_boulders(rooms):
    secrets = (Terrain.SECRET_DOOR, Terrain.SECRET_LOCKED_DOOR, Terrain.SECRET_CORRIDOR)
    paper, _ = levels(rooms, PAPER_GAME)
    assert not np.isin(paper.terrain, secrets).any()
    assert not paper.boulders.any()
    assert (paper.terrain == Terrain.LOCKED_DOOR).any()
    real, _ = levels(rooms, REAL_GAME)
    for kind in secrets:
        assert (real.terrain == kind).any()
    assert real.boulders.any() == (rooms > 2)
    assert np.isin(real.terrain[real.boulders], (Terrain.CORRIDOR,)).all()


@pytest.mark.parametrize("generation", GAMES.values(), ids=GAMES.keys())
def test_a_key_gives_one_level_alone_or_in_a_batch(generation):
    batch, _ = levels(3, generation)
    single = jax.jit(lambda key: corridor_level(key, 3, generation))
    for number, key in enumerate(jax.random.split(jax.random.key(1), BATCH)[:6]):
        jax.tree.map(
            lambda one, many, n=number: np.testing.assert_array_equal(one, many[n]),
            single(key),
            batch,
        )
    assert len({level.tobytes() for level in batch.terrain}) == BATCH


def test_a_level_of_one_room_is_refused():
    with pytest.raises(ValueError, match="2 to 8 rooms"):
        corridor_level(jax.random.key(0), 1)


# -- Free rectangles --------------------------------------------------------------------------


def remains(old, hole):
    """What is left of a rectangle around a hole: written from the rules, side by side."""
    left, top, right, bottom = old
    sides = (
        (hole[1] - top - 1, 10 if bottom < 20 else 8, (left, top, right, hole[1] - 2)),
        (hole[0] - left - 1, 12 if right < 79 else 9, (left, top, hole[0] - 2, bottom)),
        (bottom - hole[3] - 1, 10 if top > 0 else 8, (left, hole[3] + 2, right, bottom)),
        (right - hole[2] - 1, 12 if left > 0 else 9, (hole[2] + 2, top, right, bottom)),
    )
    return [rectangle for size, needed, rectangle in sides if size > needed]


def split(listed: list, count: int, old, hole) -> int:
    """The recursion of the game, on a list whose entries from `count` on are leftovers."""
    if old in listed[:count]:
        count -= 1
        listed[listed.index(old)] = listed[count]
    for index in reversed(range(count)):
        near = listed[index]
        shared = (*np.maximum(near[:2], hole[:2]), *np.minimum(near[2:], hole[2:]))
        if shared[0] <= shared[2] and shared[1] <= shared[3]:
            count = split(listed, count, near, shared)
    for new in remains(old, hole):
        if not any(
            r[0] <= new[0] and r[1] <= new[1] and r[2] >= new[2] and r[3] >= new[3]
            for r in listed[:count]
        ):
            listed[count] = new
            count += 1
    return count


def test_free_rectangles_are_split_as_by_the_recursion():
    @jax.jit
    @jax.vmap
    def history(key):
        def add(carry, key):
            rooms, free = carry
            place = placing._place_room(key, free, rooms)
            free = placing._subtract_room(free, place)
            floor = rooms.floor.at[rooms.count].set(place.floor, mode="drop")
            rooms = placing.Rooms(
                jnp.where(place.success, floor, rooms.floor), rooms.count + place.success
            )
            return (rooms, free), (place, free)

        rooms = placing.Rooms(jnp.full((6, 4), placing._NOWHERE), jnp.int32(0))
        whole = jnp.zeros((placing._CAPACITY, 4), int).at[0].set(jnp.array([0, 0, 79, 20]))
        start = (rooms, placing._FreeList(whole, jnp.int32(1)))
        return jax.lax.scan(add, start, jax.random.split(key, 6))[1]

    places, frees = jax.tree.map(np.asarray, history(jax.random.split(jax.random.key(2), 300)))
    for level in range(300):
        listed, count = [(0, 0, 79, 20)] + [(0, 0, 0, 0)] * (placing._CAPACITY - 1), 1
        for found, floor, chosen, expected, size in zip(
            *(a[level] for a in (*places, *frees)), strict=True
        ):
            if found:
                hole = tuple(floor + np.array([-1, -1, 1, 1]))
                count = split(listed, count, listed[chosen], hole)
            assert count == size
            np.testing.assert_array_equal(np.array(listed), expected)


# -- Mazes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAZES)
def test_mazes_are_trees_but_for_the_gap(name):
    maze, level = MAZES[name], mazes(name)
    floor = np.isin(level.terrain, FLOORS)
    cells = maze.rows * maze.columns
    # A tree over the cells has one passage less than cells; the gap may add one.
    assert set(floor.sum((1, 2))) == {2 * cells - 1, 2 * cells}
    cell = np.zeros((HEIGHT, WIDTH), bool)
    cell[maze.top :: 2, maze.left :: 2][: maze.rows, : maze.columns] = True
    assert floor[:, cell].all()
    assert floor[:, *maze.gap].all()
    assert level.lit.all()
    assert not level.horizontal.any()
    assert not level.boulders.any()
    assert (level.terrain == Terrain.HORIZONTAL_WALL).any() == maze.wall_below


@pytest.mark.parametrize("name", MAZES)
def test_all_of_a_maze_can_be_reached(name):
    level = mazes(name)
    floor = np.isin(level.terrain, FLOORS)
    reached = np.zeros_like(floor)
    reached[np.arange(BATCH), level.start[:, 0], level.start[:, 1]] = True
    for _ in range(floor[0].size):
        grown = reached.copy()
        for axis in (1, 2):  # four directions: the tree itself, not its diagonal short cuts
            grown |= np.roll(reached, 1, axis) | np.roll(reached, -1, axis)
        grown &= floor
        if (grown == reached).all():
            break
        reached = grown
    np.testing.assert_array_equal(reached, floor)


@pytest.mark.parametrize("name", MAZES)
def test_a_key_gives_one_maze_alone_or_in_a_batch(name):
    key = jax.random.split(jax.random.key(1), BATCH)[3]
    single = maze_level(key, MAZES[name])
    jax.tree.map(lambda one, many: np.testing.assert_array_equal(one, many[3]), single, mazes(name))
