"""The hero's map rebuilt along every recorded fragment of the real game, and what agents get of it.

Only hero positions and changes of the true map are taken from the recording; what is seen and
remembered has to come out by itself and is compared with the whole 21 x 79 screen of every step.
"""

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihax.level.terrain import RECORDED_CHARACTERS, Terrain
from minihax.look.glyphs import CHARACTERS, COLOURS, NLE_GLYPHS, Glyph, from_nle_glyphs
from minihax.look.messages import Message, message_id
from minihax.look.observation import from_nle, observe
from minihax.sight.sight import nothing_remembered, update_memory

from parity.recordings import load, read_map, with_hero

GOLDEN = "golden_trajectories"
FRAGMENTS_AT_ONCE = 256  # sight works on the bits of all of them at once
DIED = 1
DARK = (Terrain.STONE, Terrain.CORRIDOR, Terrain.SECRET_CORRIDOR)


def in_horizontal_wall(terrain: np.ndarray) -> np.ndarray:
    """Doors that have wall (or another door) to their left or right."""
    walled = np.isin(terrain, np.r_[2:7, 12:19])
    left, right = np.roll(walled, 1, axis=1), np.roll(walled, -1, axis=1)
    return (terrain >= Terrain.DOORWAY) & (left | right)


@functools.cache
def fragments(recording: str = GOLDEN) -> list[dict[str, np.ndarray]]:
    """For each fragment: the level, and per state (the first one included) what changed."""
    g = load(recording)
    most = int(g["frag_nsteps"].max()) + 1
    changes_at_once = _most_changes(g)
    result = []
    for f in range(len(g["frag_env"])):
        steps = slice(int(g["frag_start"][f]), int(g["frag_start"][f] + g["frag_nsteps"][f]))
        positions = np.zeros((most, 2), np.int32)
        positions[0] = g["frag_y0"][f], g["frag_x0"][f]
        walked = np.stack([g["y1"][steps], g["x1"][steps]], axis=1)
        positions[1 : len(walked) + 1] = walked
        positions[len(walked) + 1 :] = positions[len(walked)]
        boulders = np.zeros((21, 80), bool)
        _, x, y = g["boulders"][g["boulders"][:, 0] == f].T
        boulders[y, x] = True
        terrain = read_map(g["frag_truemap"][f])
        result.append(
            {
                "terrain": terrain,
                "lit": ~np.isin(terrain, DARK),
                "horizontal": in_horizontal_wall(terrain),
                "boulders": boulders,
                "positions": positions,
                "changes": _changes(g, f, most, changes_at_once),
                "states": len(walked) + 1 - int((g["end_status"][steps] == DIED).any()),
            }
        )
    return result


def _most_changes(g: dict[str, np.ndarray]) -> int:
    steps = Counter(zip(g["tdiff_frag"].tolist(), g["tdiff_step"].tolist(), strict=True))
    return max(2, *steps.values())  # at least two, so that recordings share one program


def _changes(g: dict[str, np.ndarray], f: int, most: int, at_once: int) -> np.ndarray:
    """[states, at once, (y, x, terrain)], y = -1 where there is none."""
    changes = np.full((most, at_once, 3), -1, np.int32)
    used: Counter[int] = Counter()
    for k in np.nonzero(g["tdiff_frag"] == f)[0]:
        state = int(g["tdiff_step"][k]) + 1
        code = RECORDED_CHARACTERS[chr(g["tdiff_ch"][k])]
        changes[state, used[state]] = g["tdiff_y"][k], g["tdiff_x"][k], code
        used[state] += 1
    return changes


@jax.jit
@jax.vmap
def remembered_maps(terrain, lit, horizontal, boulders, positions, changes):
    """int8[states, 21, 80]: the hero's map in each state, himself not drawn."""

    def step(state, inputs):
        terrain, boulders, remembered, before = state
        position, changed = inputs
        for y, x, code in changed:
            row = jnp.where(y < 0, 21, y)  # outside: dropped
            terrain = terrain.at[row, x].set(code.astype(jnp.int8), mode="drop")
        pushed = boulders[position[0], position[1]]
        boulders = boulders.at[position[0], position[1]].set(False)
        beyond = 2 * position - before
        boulders = boulders.at[beyond[0], beyond[1]].max(pushed)
        remembered = update_memory(remembered, terrain, lit, horizontal, boulders, position)
        return (terrain, boulders, remembered, position), remembered

    start = (terrain, boulders, nothing_remembered(), positions[0])
    return jax.lax.scan(step, start, (positions, changes))[1]


