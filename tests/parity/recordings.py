"""Reads recordings of the real MiniHack (format: shared/data/minihack/README.md).

Any folder in that format will do: set MASKLESS_MINIHACK_DATA (make_recording.py makes new ones).
Otherwise the shared folder is used, and where that is missing the small extract committed under
tests/data/minihack. Only golden_trajectories.npz has to be there: tests of other files are skipped
by name where those are missing.
"""

import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihax.level.terrain import HEIGHT, RECORDED_CHARACTERS, WIDTH, Terrain
from minihax.look.glyphs import Glyph

ROOT = Path(__file__).resolve().parents[2]
ROOMS_BY_ENV = {"R2": 2, "R3": 3, "R5": 5}


def folder() -> Path:
    chosen = os.environ.get("MASKLESS_MINIHACK_DATA")
    if chosen:
        candidates = [Path(chosen)]
    else:
        candidates = [ROOT.parent / "shared/data/minihack", ROOT / "tests/data/minihack"]
    for candidate in candidates:
        if (candidate / "golden_trajectories.npz").exists():
            return candidate
    raise FileNotFoundError(f"no recordings in any of {[str(c) for c in candidates]}")


def _file(name: str) -> Path:
    path = folder() / name
    if not path.exists():
        pytest.skip(f"{folder()} has no {name}")
    return path


@functools.cache
def load(name: str) -> dict[str, np.ndarray]:
    """The arrays of one recording, e.g. `load("golden_trajectories")`."""
    with np.load(_file(f"{name}.npz"), allow_pickle=False) as archive:
        return dict(archive)


def summary(name: str) -> dict[str, Any]:
    """One of the JSON summaries, e.g. `summary("corridor_stats")`."""
    read: dict[str, Any] = json.loads(_file(f"{name}.json").read_text())
    return read


def with_hero(remembered: np.ndarray, position: np.ndarray) -> np.ndarray:
    """The hero's maps [..., 21, 80] with the hero drawn at his (y, x) [..., 2]."""
    rows, columns = np.arange(HEIGHT)[:, None], np.arange(WIDTH)
    y, x = (np.asarray(position)[..., axis, None, None] for axis in (0, 1))
    return np.where((rows == y) & (columns == x), np.int8(Glyph.HERO), remembered)


_CODES = np.full(256, 255, np.uint8)
for _character, _terrain in RECORDED_CHARACTERS.items():
    _CODES[ord(_character)] = _terrain


def read_map(recorded: np.ndarray) -> np.ndarray:
    """Terrain codes [21, 80] of a recorded true map (uint8 characters).

    Corners are recorded as '-': one with wall on just one horizontal and one vertical side.
    """
    characters = recorded.reshape(21, 80)
    terrain = _CODES[characters].astype(np.int8)
    if (terrain == -1).any():
        raise ValueError(f"unknown characters in a recorded map: {np.unique(characters)}")
    in_vertical_wall = np.isin(characters, [ord(c) for c in "|,bocLST"])
    for y, x in zip(*np.nonzero(characters == ord("-")), strict=True):
        below = y + 1 < 21 and in_vertical_wall[y + 1, x]
        above = y > 0 and in_vertical_wall[y - 1, x]
        right = x + 1 < 80 and characters[y, x + 1] not in (ord(" "), ord("#"), ord("%"))
        left = x > 0 and characters[y, x - 1] not in (ord(" "), ord("#"), ord("%"))
        if right == left or above == below:
            continue
        corner = {
            (True, True): Terrain.CORNER_TOP_LEFT,
            (True, False): Terrain.CORNER_BOTTOM_LEFT,
            (False, True): Terrain.CORNER_TOP_RIGHT,
            (False, False): Terrain.CORNER_BOTTOM_RIGHT,
        }[(right, below)]
        terrain[y, x] = corner
    return terrain
