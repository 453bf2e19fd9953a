"""Craftax (43 actions): which actions are valid, by the paper's listing and by the game itself.

The upstream functions behind each exact rule are named in docs/craftax-validity.md, which also
has the measured error rates of the paper's rules.
"""

from typing import Any

import jax.numpy as jnp
from craftax.craftax.constants import (
    CAN_PLACE_ITEM_MAPPING,
    MONSTERS_KILLED_TO_CLEAR_LEVEL,
    SOLID_BLOCK_MAPPING,
    Achievement,
    Action,
    BlockType,
    ItemType,
)
from craftax.craftax.craftax_state import EnvParams, EnvState
from craftax.craftax.util.game_logic_utils import (
    get_max_drink,
    get_max_energy,
    get_max_health,
    is_boss_vulnerable,
)
from jaxtyping import Array, Bool

from maskless.envs.craftax.surroundings import (
    MOVES,
    OFFSETS,
    Surroundings,
    any_at,
    is_one_of,
    stack_rules,
    surroundings,
)

DARK_FLOORS = (2, 5, 7, 8)
SLEEPY = 5  # the paper's threshold of energy; the game has none
MAX_STACK = 99


def look_around(state: EnvState) -> Surroundings:
    floor = state.player_level
    return surroundings(
        state.map[floor],
        state.mob_map[floor],
        state.item_map[floor],
        state.player_position,
        state.player_direction,
    )


def paper_rules(state: EnvState, params: EnvParams) -> Bool[Array, " 43"]:
    """The paper's listing, rule by rule. Its open points, settled as the fact sheet settles them:
    'blocked' is upstream's list of solid blocks, water and lava; tables and furnaces count on any
    of the eight neighbours, enchantment tables too; past the map's edge nothing blocks."""
    around = look_around(state)
    beside = jnp.where(around.inside, around.block, BlockType.OUT_OF_BOUNDS.value)[MOVES]
    blocked = SOLID_BLOCK_MAPPING[beside] | is_one_of(beside, BlockType.WATER, BlockType.LAVA)
    have = state.inventory
    table_near = around.near(BlockType.ENCHANTMENT_TABLE_FIRE) | around.near(
        BlockType.ENCHANTMENT_TABLE_ICE
    )
    enchant = table_near & (state.player_mana >= 9) & ((have.ruby >= 1) | (have.sapphire >= 1))

    rules = shared_rules(state, around, max_attribute=5)
    rules |= {
        Action.LEFT: ~blocked[0],
        Action.RIGHT: ~blocked[1],
        Action.UP: ~blocked[2],
        Action.DOWN: ~blocked[3],
        Action.DO: True,
        Action.REST: True,
        Action.SLEEP: state.player_energy <= SLEEPY,
        Action.PLACE_STONE: have.stone >= 1,
        Action.PLACE_TABLE: have.wood >= 2,
        Action.PLACE_FURNACE: have.stone >= 1,
        Action.PLACE_PLANT: have.sapling >= 1,
        Action.PLACE_TORCH: (have.torches >= 1)
        & jnp.isin(state.player_level, jnp.array(DARK_FLOORS)),
        Action.SHOOT_ARROW: (have.bow >= 1) & (have.arrows >= 1),
        Action.CAST_FIREBALL: state.learned_spells[0] & (state.player_mana >= 2),
        Action.CAST_ICEBALL: state.learned_spells[1] & (state.player_mana >= 2),
        Action.ENCHANT_SWORD: enchant & (have.sword >= 1),
        Action.ENCHANT_ARMOUR: enchant & (have.armour.sum() > 0),
        Action.ENCHANT_BOW: enchant & (have.bow >= 1),
    }
    return unless_locked(state, rules)


