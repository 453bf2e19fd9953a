"""Small worlds as tables, and what an agent sees of them. NumPy, float64, any leading axes.

A `Problem` is the setting of the paper's Theorem 1: visited states in which an action is invalid,
and one rare state s* (the ladder) in which it is valid. s* is not among the states of the MDP:
nothing is ever sampled there, it is only looked at.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from maskless.envs.staircase import DESCEND, LEFT, RIGHT

Generator = np.random.Generator


@dataclasses.dataclass(frozen=True)
class MDP:
    """A finite decision process. What is missing from a row of `transition` ends the episode."""

    transition: Float[np.ndarray, "*batch states actions states"]
    reward: Float[np.ndarray, "*batch states actions"]
    start: Float[np.ndarray, "*batch states"]
    discount: Float[np.ndarray, "*batch"]
    valid: Bool[np.ndarray, "*batch states actions"]

    @property
    def states(self) -> int:
        return self.reward.shape[-2]

    @property
    def actions(self) -> int:
        return self.reward.shape[-1]


@dataclasses.dataclass(frozen=True)
class Problem:
    """An MDP, its features, and a rare state in which an action is valid that is so nowhere else.

    A linear softmax policy has the logits theta @ phi(s).
    """

    mdp: MDP
    features: Float[np.ndarray, "*batch states dims"]
    rare: Float[np.ndarray, "*batch dims"]
    """phi(s*)."""
    rare_valid: Bool[np.ndarray, " actions"]
    """The mask at s*."""
    action: int
    """The action in question: invalid in every state of the MDP, valid at s*."""

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes, if there are any."""
        return np.broadcast_shapes(self.mdp.reward.shape[:-2], self.features.shape[:-2])

    def zeros(self) -> Float[np.ndarray, "*batch actions dims"]:
        """The parameters of the uniform policy."""
        return np.zeros((*self.batch, self.mdp.actions, self.features.shape[-1]))


def staircase_mdp(
    length: int = 8,
    *,
    actions: int = 6,
    progress: float = 1.0,
    goal: float = 0.0,
    discount: float = 0.95,
    invalid: float = 0.0,
    step: float = 0.0,
    pit: float | None = None,
    ladder: bool = False,
) -> MDP:
    """`maskless.envs.staircase` as a table, from cell 0.

    Without `ladder`, reaching the ladder ends the episode, so that the states are the corridor's
    `length` cells; with it, the ladder is the last state, and descending ends the episode.
    `invalid`: the reward of an action that does nothing. `step`: added to the reward of one that
    works. `pit`: the fourth action works in the corridor; it has this reward and ends the episode.
    """
    cells = length + ladder
    transition = np.zeros((cells, actions, cells))
    transition[np.arange(cells), :, np.arange(cells)] = 1.0
    reward = np.full((cells, actions), invalid)
    valid = np.zeros((cells, actions), bool)
    for cell in range(cells):
        works = {}  # action -> where it leads, and for which reward
        if cell > 0:
            works[LEFT] = (cell - 1, -progress)
        if cell < length:
            works[RIGHT] = (cell + 1, progress)
        if cell == length:
            works[DESCEND] = (-1, goal)
        if pit is not None and cell < length:
            works[DESCEND + 1] = (-1, pit)
        for action, (target, gain) in works.items():
            valid[cell, action] = True
            reward[cell, action] = gain + step
            transition[cell, action] = 0.0
            if 0 <= target < cells:
                transition[cell, action, target] = 1.0
    return MDP(transition, reward, np.eye(cells)[0], np.asarray(discount), valid)


def staircase_problem(
    alignment: float | Float[np.ndarray, " batch"] = 0.8,
    *,
    bias: bool = False,
    mdp: MDP | None = None,
    right_at_ladder: bool = False,
) -> Problem:
    """The corridor before anyone has seen the ladder, with `aligned_features`; one problem for
    each of several alignments. `right_at_ladder`: the corridor goes on behind the ladder."""
    mdp = staircase_mdp() if mdp is None else mdp
    seen = aligned_features(mdp.states + 1, np.asarray(alignment))
    seen = with_bias(seen) if bias else seen
    rare_valid = np.isin(np.arange(mdp.actions), [LEFT, DESCEND, *[RIGHT] * right_at_ladder])
    return Problem(mdp, seen[..., :-1, :], seen[..., -1, :], rare_valid, DESCEND)


