"""The real game, played now, replayed through the engine: no exceptions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihax.env import make_corridor
from minihax.game.rules import maze_rules
from minihax.level.terrain import Level
from minihax.look.glyphs import NLE_GLYPHS
from minihax.look.observation import from_nle

from parity.policies import Curious, Patient, Uniform, Walker
from parity.recordings import with_hero
from parity.replaying import differences, replay

pytest.importorskip(
    "nle", reason="nle is not installed (pip install 'maskless[minihack]'): no real game to play"
)
from parity.live_game import live_game, play_live

EPISODES_PER_POLICY = 4


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
