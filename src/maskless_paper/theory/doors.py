"""Corridors with doors: `open` is valid at the doors only, and the only action that leads on there.

Under a mask `open` is tried at the doors and nowhere else. What becomes of it in the other cells
when the mask is taken away is the question of `statements.mask_removal`.
"""

import numpy as np
from jaxtyping import Float, Integer

from maskless_paper.theory.mdp import MDP, Generator, Problem, aligned_features


def winding_corridors(
    rng: Generator,
    count: int,
    alignments: Float[np.ndarray, " alignments"],
    *,
    length: int = 16,
    doors: int = 3,
    moves: int = 4,
    spare: int = 2,
    discount: float = 0.99,
    penalty: float = 0.0,
) -> Problem:
    """Random corridors, each once for every alignment: batch (alignments, count).

    In each cell one of `moves` leads on; the others are valid too, and bump into a wall. At `doors`
    of the cells, none of the moves does but `open`, the next action. Each cell passed earns 0.1,
    the last one 1, and there the episode ends. Invalid actions do nothing and cost `penalty`;
    `spare` of them are valid nowhere.
    """
    works = rng.integers(moves, size=(count, length))
    for corridor in works:
        corridor[rng.choice(np.arange(1, length - 1), doors, replace=False)] = moves
    right = works[..., None] == np.arange(moves + 1 + spare)
    valid = right | (np.arange(moves + 1 + spare) < moves)
    gain = np.where(np.arange(length) == length - 1, 1.0, 0.1)[:, None]
    mdp = MDP(
        transition=np.where(
            right[..., None], np.eye(length, k=1)[:, None, :], np.eye(length)[:, None, :]
        ),
        reward=np.where(right, gain, np.where(valid, 0.0, -penalty)),
        start=np.eye(length)[0],
        discount=np.asarray(discount),
        valid=valid,
    )
    return _with_alignments(mdp, alignments[:, None], moves)


def doors_bandit(
    alignments: Float[np.ndarray, " alignments"],
    *,
    moves: int,
    cells_per_move: int,
    doors: int,
    spare: int = 1,
) -> Problem:
    """The same without time, and symmetric, so that it can be solved: a bandit in each state.

    First the cells: each of `moves` is right in `cells_per_move` of them. Then the doors, where
    `open` is. What is right earns 1, everything else 0. All states are as frequent.
    """
    works = np.repeat(np.arange(moves + 1), [cells_per_move] * moves + [doors])
    right = works[:, None] == np.arange(moves + 1 + spare)
    states, actions = right.shape
    mdp = MDP(
        transition=np.zeros((states, actions, states)),
        reward=right.astype(float),
        start=np.full(states, 1.0 / states),
        discount=np.asarray(0.0),
        valid=right | (np.arange(actions) < moves),
    )
    return _with_alignments(mdp, alignments, moves)


def bandit_kept(
    alignments: Float[np.ndarray, " alignments"],
    times: Integer[np.ndarray, " times"],
    *,
    rate: float,
    moves: int,
    cells_per_move: int,
    doors: int,
    spare: int = 1,
) -> Float[np.ndarray, "times alignments"]:
    """The share of its return that a cell of `doors_bandit` keeps without the mask, derived.

    After these numbers of steps of exact SGD under the mask. See `statements.mask_removal`.
    """
    push = rate / (moves * cells_per_move + doors)
    own, shared = 1.0 - alignments, alignments * doors
    transfer = shared / (own + shared)
    cell, door = np.zeros_like(alignments), np.zeros_like(alignments)  # X and Y
    kept = []
    for step in range(int(times.max()) + 1):
        if step in times:
            rest = np.exp(cell - cell / moves) + (moves - 1) * np.exp(-cell / moves)
            leaks = np.exp(transfer * door) + spare * np.exp(transfer * door / (moves + 1))
            kept.append(1.0 / (1.0 + leaks / rest))
        cell = cell + push * own * moves / (moves - 1) * _push(cell, moves - 1)
        door = door + push * (own + shared) * (moves + 1) / moves * _push(door, moves)
    return np.stack(kept)


def _push(margin: Float[np.ndarray, " n"], others: int) -> Float[np.ndarray, " n"]:
    """p (1 - p) of the right action, `margin` above each of `others`: its update in a bandit."""
    right = 1.0 / (1.0 + others * np.exp(-margin))
    return right * (1.0 - right)


def _with_alignments(mdp: MDP, alignments: Float[np.ndarray, "*batch"], action: int) -> Problem:
    """With `aligned_features`; s* is a door that has not been met yet."""
    seen = aligned_features(mdp.states + 1, alignments)
    at_door = np.arange(mdp.actions) <= action
    return Problem(mdp, seen[..., :-1, :], seen[..., -1, :], at_door, action)
