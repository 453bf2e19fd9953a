"""Ways to play the real game: `policy(terrain, boulders, position, prompt)` chooses the actions."""

import numpy as np

from minihax.game.actions import DELTAS, KICK, OPEN, SEARCH, WALKABLE
from minihax.level.terrain import Terrain


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
        self.known = None

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
        question = (tuple(self.target), terrain.tobytes())
        if question != self.known:
            self.known, self.distance = question, self._distances(terrain)
        around = [self.distance[tuple(position + delta)] for delta in DELTAS]
        if min(around) == 9999 or self.random.random() < 0.1:
            return self.random.integers(8)
        return int(self.random.permutation(np.flatnonzero(around == np.min(around)))[0])

    def _distances(self, terrain):
        """Steps to the target from every square, 9999 where there is no way."""
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
        return distance


class Walker(Uniform):
    """Walks at random, mostly where one can."""

    def __call__(self, terrain, boulders, position, prompt) -> int:
        free = [WALKABLE[terrain[tuple(position + delta)]] for delta in DELTAS]
        if self.random.random() < 0.8:
            return self.random.choice(np.flatnonzero(free))
        return self.random.integers(8)


class Explorer(Curious):
    """Walks from one place to another, all over the level, and searches now and then."""

    def __call__(self, terrain, boulders, position, prompt) -> int:
        self.patience -= 1
        arrived = self.target is not None and (self.target == position).all()
        if self.patience < 0 or arrived:
            goal = terrain == Terrain.DOWN_STAIRS
            squares = np.argwhere((WALKABLE[terrain] | boulders) & ~goal)
            self.target = squares[self.random.integers(len(squares))]
            self.patience = 60
        if self.random.random() < 0.02:
            return SEARCH
        return self._towards(terrain, position)
