"""What works in Craftax and is a waste: the rules that `prudent` masks add to `exact` ones.

Feasibility is a fact of the game, prudence an opinion about it. So each rule has a name, by which
it can be switched off, and a reason, and the audit counts what it forbids apart from errors.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from craftax.craftax.constants import Action as Full
from craftax.craftax.constants import BlockType as FullBlock
from craftax.craftax_classic.constants import Action as Classic
from craftax.craftax_classic.constants import BlockType as ClassicBlock
from jaxtyping import Array, Bool

from maskless.envs.craftax import masks_classic, masks_full
from maskless.envs.craftax.surroundings import Surroundings

REASONS = {
    "tool-again": "a tool that is owned is made again: a second one is never better",
    "table-by-table": "a table is placed beside a table: one serves all eight squares around it",
    "furnace-astray": "a furnace is placed away from a table, or beside a furnace: iron tools need"
    " both at once, and one of each",
    "own-station": "a table or furnace is destroyed, and nothing of it comes back",
    "enchant-again": "a gem is spent on an enchantment that is already there",
    "book-again": "a book is read when both spells are known",
}
"""The name of a rule -> why what it forbids is a waste."""
CLASSIC_RULES = ("tool-again", "table-by-table", "furnace-astray")
FULL_RULES = ("table-by-table", "furnace-astray", "own-station", "enchant-again", "book-again")
Waste = Callable[[Any], dict[str, Bool[Array, " actions"]]]


def classic_waste(state: Any) -> dict[str, Bool[Array, " 17"]]:
    """By rule: the actions that work in `state` and are a waste."""
    have, around = state.inventory, masks_classic.look_around(state)
    owned = {
        Classic.MAKE_WOOD_PICKAXE: have.wood_pickaxe >= 1,
        Classic.MAKE_STONE_PICKAXE: have.stone_pickaxe >= 1,
        Classic.MAKE_IRON_PICKAXE: have.iron_pickaxe >= 1,
        Classic.MAKE_WOOD_SWORD: have.wood_sword >= 1,
        Classic.MAKE_STONE_SWORD: have.stone_sword >= 1,
        Classic.MAKE_IRON_SWORD: have.iron_sword >= 1,
    }
    return {"tool-again": _actions(Classic, owned)} | _stations(Classic, ClassicBlock, around)


def full_waste(state: Any) -> dict[str, Bool[Array, " 43"]]:
    """The same in the full game, which makes no tool twice by itself."""
    around = masks_full.look_around(state)
    destroys = around.facing(FullBlock.CRAFTING_TABLE, FullBlock.FURNACE)
    element = jnp.where(around.facing_unchecked(FullBlock.ENCHANTMENT_TABLE_FIRE), 1, 2)
    enchanted = {
        Full.ENCHANT_SWORD: state.sword_enchantment == element,
        Full.ENCHANT_BOW: state.bow_enchantment == element,
        Full.ENCHANT_ARMOUR: jnp.all(state.armour_enchantments == element),
    }
    return _stations(Full, FullBlock, around) | {
        "own-station": _actions(Full, {Full.DO: destroys}),
        "enchant-again": _actions(Full, enchanted),
        "book-again": _actions(Full, {Full.READ_BOOK: jnp.all(state.learned_spells)}),
    }


def _stations(actions: Any, blocks: Any, around: Surroundings) -> dict[str, Bool[Array, " n"]]:
    table, furnace = around.near(blocks.CRAFTING_TABLE), around.near(blocks.FURNACE)
    return {
        "table-by-table": _actions(actions, {actions.PLACE_TABLE: table}),
        "furnace-astray": _actions(actions, {actions.PLACE_FURNACE: ~table | furnace}),
    }


def _actions(actions: Any, waste: dict[Any, Any]) -> Bool[Array, " n"]:
    """The mask of these actions where their condition holds; False elsewhere."""
    numbers = jnp.array([action.value for action in waste])
    return jnp.zeros(len(actions), bool).at[numbers].set(jnp.stack(list(waste.values())))
