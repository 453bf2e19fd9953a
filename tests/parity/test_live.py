"""The real game, played now, replayed through the engine: no exceptions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihax.env import make_corridor
from minihax.game.actions import DELTAS, KICK, OPEN, SEARCH, WALKABLE
from minihax.game.rules import maze_rules
from minihax.level.terrain import Level, Terrain
from minihax.look.glyphs import NLE_GLYPHS
from minihax.look.observation import from_nle

from parity.recordings import with_hero
from parity.replaying import differences, replay

pytest.importorskip(
    "nle", reason="nle is not installed (pip install 'maskless[minihack]'): no real game to play"
)
from parity.live_game import live_game, play_live

EPISODES_PER_POLICY = 4


class Uniform:
    """Every action equally often."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)

    def __call__(self, terrain, boulders, position, prompt) -> int:
        return self.random.integers(11)


class Patient(Uniform):
    """Never kicks, so it lives to faint from hunger; opens, searches and wanders."""

    def __call__(self, terrain, boulders, position, prompt) -> int:
        if self.random.random() < 0.7:
            return SEARCH
        return self.random.choice([0, 1, 2, 3, 4, 5, 6, 7, OPEN])


class Curious(Uniform):
    """Walks to interesting squares (doors, boulders, hidden things) and tries everything there."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.target = None
        self.patience = 0

    def __call__(self, terrain, boulders, position, prompt) -> int:
        self.patience -= 1
        near = self.target is not None and np.abs(self.target - position).max() <= 1
        if self.patience < 0 or (near and self.random.random() < 0.05):
            squares = np.argwhere((terrain > Terrain.CORRIDOR) | boulders)
            self.target = squares[self.random.integers(len(squares))]
            self.patience = 150
        if prompt or near:
            if self.random.random() < 0.7:
                toward = np.flatnonzero((self.target - position == DELTAS).all(axis=1))
                if len(toward) and (prompt or self.random.random() < 0.5):
                    return toward[0]
                return self.random.choice([OPEN, KICK, SEARCH])
            return self.random.integers(11)
        return self._towards(terrain, position)

    def _towards(self, terrain, position) -> int:
        """One step of the shortest way; boulders are pushed, shut doors walked into."""
        passable = WALKABLE[terrain] | (terrain == Terrain.CLOSED_DOOR)
        passable &= terrain != Terrain.DOWN_STAIRS
        distance = np.full(terrain.shape, 9999)
        distance[tuple(self.target)] = 0
        frontier = [tuple(self.target)]
        while frontier:
            following = []
            for y, x in frontier:
                for dy, dx in DELTAS:
                    square = (y + dy, x + dx)
                    if passable[square] and distance[square] > distance[y, x] + 1:
                        distance[square] = distance[y, x] + 1
                        following.append(square)
            frontier = following
        around = [distance[tuple(position + delta)] for delta in DELTAS]
        if min(around) == 9999 or self.random.random() < 0.1:
            return self.random.integers(8)
        return int(self.random.permutation(np.flatnonzero(around == np.min(around)))[0])


class Walker(Uniform):
    """Walks at random, mostly where one can."""

    def __call__(self, terrain, boulders, position, prompt) -> int:
        free = [WALKABLE[terrain[tuple(position + delta)]] for delta in DELTAS]
        if self.random.random() < 0.8:
            return self.random.choice(np.flatnonzero(free))
        return self.random.integers(8)


def check(trajectories, **options):
    """No step of these differs in the engine."""
    wrong = []
    batch = len(trajectories)
    for trajectory, engine in zip(
        trajectories, replay(trajectories, batch, **options), strict=True
    ):
        wrong += differences(trajectory, engine)
    steps = sum(t.length for t in trajectories)
    summary = f"{len(wrong)} differences in {steps} steps, such as"
    assert not wrong, "\n".join([summary, *wrong[:20]])


@pytest.mark.parametrize("size", ["9x9", "15x15"])
def test_live_mazes(size):
    limit = 200 if size == "9x9" else 1000
    with live_game(f"MiniHack-MazeWalk-{size}-v0") as game:
        trajectories = [
            play_live(game, size, seed, Walker(seed)) for seed in range(EPISODES_PER_POLICY)
        ]
    check(trajectories, rules=maze_rules(limit))


@pytest.mark.parametrize("kind", ["", "-mapped"])
@pytest.mark.parametrize("size", ["9x9", "15x15", "45x19"])
def test_live_maze_screens(size, kind):
    """The whole screen of every state, and the agent's observation of it, on the real maze."""
    env = make_corridor(f"mazewalk-{size}{kind}")
    step = jax.jit(env.step)
    nowhere = jnp.zeros((21, 80), bool)
    with live_game(f"MiniHack-MazeWalk-{'Mapped-' * bool(kind)}{size}-v0") as game:
        for seed in range(EPISODES_PER_POLICY):
            real = game.reset(seed)
            terrain, _ = game.true_map()
            start = jnp.array([real["blstats"][1], real["blstats"][0] + 1], jnp.int32)
            level = Level(jnp.asarray(terrain), ~nowhere, nowhere, nowhere, start)
            state, previous = env.start(jax.random.key(0), level), None
            walker = Walker(seed)
            for _ in range(60):
                screen = NLE_GLYPHS[with_hero(state.remembered, state.position)]
                np.testing.assert_array_equal(screen[:, 1:], real["glyphs"])
                seen = from_nle(real, previous, num_actions=env.num_actions)
                np.testing.assert_array_equal(env.observe(state).glyphs, seen.glyphs)
                previous = int(walker(terrain, None, np.asarray(state.position), False))
                real, _, done, _, _ = game.step(previous)
                _, state, _, _, _ = step(jax.random.key(0), state, previous)
                if done:
                    break


@pytest.mark.parametrize("rooms", [2, 3, 5])
def test_live_episodes(rooms):
    trajectories = []
    with live_game(f"MiniHack-Corridor-R{rooms}-v0") as game:
        for policy in (Uniform, Patient, Curious):
            for seed in range(EPISODES_PER_POLICY):
                chosen = policy(seed)
                name = f"R{rooms}, {policy.__name__}"
                trajectories.append(play_live(game, name, 1000 * rooms + seed, chosen))
    check(trajectories)
