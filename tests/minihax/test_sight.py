"""The fast sight against the slow reference, and properties of what is remembered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_sight

from minihax.level.terrain import HEIGHT, WIDTH, Terrain
from minihax.look.glyphs import Glyph
from minihax.sight.sight import in_sight, nothing_remembered, update_memory

from parity.recordings import load, read_map, with_hero

DARK = (Terrain.STONE, Terrain.CORRIDOR, Terrain.SECRET_CORRIDOR)
BATCH = 512
see = jax.jit(jax.vmap(in_sight))


def assert_equal_to_reference(terrain, lit, boulders, positions):
    """Batches of one size, so that only one program is compiled."""
    count = len(positions)
    assert count <= BATCH
    filled = np.resize(np.arange(count), BATCH)
    inputs = (terrain[filled], lit[filled], boulders[filled], positions[filled])
    fast = np.asarray(see(*(jnp.asarray(a) for a in inputs)))[:count]
    for k in range(count):
        y, x = (int(i) for i in positions[k])
        slow = reference_sight.in_sight(terrain[k], lit[k], boulders[k], y, x)
        assert (fast[k] == slow).all(), (k, (y, x), np.argwhere(fast[k] != slow).tolist())


def recorded_level(name: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    levels = load("corridor_levels")
    boulders = np.zeros((HEIGHT, WIDTH), bool)
    rows = levels[f"{name}_boulders"]
    _, x, y = rows[rows[:, 0] == number].T
    boulders[y, x] = True
    return read_map(levels[f"{name}_map"][number]), boulders


def odd_first(terrain: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Free squares: doorways, corridor ends and squares near the edges first."""
    clear = reference_sight.clear_squares(terrain, np.zeros_like(terrain, bool))
    squares = rng.permutation(np.argwhere(clear))
    neighbours = np.array([clear[y - 1 : y + 2, x - 1 : x + 2].sum() - 1 for y, x in squares])
    kind = terrain[squares[:, 0], squares[:, 1]]
    near_edge = (squares[:, 1] >= 75) | (squares[:, 1] <= 4)
    odd = (kind >= Terrain.DOORWAY) | (neighbours <= 1) | near_edge
    return squares[np.argsort(~odd, kind="stable")]


@pytest.mark.parametrize("name", ["R2", "R3", "R5"])
def test_agrees_with_the_reference_on_recorded_levels(name):
    rng = np.random.default_rng(0)
    available = len(load("corridor_levels")[f"{name}_map"])
    terrains, boulder_maps, positions = [], [], []
    for number in rng.permutation(available)[:64]:
        terrain, boulders = recorded_level(name, number)
        odd = odd_first(terrain, rng)
        chosen = np.concatenate([odd[:4], rng.permutation(odd)[:4]])
        terrains += [terrain] * len(chosen)
        boulder_maps += [boulders] * len(chosen)
        positions.append(chosen)
    terrain = np.stack(terrains)
    assert_equal_to_reference(
        terrain,
        ~np.isin(terrain, DARK),
        np.stack(boulder_maps),
        np.concatenate(positions).astype(np.int32),
    )


@pytest.mark.parametrize("free", [0.3, 0.6, 0.8, 0.95, 0.99])
def test_agrees_with_the_reference_on_noise(free):
    """No level looks like this, but every rule is met from every side. Only the border is solid, as
    in all levels."""
    rng = np.random.default_rng(int(100 * free))
    count = BATCH // 2
    shape = (count, HEIGHT, WIDTH)
    kinds = np.array([t for t in Terrain if t != Terrain.STONE], np.int8)
    clear_kinds = [Terrain.FLOOR, Terrain.CORRIDOR, Terrain.DOORWAY, Terrain.OPEN_DOOR]
    terrain = rng.choice(kinds, shape)
    terrain = np.where(rng.random(shape) < free, rng.choice(clear_kinds, shape), terrain)
    inside = np.zeros((HEIGHT, WIDTH), bool)
    inside[1:-1, 1:-1] = True
    terrain = np.where(inside, terrain, Terrain.STONE)
    boulders = (rng.random(shape) < (1 - free) / 10) & inside
    positions = np.stack([rng.integers(1, n - 1, count) for n in (HEIGHT, WIDTH)], axis=1)
    lit = (rng.random(shape) < 0.8) & inside
    assert_equal_to_reference(terrain.astype(np.int8), lit, boulders, positions.astype(np.int32))


