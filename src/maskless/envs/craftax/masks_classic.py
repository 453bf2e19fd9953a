"""Craftax-Classic (17 actions): which actions are valid, by the paper's listing and by the game.

It differs from the full game in more than size: lava can be walked into and kills, water is
solid, tools are counts, and crafting a tool again is possible (and a waste).
"""

from typing import Any

import jax.numpy as jnp
from craftax.craftax_classic.constants import SOLID_BLOCKS, Achievement, Action, BlockType
from craftax.craftax_classic.envs.craftax_state import EnvParams, EnvState
from jaxtyping import Array, Bool

from maskless.envs.craftax.surroundings import (
    MOVES,
    OFFSETS,
    Surroundings,
    any_at,
    stack_rules,
    surroundings,
)

MAX_STACK = 9
MAX_INTRINSIC = 9


def look_around(state: EnvState) -> Surroundings:
    return surroundings(
        state.map, state.mob_map, None, state.player_position, state.player_direction
    )


def paper_rules(state: EnvState, params: EnvParams) -> Bool[Array, " 17"]:
    """The paper's listing, rule by rule; 'not owned' is read as a count of zero."""
    around = look_around(state)
    beside = jnp.where(around.inside, around.block, BlockType.OUT_OF_BOUNDS.value)[MOVES]
    safe = beside != BlockType.LAVA.value
    have = state.inventory
    crafting = craft_rules(state, around)
    owned = {
        Action.MAKE_WOOD_PICKAXE: have.wood_pickaxe,
        Action.MAKE_STONE_PICKAXE: have.stone_pickaxe,
        Action.MAKE_IRON_PICKAXE: have.iron_pickaxe,
        Action.MAKE_WOOD_SWORD: have.wood_sword,
        Action.MAKE_STONE_SWORD: have.stone_sword,
        Action.MAKE_IRON_SWORD: have.iron_sword,
    }
    rules = {action: crafting[action] & (owned[action] == 0) for action in owned} | {
        Action.NOOP: True,
        Action.LEFT: safe[0],
        Action.RIGHT: safe[1],
        Action.UP: safe[2],
        Action.DOWN: safe[3],
        Action.DO: mob_in_front(state, around)
        | gathers(state, around)
        | around.facing(BlockType.WATER, BlockType.GRASS),
        Action.SLEEP: True,
        Action.PLACE_STONE: have.stone >= 1,
        Action.PLACE_TABLE: have.wood >= 2,
        Action.PLACE_FURNACE: have.stone >= 1,
        Action.PLACE_PLANT: have.sapling >= 1,
    }
    return unless_asleep(state, rules)


def exact_rules(state: EnvState, params: EnvParams) -> Bool[Array, " 17"]:
    """Valid = can change the world, compared with NOOP, for some random outcome; but walking into
    lava, which works and kills, is invalid."""
    around = look_around(state)
    solid = jnp.isin(around.block, SOLID_BLOCKS)
    lava = around.block == BlockType.LAVA.value  # read past the map's edge too, as upstream does
    walkable = around.inside & ~around.mob & ~solid
    turns = around.direction != jnp.arange(1, 5)
    moves = (turns | walkable[MOVES]) & ~lava[MOVES]

    have = state.inventory
    free = around.front(around.inside & ~around.mob)
    open_ground = free & ~around.front(solid)
    thirsty = (
        (state.player_drink < MAX_INTRINSIC)
        | (state.player_thirst != 0)  # drinking resets the hidden counter
        | ~state.achievements[Achievement.COLLECT_DRINK.value]
    )
    rules = craft_rules(state, around) | {
        Action.NOOP: True,
        Action.LEFT: moves[0],
        Action.RIGHT: moves[1],
        Action.UP: moves[2],
        Action.DOWN: moves[3],
        Action.DO: mob_in_front(state, around)
        | gathers(state, around)
        | (around.facing(BlockType.WATER) & thirsty)
        | sapling_possible(state, around),
        Action.SLEEP: state.player_energy < MAX_INTRINSIC,
        Action.PLACE_STONE: (have.stone >= 1)
        & (open_ground | (free & around.facing(BlockType.WATER))),
        Action.PLACE_TABLE: (have.wood >= 2) & open_ground,
        Action.PLACE_FURNACE: (have.stone >= 1) & open_ground,
        Action.PLACE_PLANT: (have.sapling >= 1) & free & around.facing(BlockType.GRASS),
    }
    return unless_asleep(state, rules)


