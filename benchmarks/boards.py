"""Two more worlds to try the promise on, which nothing was chosen by: boards, where validity is a
pattern of squares and not a comparison of numbers.

    maskless train --env boards:Othello --frames 4e5            # in this folder
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

import maskless

SIZE = 6
DIRECTIONS = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
Board = Bool[Array, "6 6"]


class Othello(maskless.Environment):
    """Othello on 6 x 6 against a player who moves at random: 36 squares, and passing where there is
    no other move. Valid is a square from which stones are turned. In the end a tenth of the
    difference in stones is paid; an invalid action changes nothing and costs 0.1."""

    id, episode_limit = "othello", 60
    action_names = (*(f"{'abcdef'[n % SIZE]}{n // SIZE + 1}" for n in range(SIZE**2)), "pass")

    def reset(self, key: PRNGKeyArray, params: Any = None) -> Any:
        blank = jnp.zeros((SIZE, SIZE), bool)
        own = blank.at[2, 3].set(True).at[3, 2].set(True)
        other = blank.at[2, 2].set(True).at[3, 3].set(True)
        replied, turned = _reply(key, other, own)
        begins = jax.random.bernoulli(key)
        state = (jnp.where(begins, own, turned), jnp.where(begins, other, replied), jnp.int32(0))
        return self.observe(state), state

    def step(self, key: PRNGKeyArray, state: Any, action: Any, params: Any = None) -> Any:
        own, other, time = state
        valid, places = self.validity(state)[action], action < SIZE**2
        placed, turned = _place(own, other, jnp.minimum(action, SIZE**2 - 1))
        mine, theirs = jnp.where(places, placed, own), jnp.where(places, turned, other)
        theirs, mine = _reply(key, theirs, mine)
        own, other = jnp.where(valid, mine, own), jnp.where(valid, theirs, other)
        state = (own, other, time + 1)
        over = ~jnp.any(_moves(own, other)) & ~jnp.any(_moves(other, own))
        truncated = (time + 1 >= self.episode_limit) & ~over
        score = jnp.where(over, (own.sum() - other.sum()) / 10, 0.0)
        reward = jnp.where(valid, 0.0, -0.1) + score
        return self.observe(state), state, reward, over | truncated, {"truncated": truncated}

    def observe(self, state: Any) -> Array:
        return jnp.stack(state[:2]).astype(jnp.float32)

    def validity(self, state: Any, params: Any = None) -> Bool[Array, " 37"]:
        moves = _moves(*state[:2]).reshape(-1)
        return jnp.append(moves, ~jnp.any(moves))

    def effect_view(self, state: Any) -> Any:
        return state[:2]


def _moves(own: Board, other: Board) -> Board:
    """Empty squares from which a line of the other's stones ends at one's own."""
    ends = jnp.zeros((SIZE, SIZE), bool)
    for direction in DIRECTIONS:
        ends |= _shift(_line(own, other, direction), direction)
    return ends & ~own & ~other


def _line(start: Board, over: Board, direction: tuple[int, int]) -> Board:
    """The unbroken squares of `over` that follow `start`."""
    line = _shift(start, direction) & over
    for _ in range(SIZE - 3):
        line |= _shift(line, direction) & over
    return line


def _shift(squares: Board, direction: tuple[int, int]) -> Board:
    return jnp.roll(jnp.pad(squares, 1), direction, (0, 1))[1:-1, 1:-1]


def _place(own: Board, other: Board, square: Int[Array, ""]) -> tuple[Board, Board]:
    """Both players' stones after one was placed there."""
    stone = jnp.zeros((SIZE, SIZE), bool).at[square // SIZE, square % SIZE].set(True)
    turned = jnp.zeros((SIZE, SIZE), bool)
    for direction in DIRECTIONS:
        line = _line(stone, other, direction)
        turned |= line & jnp.any(_shift(line, direction) & own)
    return own | stone | turned, other & ~turned


def _reply(key: PRNGKeyArray, own: Board, other: Board) -> tuple[Board, Board]:
    """The same after a random move of `own`, if there is one."""
    moves = _moves(own, other).reshape(-1)
    square = jax.random.categorical(key, jnp.where(moves, 0.0, -1e9))
    can = jnp.any(moves)
    placed, turned = _place(own, other, square)
    return jnp.where(can, placed, own), jnp.where(can, turned, other)


_CROSS = [(r, c) for r in range(7) for c in range(7) if 2 <= r < 5 or 2 <= c < 5]
_JUMPS = np.array(
    [
        [_CROSS.index(hole) for hole in ((r, c), (r + a, c + b), (r + 2 * a, c + 2 * b))]
        for r, c in _CROSS
        for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))
        if (r + 2 * a, c + 2 * b) in _CROSS
    ]
)


class Pegs(maskless.Environment):
    """Peg solitaire, 33 holes and 76 jumps, from any empty hole. Where no jump is left, 8 minus the
    pegs that are left is paid; an invalid jump changes nothing and costs 0.1."""

    id, episode_limit = "pegs", 60
    action_names = tuple(f"{start} to {end}" for start, _, end in _JUMPS.tolist())

    def reset(self, key: PRNGKeyArray, params: Any = None) -> Any:
        pegs = jnp.ones(len(_CROSS), bool).at[jax.random.randint(key, (), 0, 33)].set(False)
        state = (pegs, jnp.int32(0))
        return self.observe(state), state

    def step(self, key: PRNGKeyArray, state: Any, action: Any, params: Any = None) -> Any:
        pegs, time = state
        valid = self.validity(state)[action]
        start, over_it, end = jnp.asarray(_JUMPS)[action]
        after = pegs.at[start].set(False).at[over_it].set(False).at[end].set(True)
        pegs = jnp.where(valid, after, pegs)
        state = (pegs, time + 1)
        over = ~jnp.any(self.validity(state))
        truncated = (time + 1 >= self.episode_limit) & ~over
        reward = jnp.where(valid, 0.0, -0.1) + jnp.where(over, 8.0 - pegs.sum(), 0.0)
        return self.observe(state), state, reward, over | truncated, {"truncated": truncated}

    def observe(self, state: Any) -> Array:
        return state[0].astype(jnp.float32)

    def validity(self, state: Any, params: Any = None) -> Bool[Array, " 76"]:
        pegs = state[0]
        start, over_it, end = _JUMPS.T
        return pegs[start] & pegs[over_it] & ~pegs[end]

    def effect_view(self, state: Any) -> Any:
        return state[0]