def test_agrees_with_the_reference_in_mazes():
    rng = np.random.default_rng(0)
    mazes = load("mazewalk_levels")["MazeWalk_45x19"]
    terrain = np.stack([read_map(mazes[rng.integers(len(mazes))]) for _ in range(128)])
    positions = np.stack([odd_first(t, rng)[0] for t in terrain]).astype(np.int32)
    boulders = np.zeros_like(terrain, bool)
    assert_equal_to_reference(terrain, np.ones_like(boulders), boulders, positions)


def test_one_map_a_batch_and_batches_of_batches_agree():
    terrain, boulders = recorded_level("R5", 0)
    lit = ~np.isin(terrain, DARK)
    squares = odd_first(terrain, np.random.default_rng(1))[:6].astype(np.int32)
    same = (jnp.asarray(terrain), jnp.asarray(lit), jnp.asarray(boulders))
    alone = np.stack([in_sight(*same, jnp.asarray(p)) for p in squares])
    over_positions = jax.vmap(in_sight, (None, None, None, 0))
    batch = over_positions(*same, jnp.asarray(squares))
    over_both = jax.vmap(over_positions, (None, None, None, 0))
    nested = over_both(*same, jnp.asarray(squares.reshape(2, 3, 2)))
    np.testing.assert_array_equal(alone, batch)
    np.testing.assert_array_equal(alone, nested.reshape(alone.shape))


ROOM = """
            #
 ---------- #
 |........| #
 |.<......,##
 |........|
 ----------
"""


def small_room() -> tuple[dict[str, jnp.ndarray], np.ndarray]:
    characters = np.full((HEIGHT, WIDTH), ord(" "), np.uint8)
    for y, line in enumerate(ROOM.splitlines()[1:]):
        characters[y + 5, 20 : 20 + len(line)] = np.frombuffer(line.encode(), np.uint8)
    terrain = read_map(characters)
    level = {
        "terrain": jnp.asarray(terrain),
        "lit": jnp.asarray(~np.isin(terrain, DARK)),
        "horizontal": jnp.zeros((HEIGHT, WIDTH), bool),
        "boulders": jnp.zeros((HEIGHT, WIDTH), bool),
    }
    return level, terrain


def test_a_room_is_seen_from_inside_and_fades_outside():
    level, terrain = small_room()
    inside = update_memory(nothing_remembered(), **level, position=jnp.array([8, 23]))
    room = ~np.isin(terrain, DARK)
    np.testing.assert_array_equal(np.asarray(inside)[room], terrain[room])
    assert not np.asarray(inside)[~room].any()
    outside = update_memory(inside, **level, position=jnp.array([5, 32]))
    floor = terrain == Terrain.FLOOR
    assert (np.asarray(outside)[floor] == Glyph.FLOOR_REMEMBERED).all()
    walls = room & ~floor
    np.testing.assert_array_equal(np.asarray(outside)[walls], terrain[walls])


def test_walking_along_the_outside_reveals_no_wall():
    level, terrain = small_room()
    seen = update_memory(nothing_remembered(), **level, position=jnp.array([6, 32]))
    assert set(np.unique(np.asarray(seen))) == {Glyph.UNSEEN, Glyph.CORRIDOR}
    corridor = (terrain == Terrain.CORRIDOR) & (np.arange(HEIGHT)[:, None] <= 7)
    np.testing.assert_array_equal(np.asarray(seen) == Glyph.CORRIDOR, corridor)


def test_the_hero_is_drawn_on_top():
    shown = with_hero(nothing_remembered(), jnp.array([3, 7]))
    assert shown[3, 7] == Glyph.HERO
    assert jnp.sum(shown != Glyph.UNSEEN) == 1