def aligned_features(
    states: int, alignment: Float[np.ndarray, "*batch"]
) -> Float[np.ndarray, "*batch states dims"]:
    """Unit vectors with inner product `alignment`: what is shared, and each state's own part.

    A negative alignment concerns the last state only: it has the shared part with the other sign.
    """
    alignment = np.asarray(alignment, float)[..., None, None]
    shared = np.sqrt(np.abs(alignment)) * np.ones((states, 1))
    sign = np.where(np.arange(states) == states - 1, np.sign(alignment[..., 0]), 1.0)[..., None]
    own = np.sqrt(1.0 - np.abs(alignment)) * np.eye(states)
    return np.concatenate([sign * shared, np.broadcast_to(own, (*shared.shape[:-1], states))], -1)


def with_bias(
    features: Float[np.ndarray, "*batch states dims"],
) -> Float[np.ndarray, "*batch states dims"]:
    """[phi, 1]: an output bias is one more feature, and adds 1 to every inner product."""
    return np.concatenate([features, np.ones((*features.shape[:-1], 1))], -1)


def random_problems(
    rng: Generator,
    count: int,
    *,
    states: int = 5,
    actions: int = 5,
    dims: int = 4,
    rewards: tuple[float, float] = (0.0, 1.0),
    invalid: Float[np.ndarray, " count"] | float = 0.0,
) -> Problem:
    """Random MDPs in which the last action is an invalid no-op of reward `invalid` in every state.

    Others are so here and there. Valid ones lead anywhere, with rewards in the range `rewards`;
    as it is, V > 0. Features are normal; in the second half their absolute values, so that all
    alignments are positive there. Episodes never end: r_max / (1 - gamma) bounds the values.
    """
    shape = (count, states, actions)
    valid = rng.random(shape) < 0.7
    valid[..., 0] = True
    valid[..., -1] = False
    stay = np.broadcast_to(np.eye(states)[:, None, :], (*shape, states))
    somewhere = rng.dirichlet(np.full(states, 0.5), shape)
    mdp = MDP(
        transition=np.where(valid[..., None], somewhere, stay),
        reward=np.where(valid, rng.uniform(*rewards, shape), np.reshape(invalid, (-1, 1, 1))),
        start=rng.dirichlet(np.ones(states), count),
        discount=rng.uniform(0.7, 0.97, count),
        valid=valid,
    )
    seen = rng.normal(size=(count, states + 1, dims)) / np.sqrt(dims)
    seen[count // 2 :] = np.abs(seen[count // 2 :])
    return Problem(mdp, seen[:, :-1], seen[:, -1], np.ones(actions, bool), actions - 1)


def mixed_problems(rng: Generator, count: int) -> Problem:
    """`random_problems` of every kind: each of these is so in about half of them.

    Valid actions may end the episode. Invalid ones earn something, of either sign. Time passes with
    an invalid action, as in Craftax: all invalid ones of a state lead where waiting there leads.
    """
    pays = np.where(rng.random(count) < 0.5, rng.uniform(-0.3, 0.7, count), 0.0)
    problem = random_problems(rng, count, invalid=pays)
    mdp = problem.mdp
    waiting = rng.dirichlet(np.full(mdp.states, 0.5), (count, mdp.states, 1))
    passes = rng.random(count) < 0.5
    transition = np.where(
        passes[:, None, None, None] & ~mdp.valid[..., None], waiting, mdp.transition
    )
    ends = (rng.random(count) < 0.5)[:, None, None] & mdp.valid
    onward = np.where(ends, rng.random(mdp.valid.shape), 1.0)  # the chance that it goes on
    return dataclasses.replace(
        problem, mdp=dataclasses.replace(mdp, transition=transition * onward[..., None])
    )