def exact_rules(state: EnvState, params: EnvParams) -> Bool[Array, " 43"]:
    """Valid = can change the world, compared with NOOP, for some random outcome."""
    around = look_around(state)
    have = state.inventory
    solid = SOLID_BLOCK_MAPPING[around.block]
    walkable = (
        around.inside
        & ~around.mob
        & ~solid
        & ~is_one_of(around.block, BlockType.WATER, BlockType.LAVA)
    ) | params.god_mode
    # A blocked move still turns the player, so only the move that is already faced can be dead.
    moves = (around.direction != jnp.arange(1, 5)) | walkable[MOVES]

    free = around.front(around.inside & ~around.mob)
    bare = around.front(around.item == ItemType.NONE.value)
    open_ground = free & bare & ~around.front(solid)
    projectile_left = ~jnp.all(state.player_projectiles.mask[state.player_level])
    cast = projectile_left & (state.player_mana >= 2)
    enchant = (state.player_mana >= 9) & (
        (around.facing_unchecked(BlockType.ENCHANTMENT_TABLE_FIRE) & (have.ruby >= 1))
        | (around.facing_unchecked(BlockType.ENCHANTMENT_TABLE_ICE) & (have.sapphire >= 1))
    )

    rules = shared_rules(state, around, params.max_attribute, params.god_mode)
    rules |= {
        Action.LEFT: moves[0],
        Action.RIGHT: moves[1],
        Action.UP: moves[2],
        Action.DOWN: moves[3],
        Action.DO: can_interact(state, around),
        # Resting ends at once for the hungry and thirsty. At full health it works only if the
        # player is hit in the very same step; that is called invalid (see `waivers`).
        Action.REST: (state.player_health < get_max_health(state))
        & (state.player_food > 0)
        & (state.player_drink > 0),
        Action.SLEEP: state.player_energy < get_max_energy(state),
        Action.PLACE_STONE: (have.stone >= 1)
        & (open_ground | (free & around.facing(BlockType.WATER))),
        Action.PLACE_TABLE: (have.wood >= 2) & open_ground,
        Action.PLACE_FURNACE: (have.stone >= 1) & open_ground,
        Action.PLACE_PLANT: (have.sapling >= 1) & free & bare & around.facing(BlockType.GRASS),
        Action.PLACE_TORCH: (have.torches >= 1)
        & free
        & bare
        & CAN_PLACE_ITEM_MAPPING[around.front(around.block)],
        Action.SHOOT_ARROW: (have.bow >= 1) & (have.arrows >= 1) & projectile_left,
        Action.CAST_FIREBALL: state.learned_spells[0] & cast,
        Action.CAST_ICEBALL: state.learned_spells[1] & cast,
        Action.ENCHANT_SWORD: enchant & (have.sword >= 1),
        Action.ENCHANT_ARMOUR: enchant & (have.armour.sum() > 0),
        Action.ENCHANT_BOW: enchant & (have.bow >= 1),
    }
    return unless_locked(state, rules)


def shared_rules(
    state: EnvState, around: Surroundings, max_attribute: Any, god_mode: Any = False
) -> dict[Action, Any]:
    """The rules on which the paper and the game agree: crafting, ladders, potions, levels."""
    have = state.inventory
    table = around.near(BlockType.CRAFTING_TABLE)
    forge = table & around.near(BlockType.FURNACE)
    wood, stone, coal, iron = have.wood >= 1, have.stone >= 1, have.coal >= 1, have.iron >= 1
    iron_tool = forge & wood & stone & iron & coal
    underfoot = around.item[0]  # type: ignore[index]
    cleared = state.monsters_killed[state.player_level] >= MONSTERS_KILLED_TO_CLEAR_LEVEL
    deepest = state.player_level >= state.map.shape[0] - 1
    level_up = state.player_xp >= 1
    return {
        Action.NOOP: True,
        Action.MAKE_WOOD_PICKAXE: table & wood & (have.pickaxe < 1),
        Action.MAKE_STONE_PICKAXE: table & wood & stone & (have.pickaxe < 2),
        Action.MAKE_IRON_PICKAXE: iron_tool & (have.pickaxe < 3),
        Action.MAKE_DIAMOND_PICKAXE: table & wood & (have.diamond >= 3) & (have.pickaxe < 4),
        Action.MAKE_WOOD_SWORD: table & wood & (have.sword < 1),
        Action.MAKE_STONE_SWORD: table & wood & stone & (have.sword < 2),
        Action.MAKE_IRON_SWORD: iron_tool & (have.sword < 3),
        Action.MAKE_DIAMOND_SWORD: table & wood & (have.diamond >= 2) & (have.sword < 4),
        Action.MAKE_IRON_ARMOUR: forge
        & (have.iron >= 3)
        & (have.coal >= 3)
        & jnp.any(have.armour < 1),
        Action.MAKE_DIAMOND_ARMOUR: table & (have.diamond >= 3) & jnp.any(have.armour < 2),
        Action.MAKE_ARROW: table & wood & stone & (have.arrows < MAX_STACK),
        Action.MAKE_TORCH: table & wood & coal & (have.torches < MAX_STACK),
        # The listing has no bound on the floor; the deepest one has no ladder, so it never matters.
        Action.DESCEND: (((underfoot == ItemType.LADDER_DOWN.value) & cleared) | god_mode)
        & ~deepest,
        Action.ASCEND: ((underfoot == ItemType.LADDER_UP.value) | god_mode)
        & (state.player_level > 0),
        Action.DRINK_POTION_RED: have.potions[0] >= 1,
        Action.DRINK_POTION_GREEN: have.potions[1] >= 1,
        Action.DRINK_POTION_BLUE: have.potions[2] >= 1,
        Action.DRINK_POTION_PINK: have.potions[3] >= 1,
        Action.DRINK_POTION_CYAN: have.potions[4] >= 1,
        Action.DRINK_POTION_YELLOW: have.potions[5] >= 1,
        Action.READ_BOOK: have.books >= 1,
        Action.LEVEL_UP_DEXTERITY: level_up & (state.player_dexterity < max_attribute),
        Action.LEVEL_UP_STRENGTH: level_up & (state.player_strength < max_attribute),
        Action.LEVEL_UP_INTELLIGENCE: level_up & (state.player_intelligence < max_attribute),
    }


