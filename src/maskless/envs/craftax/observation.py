"""Craftax observations in a few hundred bytes instead of 5 kB (Classic) or 33 kB (Craftax).

Upstream one-hot encodes every tile: one number per type of block, item and creature. `compact_*`
store the type ids, `expand_*` one-hot encode them, and the result is upstream's observation bit for
bit. All functions take one state or one `Compact`; batch them with vmap.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax.constants import MONSTERS_KILLED_TO_CLEAR_LEVEL, OBS_DIM, BlockType, ItemType
from craftax.craftax.util.game_logic_utils import is_boss_vulnerable
from craftax.craftax_classic.constants import OBS_DIM as CLASSIC_OBS_DIM
from craftax.craftax_classic.constants import BlockType as ClassicBlockType
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt8, UInt16, UInt32

from maskless.nets.encoders import Encoder

DARK = 255
"""The block, and the item, of a tile that cannot be compact."""
NOWHERE = 2**16 - 1
"""The spot of a creature that cannot be compact."""
TYPES = 8
"""Types of creatures in each class of the full game. In Classic each class is one type."""
_FULL_MOBS = ("melee_mobs", "passive_mobs", "ranged_mobs", "mob_projectiles", "player_projectiles")
_CLASSIC_MOBS = ("zombies", "cows", "skeletons", "arrows")


@struct.dataclass
class Compact:
    """One observation."""

    block: UInt8[Array, "rows columns"]
    """Of the tiles around the player, `DARK` where it is too dark to see."""
    item: UInt8[Array, "rows columns"] | None
    """Torches and ladders, `DARK` likewise; None in Classic, which has no items and no darkness."""
    mobs: UInt16[Array, "classes slots"]
    """tile * types + type of each creature and projectile, or `NOWHERE`."""
    numbers: Float[Array, " numbers"]
    """What is not on the map: inventory, health and so on, as upstream scales them."""


@dataclasses.dataclass(frozen=True)
class CompactEncoder(Encoder):
    """Reads upstream's observations, and compact ones: these are expanded on the way in, so that
    whole observations exist only while they are read."""

    expand: Callable[[Compact], Array]

    def __call__(
        self, obs: PyTree[Array], *, num_actions: int, width: int, dtype: Any
    ) -> Float[Array, "time batch features"]:
        return super().__call__(
            self._expanded(obs), num_actions=num_actions, width=width, dtype=dtype
        )

    def novelty_view(
        self, obs: PyTree[Array], dtype: Any = None
    ) -> Float[Array, "time batch numbers"]:
        return super().novelty_view(self._expanded(obs), dtype)

    def for_policy(self) -> Encoder:
        return Encoder()

    def _expanded(self, obs: PyTree[Array]) -> PyTree[Array]:
        return jax.vmap(jax.vmap(self.expand))(obs) if isinstance(obs, Compact) else obs


@jax.jit
def compact_full(state: Any) -> Compact:
    """Of the full game."""
    floor = state.player_level
    window = _Window(state.player_position, OBS_DIM, state.map.shape[1:])
    lit = window.inside & (window.of(state.light_map, floor) > 0.05)
    # Only the player's floor: the others have creatures on the same squares.
    mobs = _stack([jax.tree.map(lambda x: x[floor], getattr(state, n)) for n in _FULL_MOBS])
    return Compact(
        block=jnp.where(lit, window.of(state.map, floor), DARK).astype(jnp.uint8),
        item=jnp.where(lit, window.of(state.item_map, floor), DARK).astype(jnp.uint8),
        mobs=_spots(mobs, mobs.type_id, TYPES, state.player_position, lit),
        numbers=_numbers_full(state),
    )


@jax.jit
def compact_classic(state: Any) -> Compact:
    """Of Classic, where night darkens nothing but a number."""
    window = _Window(state.player_position, CLASSIC_OBS_DIM, state.map.shape)
    block = jnp.where(window.inside, window.of(state.map), ClassicBlockType.OUT_OF_BOUNDS.value)
    mobs = _stack([getattr(state, name) for name in _CLASSIC_MOBS])
    visible = jnp.ones(CLASSIC_OBS_DIM, bool)
    return Compact(
        block=block.astype(jnp.uint8),
        item=None,
        mobs=_spots(mobs, jnp.zeros_like(mobs.health), 1, state.player_position, visible),
        numbers=_numbers_classic(state),
    )


@jax.jit
def expand_full(compact: Compact) -> Float[Array, " 8268"]:
    """Upstream's observation of the full game."""
    blocks, items, classes = len(BlockType), len(ItemType), compact.mobs.shape[0]
    lit = blocks + items + classes * TYPES
    item = blocks + jnp.asarray(compact.item).astype(jnp.uint16)
    tiles = jnp.stack([compact.block.astype(jnp.uint16), item, jnp.full_like(item, lit)])
    tiles = jnp.where(compact.block == DARK, NOWHERE, tiles)
    return _flatten(tiles, _mob_planes(compact, TYPES, blocks + items), lit + 1, compact.numbers)


