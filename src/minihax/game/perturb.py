"""States that play hardly reaches, for the validity audit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from minihax.game.actions import WALKABLE, look_up
from minihax.game.rules import Rules
from minihax.game.step import KICK_PROMPT, State, block_around
from minihax.level.terrain import HEIGHT, WIDTH, Terrain

_OFFSETS = np.array([(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)])
_CENTRE = np.arange(9) == 4


def perturb(rules: Rules, key: PRNGKeyArray, state: State) -> State:
    """The state with doors of all kinds and boulders around the hero, a prompt, a wounded leg.

    Each of them sometimes. What the hero sees is not updated here.
    """
    doors_key, boulders_key, prompt_key, leg_key = jax.random.split(key, 4)
    terrain = _add_doors(rules, doors_key, state)
    state = dataclasses.replace(state, terrain=terrain)
    if rules.boulders:
        state = dataclasses.replace(state, boulders=_add_boulders(boulders_key, state))
    if rules.prompts:
        prompt = jax.random.randint(prompt_key, (), 0, 2 * (KICK_PROMPT + 1))
        prompt = jnp.where(prompt <= KICK_PROMPT, prompt, 0).astype(jnp.int8)
        state = dataclasses.replace(state, prompt=prompt)
    if rules.body:
        leg = jnp.maximum(jax.random.randint(leg_key, (), -5, 6), 0).astype(jnp.int8)
        state = dataclasses.replace(state, hero=dataclasses.replace(state.hero, leg=leg))
    return state


def _add_doors(rules: Rules, key: PRNGKeyArray, state: State) -> Array:
    chosen_key, kind_key = jax.random.split(key)
    last = Terrain.SECRET_LOCKED_DOOR if rules.secrets else Terrain.LOCKED_DOOR
    doors = jax.random.randint(kind_key, (9,), Terrain.DOORWAY, last + 1)
    doors = jnp.where(_CENTRE, jnp.minimum(doors, Terrain.OPEN_DOOR), doors)
    block = block_around(state.terrain, state.position)
    squares = state.position + _OFFSETS
    # Not at the border, from where one could walk off the map.
    inside = (squares > 0).all(1) & (squares[:, 0] < HEIGHT - 1) & (squares[:, 1] < WIDTH - 1)
    chosen = jax.random.bernoulli(chosen_key, 0.3, (9,)) & inside
    block = jnp.where(chosen & (block != Terrain.DOWN_STAIRS), doors, block)
    return _write(state.terrain, block, state.position)


def _add_boulders(key: PRNGKeyArray, state: State) -> Array:
    free = look_up(WALKABLE, block_around(state.terrain, state.position)) & ~_CENTRE
    block = block_around(state.boulders, state.position) > 0
    block = free & (block | jax.random.bernoulli(key, 0.2, (9,)))
    return _write(state.boulders, block, state.position)


def _write(grid: Array, block: Array, position: Array) -> Array:
    patch = block.reshape(3, 3).astype(grid.dtype)
    return jax.lax.dynamic_update_slice(grid, patch, (position[0] - 1, position[1] - 1))
