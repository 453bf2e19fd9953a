"""Generated levels against recorded ones of the real game: the same distributions.

Each quantity is compared with a two-sample chi-square test (any difference) and a two-sample
Kolmogorov-Smirnov test (shifts; with ties its p-values err on the safe side). A quantity that
differs is a rejection at p < 0.001 after correction for the number of tests.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from level_batches import corridor_levels, maze_levels, shortest_paths
from scipy import stats
from shortest_paths import TOOL_SETS, least_tools

from minihax.level.corridors import REAL_GAME
from minihax.level.mazes import MAZES, Maze
from minihax.level.terrain import DOORS, Terrain

from parity.recordings import ROOMS_BY_ENV, load, read_map

ENVIRONMENTS = tuple(ROOMS_BY_ENV)
GENERATED = 10_000
SIGNIFICANCE = 0.001
DOOR_KINDS = tuple(t for t in Terrain if DOORS[t])


@dataclasses.dataclass(frozen=True)
class Sample:
    """Levels of one environment, real or generated."""

    terrain: np.ndarray  # [levels, 21, 80]
    start: np.ndarray  # [levels, 2] (y, x)
    lengths: np.ndarray  # [levels, tool sets]
    rooms: np.ndarray | None = None  # [levels, rooms, 4] left, top, right, bottom; -1: no room
    boulders: np.ndarray | None = None  # [levels] how many


# -- The tests --------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_path_lengths_are_the_recorded_ones(environment):
    sample = recorded_corridors(environment)
    recorded = load("corridor_levels")[f"{environment}_dist"]
    for number, tools in enumerate(TOOL_SETS):
        wrong = np.flatnonzero(sample.lengths[:, number] != recorded[:, number])
        assert len(wrong) == 0, f"{environment}, {tools}: levels {wrong[:10]}"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_generated_level_can_be_solved(environment):
    unsolvable = np.flatnonzero(generated_corridors(environment).lengths[:, -1] < 0)
    assert len(unsolvable) == 0, f"{environment}: levels {unsolvable[:10]}"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_corridor_levels_are_distributed_as_the_recorded_ones(environment):
    real, made = recorded_corridors(environment), generated_corridors(environment)
    assert_same_distributions(corridor_quantities(real), corridor_quantities(made))


@pytest.mark.parametrize("name", MAZES)
def test_mazes_are_distributed_as_the_recorded_ones(name):
    real, made = recorded_mazes(name), generated_mazes(name)
    assert_same_distributions(
        maze_quantities(real, MAZES[name]), maze_quantities(made, MAZES[name])
    )


@pytest.mark.parametrize("name", MAZES)
def test_mazes_use_the_recorded_squares_and_no_others(name):
    real, made = recorded_mazes(name), generated_mazes(name)
    walls = made.terrain[0] == Terrain.HORIZONTAL_WALL
    for sample in (real, made):
        assert ((sample.terrain == Terrain.HORIZONTAL_WALL) == walls).all()
    floor_real, floor_made = is_floor(real.terrain), is_floor(made.terrain)
    assert (floor_made.any(0) >= floor_real.any(0)).all()
    assert (floor_made.all(0) <= floor_real.all(0)).all()
    if len(floor_real) >= 200:  # enough to have seen every square both ways
        np.testing.assert_array_equal(floor_made.any(0), floor_real.any(0))
        np.testing.assert_array_equal(floor_made.all(0), floor_real.all(0))


@pytest.mark.parametrize("name", MAZES)
def test_mazes_have_no_crossing_of_four_ways_but_next_to_the_gap(name):
    for sample in (recorded_mazes(name), generated_mazes(name)):
        crossings = np.argwhere((ways(sample, MAZES[name]) == 4).any(0))
        squares = crossings * 2 + (MAZES[name].top, MAZES[name].left)
        assert (np.abs(squares - MAZES[name].gap).sum(1) == 1).all(), crossings


def test_a_wrong_probability_would_be_noticed():
    """The comparison has teeth: secret doors at 1/7 instead of 1/8 do not pass."""
    real = corridor_quantities(recorded_corridors("R5"))
    if len(real["doors"]) < 2000:
        pytest.skip("too few recorded levels to tell 1/7 from 1/8")
    made = dict(corridor_quantities(generated_corridors("R5")))
    plain = made["DOORWAY"]
    # 1/7 - 1/8 of all doors, taken from those that were regular, become secret.
    turned = np.random.default_rng(0).binomial(plain, (1 / 7 - 1 / 8) / (7 / 12))
    made["DOORWAY"] = plain - turned
    made["SECRET_DOOR"] = made["SECRET_DOOR"] + turned
    with pytest.raises(AssertionError):
        assert_same_distributions(real, made)


# -- The comparison ---------------------------------------------------------------------------


def assert_same_distributions(real: dict[str, np.ndarray], made: dict[str, np.ndarray]) -> None:
    assert real.keys() == made.keys()
    p_values = {}
    for name in real:
        p_values[f"{name} (chi-square)"] = chi_square_p(real[name], made[name])
        p_values[f"{name} (KS)"] = stats.ks_2samp(real[name], made[name], method="asymp").pvalue
    # Whether Holm's procedure rejects anything is decided by the smallest p-value.
    families = len(ENVIRONMENTS) + len(MAZES)
    threshold = SIGNIFICANCE / (len(p_values) * families)
    rejected = {name: p for name, p in p_values.items() if p < threshold}
    means = {n: (real[n.split(" (")[0]].mean(), made[n.split(" (")[0]].mean()) for n in rejected}
    assert not rejected, f"p-values {rejected}, threshold {threshold:.1e}, means {means}"


def chi_square_p(real: np.ndarray, made: np.ndarray, least_expected: float = 10.0) -> float:
    """Two-sample chi-square test; neighbouring values are pooled until each bin is expected to
    hold `least_expected` of the smaller sample."""
    values, counts = np.unique(np.concatenate([real, made]), return_counts=True)
    share = min(len(real), len(made)) / (len(real) + len(made))
    edges, pooled = [], 0
    for value, count in zip(values, counts, strict=True):
        pooled += count
        if pooled * share >= least_expected:
            edges.append(value)
            pooled = 0
    if edges:
        edges[-1] = values[-1]  # what is left over joins the last bin
    if len(edges) < 2:
        return 1.0
    bins = [np.searchsorted(edges, sample) for sample in (real, made)]
    table = np.stack([np.bincount(b, minlength=len(edges)) for b in bins])
    return stats.chi2_contingency(table, correction=False).pvalue


# -- What is compared -------------------------------------------------------------------------


def corridor_quantities(sample: Sample) -> dict[str, np.ndarray]:
    terrain, exists = sample.terrain, sample.rooms[:, :, 0] >= 0
    left, top, right, bottom = np.moveaxis(sample.rooms, 2, 0)
    quantities = {"rooms": exists.sum(1)}
    for i in range(sample.rooms.shape[1]):
        here = exists[:, i]
        quantities[f"room {i} width"] = (right - left + 1)[here, i]
        quantities[f"room {i} height"] = (bottom - top + 1)[here, i]
        quantities[f"room {i} left"] = left[here, i]
        quantities[f"room {i} top"] = top[here, i]

    quantities["doors"] = DOORS[terrain].sum((1, 2))
    for kind in DOOR_KINDS:
        quantities[kind.name] = (terrain == kind).sum((1, 2))
    quantities["doors in walls above and below"] = doors_above_and_below(sample)
    corridor = np.isin(terrain, (Terrain.CORRIDOR, Terrain.SECRET_CORRIDOR))
    quantities["corridor squares"] = corridor.sum((1, 2))
    quantities["secret corridor squares"] = (terrain == Terrain.SECRET_CORRIDOR).sum((1, 2))
    quantities["first corridor row"] = corridor.any(2).argmax(1)
    quantities["last corridor row"] = corridor.any(2)[:, ::-1].argmax(1)
    quantities["dead ends"] = dead_ends(corridor, corridor | DOORS[terrain])
    quantities["bends"] = bends(corridor)
    quantities["boulders"] = sample.boulders

    quantities["least tools"] = np.asarray(least_tools(sample.lengths))
    quantities["path length"] = sample.lengths[:, -1]
    quantities["path length with least tools"] = np.take_along_axis(
        sample.lengths, quantities["least tools"][:, None], axis=1
    )[:, 0]
    y, x = sample.start[:, :1], sample.start[:, 1:]
    start_room = ((left <= x) & (x <= right) & (top <= y) & (y <= bottom)).argmax(1)
    quantities["start room"] = start_room
    quantities["start in goal room"] = start_room == 1
    goal_y, goal_x = goals(sample).T
    quantities["goal column in its room"] = goal_x - left[:, 1]
    quantities["goal row in its room"] = goal_y - top[:, 1]
    level = np.arange(len(terrain))
    quantities["start column in its room"] = x[:, 0] - left[level, start_room]
    quantities["start row in its room"] = y[:, 0] - top[level, start_room]
    return quantities


def maze_quantities(sample: Sample, maze: Maze) -> dict[str, np.ndarray]:
    degree = ways(sample, maze).reshape(len(sample.terrain), -1)
    (start_y, start_x), (goal_y, goal_x) = sample.start.T, goals(sample).T
    return {
        "floor squares": is_floor(sample.terrain).sum((1, 2)),
        "path length": sample.lengths[:, 0],
        "dead ends": (degree == 1).sum(1),
        "junctions": (degree == 3).sum(1),
        "start row": start_y,
        "start column": start_x,
        "goal row": goal_y,
        "goal column": goal_x,
        "start on a cell": (start_y - maze.top) % 2 + (start_x - maze.left) % 2 == 0,
        "first way of the root": is_floor(sample.terrain)[
            :, maze.top + 2 * maze.root[0], maze.left + 2 * maze.root[1] + 1
        ],
    }


def is_floor(terrain: np.ndarray) -> np.ndarray:
    return np.isin(terrain, (Terrain.FLOOR, Terrain.UP_STAIRS, Terrain.DOWN_STAIRS))


def goals(sample: Sample) -> np.ndarray:
    found = np.argwhere(sample.terrain == Terrain.DOWN_STAIRS)
    assert (found[:, 0] == np.arange(len(sample.terrain))).all(), "not one goal per level"
    return found[:, 1:]


def doors_above_and_below(sample: Sample) -> np.ndarray:
    doors = DOORS[sample.terrain]
    total = np.zeros(len(doors), int)
    for level, room in np.argwhere(sample.rooms[:, :, 0] >= 0):
        left, top, right, bottom = sample.rooms[level, room]
        total[level] += doors[level, [top - 1, bottom + 1], left : right + 1].sum()
    return total


def dead_ends(corridor: np.ndarray, way: np.ndarray) -> np.ndarray:
    """Corridor squares with at most one way on in the eight directions, per level."""
    padded = np.pad(way, ((0, 0), (1, 1), (1, 1))).astype(np.int8)
    around = sum(
        padded[:, 1 + dy : 22 + dy, 1 + dx : 81 + dx]
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
        if (dy, dx) != (0, 0)
    )
    return (corridor & (around <= 1)).sum((1, 2))


def bends(corridor: np.ndarray) -> np.ndarray:
    """Corridor squares that go on to just one side and just up or down, per level."""
    padded = np.pad(corridor, ((0, 0), (1, 1), (1, 1)))
    beside = padded[:, 1:-1, :-2] ^ padded[:, 1:-1, 2:]
    above_or_below = padded[:, :-2, 1:-1] ^ padded[:, 2:, 1:-1]
    return (corridor & beside & above_or_below).sum((1, 2))


def ways(sample: Sample, maze: Maze) -> np.ndarray:
    """How many ways lead out of each cell, [levels, rows, columns]."""
    floor = is_floor(sample.terrain).astype(int)
    y = maze.top + 2 * np.arange(maze.rows)[:, None]
    x = maze.left + 2 * np.arange(maze.columns)
    below = np.where(y + 1 < floor.shape[1], floor[:, np.minimum(y + 1, 20), x], 0)
    return floor[:, y - 1, x] + below + floor[:, y, x - 1] + floor[:, y, x + 1]


# -- Where the levels come from ---------------------------------------------------------------


@functools.cache
def recorded_corridors(environment: str) -> Sample:
    data = load("corridor_levels")
    terrain = np.stack([read_map(m) for m in data[f"{environment}_map"]])
    start = data[f"{environment}_start_xy"][:, ::-1].astype(np.int32)
    rooms = np.full((len(terrain), ROOMS_BY_ENV[environment], 4), -1)
    level, index, *floor = data[f"{environment}_rooms"].T
    rooms[level, index] = np.stack(floor, axis=1)
    boulders = np.bincount(data[f"{environment}_boulders"][:, 0], minlength=len(terrain))
    lengths = shortest_paths(terrain, start)
    return Sample(terrain, start, lengths, rooms, boulders)


@functools.cache
def generated_corridors(environment: str) -> Sample:
    number = ROOMS_BY_ENV[environment]
    keys = jax.random.split(jax.random.key(number), GENERATED)
    level, rooms = corridor_levels(keys, number, REAL_GAME)
    exists = np.arange(number)[:, None] < rooms.count[:, None, None]
    floor = np.where(exists, rooms.floor, -1)
    lengths = shortest_paths(level.terrain, level.start)
    return Sample(level.terrain, level.start, lengths, floor, level.boulders.sum((1, 2)))


@functools.cache
def recorded_mazes(name: str) -> Sample:
    data = load("mazewalk_levels")
    terrain = np.stack([read_map(m) for m in data[f"MazeWalk_{name}"]])
    start = data[f"MazeWalk_{name}_start"][:, ::-1].astype(np.int32)
    return Sample(terrain, start, shortest_paths(terrain, start))


@functools.cache
def generated_mazes(name: str) -> Sample:
    level = maze_levels(jax.random.split(jax.random.key(0), GENERATED), name)
    return Sample(level.terrain, level.start, shortest_paths(level.terrain, level.start))
