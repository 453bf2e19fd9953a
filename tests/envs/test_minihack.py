"""The corridor environments behind the contract: shapes, masks against the game, errors."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.envs.mask_audit import audit
from maskless.envs.minihack import make_corridor
from maskless.envs.vector import VectorEnv
from maskless.errors import MasklessError, UnknownNameError
from minihax import IDS
from minihax.game.actions import KICK, OPEN, SEARCH
from minihax.game.step import OPEN_PROMPT
from minihax.level.terrain import Level, Terrain
from minihax.look.glyphs import NUM_GLYPHS, Glyph
from minihax.look.observation import crop

from toys import starting_from

GAMES = ("corridor-r2", "minihack-corridor-r2")


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled():
    """Compiling fast matters more here than running fast, and whole numbers are compared."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def compiled_reset(id: str):
    return jax.jit(make_corridor(id).reset)


@functools.cache
def started(id: str):
    return make_corridor(id), *compiled_reset(id)(jax.random.key(0))


@functools.cache
def compiled_step(id: str):
    return jax.jit(started(id)[0].step)


@pytest.mark.parametrize("id", ["corridor-r2", "minihack-corridor-r2", "mazewalk-9x9-mapped"])
def test_shapes_and_types_are_stable(id):
    env, observation, state = started(id)
    step = compiled_step(id)
    after_observation, after, reward, done, info = step(jax.random.key(1), state, jnp.int32(0))
    for before, then in ((observation, after_observation), (state, after)):
        assert jax.tree.structure(before) == jax.tree.structure(then)
        for a, b in zip(*map(jax.tree.leaves, (before, then)), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
    assert observation.glyphs.shape == (9, 9)
    assert observation.glyphs.max() < NUM_GLYPHS
    assert observation.blstats.shape == (27,)
    assert (reward.dtype, done.dtype) == (jnp.float32, jnp.bool_)
    assert info["truncated"].dtype == jnp.bool_
    assert env.validity(state).shape == (env.num_actions,)
    assert observation.previous_action == env.num_actions
    assert after_observation.previous_action == 0


def test_every_id_can_be_made():
    assert len(IDS) == 12
    for id in IDS:
        env = make_corridor(id)
        assert env.id == id
        assert env.num_actions == (8 if "maze" in id else 11)
        assert env.episode_limit == (200 if "9x9" in id else 1000)


def test_names_of_actions():
    assert make_corridor("corridor-r2").action_names[8:] == ("open_door", "kick", "search")
    assert make_corridor("minihack-corridor-r2").action_names[:2] == ("north", "east")


def test_what_is_wrong_is_said():
    with pytest.raises(UnknownNameError, match="corridor-r5"):
        make_corridor("corridor-r4")
    with pytest.raises(UnknownNameError, match="exact"):
        make_corridor("corridor-r2", rules="exakt")
    with pytest.raises(MasklessError, match="episode_limit must be from 1"):
        make_corridor("corridor-r2", episode_limit=0)
    env, _, state = started("corridor-r2")
    with pytest.raises(MasklessError, match="0 to 10"):
        env.step(jax.random.key(0), state, 11)


@pytest.mark.parametrize("id", GAMES)
def test_an_action_that_does_not_exist_does_nothing_inside_jit(id):
    env, _, state = started(id)
    step = compiled_step(id)
    for action in (11, 99, -1):
        _, after, reward, done, _ = step(jax.random.key(1), state, jnp.int32(action))
        views = env.effect_view(after), env.effect_view(state)
        jax.tree.map(np.testing.assert_array_equal, *views)
        assert not done
        assert reward == pytest.approx(-0.01)


def test_levels_that_do_not_fit_are_refused():
    env, _, state = started("minihack-corridor-r2")
    level = Level(state.terrain, state.lit, state.horizontal, state.boulders, state.position)
    assert env.start(jax.random.key(0), level).turn == 1
    for change, message in (
        ({"start": jnp.array([0, 5])}, "border"),
        ({"start": jnp.array([1, 2])}, "free ground"),
        ({"terrain": jnp.where(level.terrain == Terrain.DOWN_STAIRS, 7, level.terrain)}, "goal"),
        ({"terrain": level.terrain.at[0, 5].set(Terrain.FLOOR)}, "solid"),
        ({"terrain": level.terrain.at[7, 79].set(Terrain.FLOOR)}, "solid"),
    ):
        with pytest.raises(MasklessError, match=message):
            env.start(jax.random.key(0), dataclasses.replace(level, **change))


def test_a_mapped_maze_shows_itself():
    _, _, dark = started("mazewalk-9x9")
    _, _, mapped = started("mazewalk-9x9-mapped")
    assert (dark.terrain == mapped.terrain).all()
    ground = mapped.terrain >= Terrain.FLOOR
    assert ((mapped.remembered != Glyph.UNSEEN) == ground).all()
    assert (dark.remembered != Glyph.UNSEEN).sum() < ground.sum()
    assert (mapped.remembered == Glyph.FLOOR_MAPPED).any()
    # The agent cannot tell it from floor in sight, as in the real game.
    crops = [observe_glyphs(mapped), observe_glyphs(dark)]
    assert Glyph.FLOOR_MAPPED not in crops[0]
    assert (crops[0] == Glyph.FLOOR).sum() > (crops[1] == Glyph.FLOOR).sum()


def observe_glyphs(state):
    return np.asarray(crop(state.remembered, state.position))


@functools.cache
def ready(id: str):
    """On as many levels as the audit plays at once."""
    keys = jax.random.split(jax.random.key(17), 128)
    states = [compiled_reset(id)(key)[1] for key in keys]
    return starting_from(make_corridor(id), jax.tree.map(lambda *x: jnp.stack(x), *states))


@functools.cache
def audited(id: str):
    return audit(ready(id), states=1000)


@pytest.mark.parametrize("id", [*GAMES, "mazewalk-9x9"])
def test_the_exact_masks_are_what_the_game_does(id):
    result = audited(id)
    assert result.errors("exact") == 0, result.to_json()["rules"]["exact"]
    assert (result.rules["exact"].valid > 0).all()


def test_where_the_papers_masks_are_wrong():
    """In the paper's own game only diagonal moves through doors are, called valid but frozen."""
    tally = audited("corridor-r2").rules["paper"]
    assert tally.effective_but_masked.sum() == 0
    assert tally.dead_but_valid[:4].sum() == 0
    assert tally.dead_but_valid[4:8].sum() > 0
    assert tally.dead_but_valid[8:].sum() == 0


def test_paper_masks_at_the_prompt_lead_through_the_door():
    env, _, state = started("minihack-corridor-r2")
    y, x = (int(i) for i in state.position)
    terrain = state.terrain.at[y, x + 1].set(Terrain.CLOSED_DOOR)
    state = dataclasses.replace(state, terrain=terrain)
    assert env.validity(state)[OPEN]
    assert not env.validity(state)[1]
    valid = env.validity(dataclasses.replace(state, prompt=jnp.int8(OPEN_PROMPT)))
    assert np.flatnonzero(valid).tolist() == [1, SEARCH]
    assert not env.validity(state)[KICK]


def test_many_at_once_for_longer_than_an_episode():
    env = make_corridor("minihack-corridor-r2", episode_limit=30)
    env.reset = ready("minihack-corridor-r2").reset  # no level depends on the limit
    venv = VectorEnv(env, 16)
    state, _ = jax.jit(venv.reset)(jax.random.key(0))

    def step(state, key):
        actions = jax.random.randint(key, (16,), 0, env.num_actions)
        state, step = venv.step(key, state, actions)
        return state, (step.done, step.truncated, step.mask, step.episodes.lengths)

    keys = jax.random.split(jax.random.key(1), 100)
    _, (done, truncated, masks, lengths) = jax.jit(lambda s: jax.lax.scan(step, s, keys))(state)
    assert done.sum() >= 16 * 3
    assert (lengths[done] <= 30).all()
    assert (lengths[truncated] == 30).all()
    assert masks.any(axis=-1).all()