def craft_rules(state: EnvState, around: Surroundings) -> dict[Action, Any]:
    """Material and stations: the game asks for nothing else."""
    have = state.inventory
    table = around.near(BlockType.CRAFTING_TABLE)
    forge = table & around.near(BlockType.FURNACE)
    wood, stone = have.wood >= 1, have.stone >= 1
    iron_tool = forge & wood & stone & (have.iron >= 1) & (have.coal >= 1)
    return {
        Action.MAKE_WOOD_PICKAXE: table & wood,
        Action.MAKE_STONE_PICKAXE: table & wood & stone,
        Action.MAKE_IRON_PICKAXE: iron_tool,
        Action.MAKE_WOOD_SWORD: table & wood,
        Action.MAKE_STONE_SWORD: table & wood & stone,
        Action.MAKE_IRON_SWORD: iron_tool,
    }


def gathers(state: EnvState, around: Surroundings) -> Bool[Array, ""]:
    """The faced block can be taken with the tools at hand."""
    have = state.inventory
    return (
        around.facing(BlockType.TREE, BlockType.RIPE_PLANT)
        | (around.facing(BlockType.STONE, BlockType.COAL) & (have.wood_pickaxe >= 1))
        | (around.facing(BlockType.IRON) & (have.stone_pickaxe >= 1))
        | (around.facing(BlockType.DIAMOND) & (have.iron_pickaxe >= 1))
    )


def mob_in_front(state: EnvState, around: Surroundings) -> Bool[Array, ""]:
    """A zombie, cow or skeleton; arrows cannot be hit."""
    target = state.player_position + OFFSETS[around.direction]
    return (
        any_at(state.zombies, target) | any_at(state.cows, target) | any_at(state.skeletons, target)
    )


def sapling_possible(state: EnvState, around: Surroundings) -> Bool[Array, ""]:
    """With nine saplings only the achievement, if still open, can be gained."""
    gain = (state.inventory.sapling < MAX_STACK) | ~state.achievements[
        Achievement.COLLECT_SAPLING.value
    ]
    return around.facing(BlockType.GRASS) & gain


def unless_asleep(state: EnvState, rules: dict[Action, Any]) -> Bool[Array, " 17"]:
    """While asleep the game replaces every action by NOOP."""
    noop_only = jnp.arange(len(Action)) == Action.NOOP.value
    return jnp.where(state.is_sleeping, noop_only, stack_rules(rules, Action))


def waivers(state: EnvState) -> dict[str, Bool[Array, " 17"]]:
    """Where exact masks and the game may differ, by decision."""
    action = jnp.arange(len(Action))
    around = look_around(state)
    # Upstream's DO revives every despawned mob that had health left, whatever the player faces.
    # No observation shows those mobs, so a mask that knew them could not be learned.
    revivable = jnp.concatenate(
        [(mobs.health > 0) & ~mobs.mask for mobs in (state.zombies, state.cows, state.skeletons)]
    )
    into_lava = (
        jnp.zeros(len(Action), bool).at[MOVES].set(around.block[MOVES] == BlockType.LAVA.value)
    )
    return {
        "DO on grass yields a sapling in 10 % of tries": (action == Action.DO.value)
        & sapling_possible(state, around),
        "DO revives despawned mobs": (action == Action.DO.value) & jnp.any(revivable),
        "walking into lava works, and kills": into_lava,
    }
