"""The real game in this process: plays MiniHack's Corridor and reads the true map from memory.

The normal interface shows only what the hero has seen. The game's library exports its level array;
each environment has its own copy of the library in memory, so the array is at the same distance
from the start of that copy as in the library that is loaded here a second time.
"""

import contextlib
import ctypes
import os
from pathlib import Path

import gymnasium
import minihack  # noqa: F401  (registers the environments)
import nle
import numpy as np

from minihax.game.actions import DELTAS
from minihax.level.terrain import Terrain

from parity.replaying import ATTRIBUTES_IN_BLSTATS, Trajectory

_LIBRARY = Path(nle.__file__).with_name("libnethack.so")
_COLUMNS, _ROWS, _SQUARE_BYTES = 80, 21, 8

_PLAIN = {i: Terrain(i) for i in range(7)} | {
    23: Terrain.CORRIDOR,
    15: Terrain.SECRET_CORRIDOR,
    24: Terrain.FLOOR,
}
_STAIRS, _DOOR, _SECRET_DOOR, _LOCKED = 25, 22, 14, 8
_STAIR_KINDS = {1: Terrain.UP_STAIRS, 2: Terrain.DOWN_STAIRS}
_DOOR_KINDS = {
    0: Terrain.DOORWAY,
    1: Terrain.BROKEN_DOOR,
    2: Terrain.OPEN_DOOR,
    4: Terrain.CLOSED_DOOR,
    8: Terrain.LOCKED_DOOR,
}


def _loaded() -> dict[str, int]:
    """Where each copy of the library begins in memory, by the name of its file."""
    starts: dict[str, int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and ("libnethack.so" in fields[5] or "memfd:nle.so" in fields[5]):
            starts.setdefault(fields[5], int(fields[0].split("-")[0], 16))
    return starts


def _copied(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The game writes every observation into the same arrays."""
    return {name: array.copy() for name, array in observation.items()}


class LiveGame:
    """One real environment. Use one at a time."""

    def __init__(self, env_id: str):
        library = ctypes.CDLL(str(_LIBRARY))
        address = ctypes.addressof(ctypes.c_byte.in_dll(library, "level"))
        self._offset = address - _loaded()[os.path.realpath(_LIBRARY)]
        self._env = gymnasium.make(env_id)

    def close(self) -> None:
        self._env.close()

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        self._env.unwrapped.seed(seed, seed, reseed=False)
        observation = self._env.reset()[0]
        (copy,) = [start for name, start in _loaded().items() if "memfd" in name]
        self._level = copy + self._offset
        return _copied(observation)

    def step(self, action: int):
        observation, *outcome = self._env.step(action)
        return _copied(observation), *outcome

    def true_map(self) -> tuple[np.ndarray, np.ndarray]:
        """Terrain codes and boulders [21, 80]."""
        size = _COLUMNS * _ROWS
        squares = (ctypes.c_uint8 * (size * _SQUARE_BYTES)).from_address(self._level)
        squares = np.frombuffer(squares, np.uint8).reshape(_COLUMNS, _ROWS, _SQUARE_BYTES)
        kind, flags = squares[:, :, 4].T, squares[:, :, 6].T & 31
        objects = (ctypes.c_uint64 * size).from_address(self._level + size * _SQUARE_BYTES)
        boulders = np.frombuffer(objects, np.uint64).reshape(_COLUMNS, _ROWS).T != 0
        terrain = np.full((_ROWS, _COLUMNS), -1, np.int8)
        for code, name in _PLAIN.items():
            terrain[kind == code] = name
        for code, names in ((_STAIRS, _STAIR_KINDS), (_DOOR, _DOOR_KINDS)):
            for flag, name in names.items():
                terrain[(kind == code) & (flags == flag)] = name
        terrain[kind == _SECRET_DOOR] = Terrain.SECRET_DOOR
        terrain[(kind == _SECRET_DOOR) & (flags & _LOCKED > 0)] = Terrain.SECRET_LOCKED_DOOR
        assert (terrain >= 0).all(), "a kind of square that these levels should not have"
        return terrain, boulders


@contextlib.contextmanager
def live_game(env_id: str):
    game = LiveGame(env_id)
    try:
        yield game
    finally:
        game.close()


def play_live(game: LiveGame, name: str, seed: int, policy, limit: int = 1000) -> Trajectory:
    """One real episode. `policy(terrain, boulders, position, prompt)` chooses the actions."""
    observation = game.reset(seed)
    terrain, boulders = game.true_map()
    first, stones = terrain, boulders
    position = np.array([observation["blstats"][1], observation["blstats"][0] + 1])
    start = tuple(int(i) for i in position)
    attributes = observation["blstats"][ATTRIBUTES_IN_BLSTATS]
    rows, changes, prompt = [], [], False
    for step in range(limit):
        action = int(policy(terrain, stones, position, prompt))
        observation, reward, done, _, info = game.step(action)
        text = bytes(observation["message"]).split(b"\0")[0].decode()
        blstats = observation["blstats"].astype(int)
        goal = done and reward == 1
        if blstats.any():
            position = np.array([blstats[1], blstats[0] + 1])
            now, stones = game.true_map()
            for y, x in np.argwhere(now != terrain):
                changes.append((step, int(y), int(x), int(now[y, x])))
            terrain = now
        elif goal:
            position = position + DELTAS[action]
        prompt = text == "In what direction? "
        died = done and int(info["end_status"]) == 1
        turn = int(blstats[20]) if blstats.any() else (rows[-1][3] if rows else 1)
        rows.append((action, text, position, turn, blstats, prompt, reward, done, died))
        if done:
            break
    columns = list(zip(*rows, strict=True))
    return Trajectory(
        name=f"{name}, seed {seed}",
        terrain=first,
        boulders=boulders,
        start=start,
        attributes=attributes,
        actions=np.array(columns[0]),
        texts=list(columns[1]),
        positions=np.array(columns[2]),
        turns=np.array(columns[3]),
        blstats=np.array(columns[4]),
        prompts=np.array(columns[5]),
        rewards=np.array(columns[6], np.float32),
        done=np.array(columns[7]),
        died=np.array(columns[8]),
        changes=changes,
    )