def can_interact(state: EnvState, around: Surroundings) -> Bool[Array, ""]:
    """DO, by the game: hit a mob, gather or destroy the faced block, drink, open, eat."""
    pickaxe = state.inventory.pickaxe
    achieved = state.achievements
    thirsty = (
        (state.player_drink < get_max_drink(state))
        | (state.player_thirst != 0)  # drinking resets the hidden counter
        | ~achieved[Achievement.COLLECT_DRINK.value]
    )
    works = (
        around.facing(
            BlockType.TREE,
            BlockType.FIRE_TREE,
            BlockType.ICE_SHRUB,
            BlockType.CRAFTING_TABLE,  # destroyed, without refund
            BlockType.FURNACE,
            BlockType.CHEST,
            BlockType.RIPE_PLANT,
        )
        | (around.facing(BlockType.STONE, BlockType.COAL, BlockType.STALAGMITE) & (pickaxe >= 1))
        | (around.facing(BlockType.IRON) & (pickaxe >= 2))
        | (around.facing(BlockType.DIAMOND) & (pickaxe >= 3))
        | (around.facing(BlockType.SAPPHIRE, BlockType.RUBY) & (pickaxe >= 4))
        | (around.facing(BlockType.WATER, BlockType.FOUNTAIN) & thirsty)
        | sapling_possible(state, around)
        | (
            around.facing_unchecked(BlockType.NECROMANCER)
            & is_boss_vulnerable(state)
            & (state.player_level == state.map.shape[0] - 1)
        )
        # A chest seen across the map's edge is not opened, but counts as this floor's first.
        | (around.facing_unchecked(BlockType.CHEST) & ~state.chests_opened[state.player_level])
    )
    target = state.player_position + OFFSETS[around.direction]
    floor = state.player_level
    mob = (
        any_at(state.melee_mobs, target, floor)
        | any_at(state.passive_mobs, target, floor)
        | any_at(state.ranged_mobs, target, floor)
    )
    return mob | works


def sapling_possible(state: EnvState, around: Surroundings) -> Bool[Array, ""]:
    return around.facing(BlockType.GRASS) & (state.inventory.sapling < MAX_STACK)


def unless_locked(state: EnvState, rules: dict[Action, Any]) -> Bool[Array, " 43"]:
    """While asleep or resting the game replaces every action by NOOP."""
    locked = state.is_sleeping | state.is_resting
    noop_only = jnp.arange(len(Action)) == Action.NOOP.value
    return jnp.where(locked, noop_only, stack_rules(rules, Action))


def waivers(state: EnvState) -> dict[str, Bool[Array, " 43"]]:
    """Where exact masks and the game may differ, by decision."""
    action = jnp.arange(len(Action))
    return {
        "DO on grass yields a sapling in 10 % of tries": (action == Action.DO.value)
        & sapling_possible(state, look_around(state)),
        "REST at full health works only when hit in the same step": (action == Action.REST.value)
        & (state.player_health >= get_max_health(state)),
    }