@functools.cache
def rebuilt(recording: str = GOLDEN) -> list[np.ndarray]:
    """For each fragment int8[states, 21, 80]."""
    names = ("terrain", "lit", "horizontal", "boulders", "positions", "changes")
    everything = fragments(recording)
    maps: list[np.ndarray] = []
    for first in range(0, len(everything), FRAGMENTS_AT_ONCE):
        group = everything[first : first + FRAGMENTS_AT_ONCE]
        full = [group[min(k, len(group) - 1)] for k in range(FRAGMENTS_AT_ONCE)]
        arrays = (jnp.asarray(np.stack([f[name] for f in full])) for name in names)
        maps += list(np.asarray(remembered_maps(*arrays)))[: len(group)]
    return [m[: f["states"]] for m, f in zip(maps, everything, strict=True)]


@functools.cache
def recorded(recording: str = GOLDEN) -> list[np.ndarray]:
    """For each fragment int16[states, 21, 79]: NLE's glyphs, rebuilt from the differences."""
    g = load(recording)
    result = []
    for f, fragment in enumerate(fragments(recording)):
        screens = np.empty((fragment["states"], 21, 79), np.int16)
        screens[:] = g["frag_glyphs0"][f]
        mine = np.nonzero(g["gdiff_frag"] == f)[0]
        for k in mine[np.argsort(g["gdiff_step"][mine], kind="stable")]:
            state = int(g["gdiff_step"][k]) + 1
            screens[state:, g["gdiff_y"][k], g["gdiff_x"][k]] = g["gdiff_glyph"][k]
        result.append(screens)
    return result


@pytest.mark.parametrize("recording", [GOLDEN, f"sight_cases/{GOLDEN}"])
def test_the_whole_screen_is_rebuilt_in_every_state(recording):
    states, wrong = 0, 0
    kinds: Counter[tuple[str, str, str]] = Counter()
    examples = []
    for f, (ours, real) in enumerate(zip(rebuilt(recording), recorded(recording), strict=True)):
        screens = with_hero(ours, fragments(recording)[f]["positions"][: len(ours)])[:, :, 1:]
        different = NLE_GLYPHS[screens] != real
        states += len(ours)
        wrong += int(different.any(axis=(1, 2)).sum())
        for state, y, column in np.argwhere(different):
            names = [Glyph(int(i)).name for i in (from_nle_glyphs(real)[state, y, column],)]
            kind = (names[0], Glyph(int(screens[state, y, column])).name, f"x = {column + 1}")
            kinds[kind] += 1
            examples.append((f, int(state), int(y), int(column) + 1))
    print(f"sight: {states - wrong} of {states} states are exact; differences: {dict(kinds)}")
    assert not kinds, f"(real, ours, where): {kinds}; first: {examples[:20]}"


def test_the_agent_gets_the_same_from_the_game_and_from_nle():
    g = load(GOLDEN)
    crops = jax.jit(jax.vmap(observe))
    for f, fragment in enumerate(fragments()):
        start, count = int(g["frag_start"][f]), fragment["states"] - 1
        steps = slice(start, start + count)
        texts = g["messages"][g["msg_id"][steps]]
        ours = crops(
            jnp.asarray(_padded(rebuilt()[f][1:])),
            jnp.asarray(_padded(fragment["positions"][1 : count + 1])),
            jnp.asarray(_padded(g["blstats"][steps])),
            jnp.asarray(_padded(np.array([message_id(t) for t in texts], np.int32))),
            jnp.asarray(_padded(g["action"][steps].astype(np.int32))),
        )
        ours = jax.tree.map(lambda a, n=count: np.asarray(a)[:n], ours)
        for k in range(count):
            message = np.zeros(256, np.uint8)
            message[: len(texts[k])] = np.frombuffer(texts[k].encode(), np.uint8)
            screen = {
                "glyphs": recorded()[f][k + 1],
                "blstats": g["blstats"][start + k].astype(np.int64),
                "message": message,
            }
            real = from_nle(screen, int(g["action"][start + k]))
            mine = jax.tree.map(lambda a, k=k: a[k], ours)
            for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(real), strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(NLE_GLYPHS[real.glyphs], g["glyphs_crop"][start + k])


def _padded(array: np.ndarray, block: int = 256) -> np.ndarray:
    """So that fragments of all lengths share one compiled program."""
    return np.concatenate([array, np.repeat(array[-1:], -len(array) % block, axis=0)])


def test_every_recorded_message_is_known():
    texts = load(GOLDEN)["messages"]
    assert all(message_id(str(text)) != Message.OTHER for text in texts)


def test_characters_and_colours_are_those_of_the_recordings():
    g = load(GOLDEN)
    alive = g["end_status"] != DIED
    ids = from_nle_glyphs(g["glyphs_crop"][alive])
    np.testing.assert_array_equal(NLE_GLYPHS[ids], g["glyphs_crop"][alive])
    np.testing.assert_array_equal(CHARACTERS[ids], g["chars_crop"][alive])
    np.testing.assert_array_equal(COLOURS[ids], g["colors_crop"][alive])