@jax.jit
def expand_classic(compact: Compact) -> Float[Array, " 1345"]:
    """Upstream's observation of Classic."""
    blocks, classes = len(ClassicBlockType), compact.mobs.shape[0]
    tiles = compact.block[None].astype(jnp.uint16)
    return _flatten(tiles, _mob_planes(compact, 1, blocks), blocks + classes, compact.numbers)


def _mob_planes(compact: Compact, types: int, first: int) -> UInt16[Array, "mobs rows columns"]:
    """The plane of each creature on the tile where it is, `NOWHERE` on all others."""
    tile, kind = jnp.divmod(compact.mobs, types)
    plane = first + types * np.arange(len(compact.mobs), dtype=np.uint16)[:, None] + kind
    here = tile.reshape(-1, 1, 1) == np.arange(compact.block.size).reshape(compact.block.shape)
    return jnp.where(here, plane.reshape(-1, 1, 1), NOWHERE).astype(jnp.uint16)


def _flatten(
    tiles: UInt16[Array, "some rows columns"],
    mobs: UInt16[Array, "more rows columns"],
    planes: int,
    numbers: Float[Array, " numbers"],
) -> Float[Array, " observation"]:
    """Ones in the planes that each tile and its creatures show, zeros elsewhere, and the numbers.

    32 planes of a tile are the bits of one word, and each number is one bit shifted out of it. The
    obvious comparison of each number with its plane makes neighbouring GPU threads diverge, and
    took eight times as long as writing the numbers.
    """
    words = _words(tiles, planes) | _words(mobs, planes)
    bits = (words[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    flat = bits.reshape(*words.shape[:2], -1)[..., :planes].astype(jnp.float32)
    return jnp.concatenate([flat.reshape(-1), numbers])


def _words(
    shown: UInt16[Array, "some rows columns"], planes: int
) -> UInt32[Array, "rows columns words"]:
    """A bit for each plane of a tile: set where one of `shown` is that plane."""
    word, bit = jnp.divmod(shown.astype(jnp.uint32)[..., None], 32)
    same_word = word == np.arange(-(-planes // 32), dtype=np.uint32)
    # One reduction, so that the compiler does not recompute a word for each of its bits.
    return jnp.bitwise_or.reduce(jnp.where(same_word, jnp.uint32(1) << bit, jnp.uint32(0)), axis=0)


class _Window:
    """The tiles around the player, read without padding the whole map."""

    def __init__(
        self, position: Int[Array, " 2"], view: tuple[int, int], size: tuple[int, ...]
    ) -> None:
        rows = position[0] + np.arange(view[0]) - view[0] // 2
        columns = position[1] + np.arange(view[1]) - view[1] // 2
        self._rows = jnp.clip(rows, 0, size[0] - 1)[:, None]
        self._columns = jnp.clip(columns, 0, size[1] - 1)
        self.inside = (rows == self._rows[:, 0])[:, None] & (columns == self._columns)
        """False past the edge of the map, where `of` gives nothing meaningful."""

    def of(self, layer: Array, *floor: Array) -> Array:
        return layer[(*floor, self._rows, self._columns)]


def _stack(classes: list[Any]) -> Any:
    """All classes as one, [classes, slots, ...]. Those with fewer slots repeat their last one:
    drawn twice, it looks the same."""
    slots = max(mobs.mask.shape[0] for mobs in classes)

    def fill_up(x: Array) -> Array:
        return jnp.pad(x, [(0, slots - x.shape[0]), *[(0, 0)] * (x.ndim - 1)], mode="edge")

    return jax.tree.map(lambda *parts: jnp.stack([fill_up(x) for x in parts]), *classes)


def _spots(
    mobs: Any,
    kind: Int[Array, "classes slots"],
    kinds: int,
    player: Int[Array, " 2"],
    visible: Bool[Array, "rows columns"],
) -> UInt16[Array, "classes slots"]:
    """Where upstream's renderer leaves a one for each creature."""
    view = np.array(visible.shape)
    local = mobs.position - player + view // 2  # [classes, slots, 2]
    on_screen = jnp.all((local >= 0) & (local < view), axis=-1) & mobs.mask
    # Upstream writes into its picture for every slot in turn, a zero for those that are dead or
    # off the screen. Beyond the upper and the left edge that zero wraps around to the other side,
    # and so a slot can erase what an earlier one of its class and type has written.
    wrapped = jnp.where(local < 0, local + view, local)
    clears = jnp.all((wrapped >= 0) & (wrapped < view), axis=-1) & ~on_screen
    spot = (wrapped[..., 0] * view[1] + wrapped[..., 1]) * kinds + kind
    later = np.triu(np.ones((spot.shape[1], spot.shape[1]), bool), k=1)
    same = spot[:, :, None] == spot[:, None, :]
    erased = same & clears[:, None, :] & later
    row, column = (jnp.clip(local[..., i], 0, view[i] - 1) for i in range(2))
    shown = on_screen & visible[row, column]
    # `NOWHERE` is the largest. A maximum rather than a select, so that the compiler does not
    # recompute all of this for each of the thousands of numbers that are compared with it.
    return jnp.max(
        jnp.where(erased | ~shown[:, :, None], NOWHERE, spot[:, :, None]).astype(jnp.uint16),
        axis=-1,
    )


def _numbers_full(state: Any) -> Float[Array, " 51"]:
    have, floor = state.inventory, state.player_level
    stacks = [have.wood, have.stone, have.coal, have.iron, have.diamond]
    stacks += [have.sapphire, have.ruby, have.sapling, have.torches, have.arrows]
    tools = [have.books / 2.0, have.pickaxe / 4.0, have.sword / 4.0]
    tools += [state.sword_enchantment, state.bow_enchantment, have.bow]
    body = [state.player_health, state.player_food, state.player_drink, state.player_energy]
    body += [state.player_mana, state.player_xp]
    body += [state.player_dexterity, state.player_strength, state.player_intelligence]
    circumstances = [
        state.light_level,
        state.is_sleeping,
        state.is_resting,
        *state.learned_spells,
        floor / 10.0,
        state.monsters_killed[floor] >= MONSTERS_KILLED_TO_CLEAR_LEVEL,
        is_boss_vulnerable(state),
    ]
    return _join(
        jnp.sqrt(jnp.array(stacks)) / 10.0,
        jnp.array(tools),
        jnp.sqrt(have.potions) / 10.0,
        jnp.array(body) / 10.0,
        _direction(state),
        have.armour / 2.0,
        state.armour_enchantments,
        jnp.array(circumstances),
    )


def _numbers_classic(state: Any) -> Float[Array, " 22"]:
    have = state.inventory
    counts = [have.wood, have.stone, have.coal, have.iron, have.diamond, have.sapling]
    counts += [have.wood_pickaxe, have.stone_pickaxe, have.iron_pickaxe]
    counts += [have.wood_sword, have.stone_sword, have.iron_sword]
    counts += [state.player_health, state.player_food, state.player_drink, state.player_energy]
    return _join(
        jnp.array(counts).astype(jnp.float16) / 10.0,  # upstream rounds them so
        _direction(state),
        jnp.array([state.light_level, state.is_sleeping]),
    )


def _direction(state: Any) -> Bool[Array, " 4"]:
    return state.player_direction - 1 == jnp.arange(4)


def _join(*parts: Array) -> Float[Array, " numbers"]:
    return jnp.concatenate([part.astype(jnp.float32) for part in parts])
