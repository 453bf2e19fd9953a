"""States that random play hardly reaches, made by editing real worlds: rich inventories, other
floors, ladders underfoot, tables and mobs at hand, projectiles in flight, asleep, at the map's
edge. They exist to test mask rules, not to train on.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from craftax.craftax.constants import LEVEL_ACHIEVEMENT_MAP, BlockType, ItemType
from craftax.craftax.util.game_logic_utils import get_max_energy, get_max_health, get_max_mana
from craftax.craftax_classic.constants import BlockType as ClassicBlockType
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from maskless.envs.base import State
from maskless.envs.craftax.surroundings import OFFSETS


class RandomSource:
    """Random numbers from a key that it splits by itself, so that edits need not handle keys."""

    def __init__(self, key: PRNGKeyArray):
        self._key = key

    def _next(self) -> PRNGKeyArray:
        self._key, key = jax.random.split(self._key)
        return key

    def integer(self, low: Any, high: Any, shape: tuple[int, ...] = ()) -> Int[Array, "..."]:
        """Uniform, both ends included."""
        return jax.random.randint(self._next(), shape, low, high + 1)

    def chance(self, p: Any, shape: tuple[int, ...] = ()) -> Bool[Array, "..."]:
        return jax.random.bernoulli(self._next(), p, shape)

    def choice(self, options: Any, shape: tuple[int, ...] = ()) -> Array:
        return jax.random.choice(self._next(), jnp.asarray(options), shape)

    def mixed(self, p: Any, this: Any, otherwise: Any, shape: tuple[int, ...] = ()) -> Array:
        return jnp.where(self.chance(p, shape), this, otherwise)

    def counts(self, names: list[str], cap: int) -> dict[str, Array]:
        """Inventory counts, mostly small, sometimes at the cap. One of three shares of them is
        zero: none (so that recipes of many materials are met too), a third, or most."""
        share_of_zeros = self.choice([0.0, 0.35, 0.8])
        counts = {name: self.mixed(0.08, cap, self.integer(1, 5)) for name in names}
        return {name: self.mixed(share_of_zeros, 0, count) for name, count in counts.items()}

    def level(self, maximum: Any) -> Int[Array, ""]:
        """Health, food and the like: often full, sometimes empty."""
        return self.mixed(0.4, maximum, self.mixed(0.15, 0, self.integer(1, maximum)))


def perturb(edit: Callable[[RandomSource, State], State], key: PRNGKeyArray, state: State) -> State:
    """An edited copy. Edits must not change a field's type: the game would round differently."""
    edited = edit(RandomSource(key), state)
    return jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), edited, state)


def _position(random: RandomSource, size: int) -> Int[Array, " 2"]:
    """Anywhere, the map's edge in one case of five."""
    inner = random.integer(0, size - 1, (2,))
    edge = inner.at[random.integer(0, 1)].set(random.choice([0, size - 1]))
    return random.mixed(0.2, edge, inner)


def _paint(
    random: RandomSource,
    blocks: Int[Array, "rows columns"],
    squares: Int[Array, "9 2"],
    palette: list[int],
    workshop: list[int],
) -> Int[Array, "rows columns"]:
    """Repaints about half of the squares around the player from `palette`, and in one case of two
    diagonal ones with `workshop`."""
    painted = random.choice(palette, (9,))
    stations = painted.at[5 : 5 + len(workshop)].set(jnp.array(workshop))
    painted = random.mixed(0.5, stations, painted)
    rows, columns = squares[:, 0], squares[:, 1]
    inside = jnp.all((squares >= 0) & (squares < jnp.array(blocks.shape)), axis=-1)
    repaint = inside & random.chance(0.5, (9,))
    return blocks.at[jnp.where(repaint, rows, blocks.shape[0]), columns].set(painted, mode="drop")


def edit_full(random: RandomSource, state: Any) -> Any:
    floor = random.integer(0, state.map.shape[0] - 1)
    ladder = random.mixed(0.5, state.down_ladders[floor], state.up_ladders[floor])
    position = random.mixed(0.25, ladder, _position(random, state.map.shape[1]))
    direction = random.integer(1, 4)
    squares = position + OFFSETS
    rare = [
        BlockType.ENCHANTMENT_TABLE_FIRE,
        BlockType.ENCHANTMENT_TABLE_ICE,
        BlockType.NECROMANCER,
        BlockType.GRASS,
        BlockType.WATER,
    ]
    palette = [b.value for b in [*list(BlockType)[2:], *rare, *rare]]
    workshop = [BlockType.CRAFTING_TABLE.value, BlockType.FURNACE.value]
    blocks = _paint(random, state.map[floor], squares, palette, workshop)
    blocks = blocks.at[position[0], position[1]].set(BlockType.PATH.value)
    front = squares[direction]
    items = state.item_map[floor]
    items = items.at[front[0], front[1]].set(
        random.mixed(0.15, random.integer(0, len(ItemType) - 1), items[front[0], front[1]]),
        mode="drop",
    )
    state = state.replace(
        map=state.map.at[floor].set(blocks),
        item_map=state.item_map.at[floor].set(items),
        player_level=floor,
        player_position=position,
        player_direction=direction,
    )
    state = _place_mobs_full(random, state, squares, front)
    state = _equip_full(random, state)
    return _condition_full(random, state)


def _place_mobs_full(random: RandomSource, state: Any, squares: Array, front: Array) -> Any:
    """Puts a creature in front (one case of three) and one on some other neighbour."""
    floor = state.player_level
    other = squares[random.integer(1, 8)]
    size = state.mob_map.shape[1]
    mob_map = state.mob_map.at[floor].set(False)
    masks = {name: getattr(state, name).mask.at[floor].set(False) for name in _MOBS_FULL}
    placed = {}
    kind = random.integer(0, len(_MOBS_FULL) - 1)
    for number, name in enumerate(_MOBS_FULL):
        mobs = getattr(state, name)
        for slot, square, chosen in ((0, front, kind == number), (1, other, kind != number)):
            inside = jnp.all((square >= 0) & (square < size))
            present = inside & chosen & random.chance(1 / 3)
            free = ~mob_map[floor, square[0], square[1]]
            present &= free
            mob_map = mob_map.at[floor, square[0], square[1]].max(present, mode="drop")
            masks[name] = masks[name].at[floor, slot].set(present)
            mobs = mobs.replace(
                position=mobs.position.at[floor, slot].set(square),
                health=mobs.health.at[floor, slot].set(random.integer(1, 9)),
            )
        placed[name] = mobs.replace(mask=masks[name])
    shots = state.player_projectiles
    flying = random.chance(random.choice([0.0, 0.5, 1.0]), shots.mask[floor].shape)
    shots = shots.replace(
        mask=shots.mask.at[floor].set(flying),
        position=shots.position.at[floor].set(
            jnp.clip(state.player_position + random.integer(-4, 4, (3, 2)), 0, size - 1)
        ),
    )
    directions = state.player_projectile_directions.at[floor].set(
        OFFSETS[random.integer(1, 4, (3,))]
    )
    return state.replace(
        mob_map=mob_map,
        player_projectiles=shots,
        player_projectile_directions=directions,
        **placed,
    )


_MOBS_FULL = ("melee_mobs", "passive_mobs", "ranged_mobs")


def _equip_full(random: RandomSource, state: Any) -> Any:
    stacks = ["wood", "stone", "coal", "iron", "diamond", "sapling"]
    stacks += ["arrows", "torches", "ruby", "sapphire"]
    return state.replace(
        inventory=state.inventory.replace(
            **random.counts(stacks, 99),
            pickaxe=random.integer(0, 4),
            sword=random.integer(0, 4),
            bow=random.integer(0, 1),
            armour=random.integer(0, 2, (4,)),
            potions=random.integer(0, 2, (6,)),
            books=random.integer(0, 2),
        ),
        learned_spells=random.chance(0.5, (2,)),
        sword_enchantment=random.integer(0, 2),
        bow_enchantment=random.integer(0, 2),
        armour_enchantments=random.integer(0, 2, (4,)),
    )


def _condition_full(random: RandomSource, state: Any) -> Any:
    state = state.replace(
        player_dexterity=random.integer(1, 5),
        player_strength=random.integer(1, 5),
        player_intelligence=random.integer(1, 5),
        player_xp=random.integer(0, 2),
    )
    energy = get_max_energy(state)  # food and drink have the same maximum
    achieved = random.chance(random.choice([0.0, 0.5, 1.0]), state.achievements.shape)
    # In real play a player on a floor has the achievement of having entered it; without it the
    # game would pay experience for entering.
    entered = LEVEL_ACHIEVEMENT_MAP[state.player_level]
    achieved = achieved.at[entered].set(achieved[entered] | (state.player_level > 0))
    return state.replace(
        player_health=jnp.maximum(random.level(get_max_health(state)), 1),
        player_food=random.level(energy),
        player_drink=random.level(energy),
        player_energy=random.level(energy),
        player_mana=random.level(get_max_mana(state)),
        player_thirst=random.mixed(0.5, 0, random.integer(0, 20)),
        player_hunger=random.integer(0, 25),
        player_fatigue=random.integer(-10, 30),
        is_sleeping=random.chance(0.05),
        is_resting=random.chance(0.05),
        monsters_killed=state.monsters_killed.at[state.player_level].set(
            random.choice([0, 7, 8, 12])
        ),
        chests_opened=random.chance(0.5, state.chests_opened.shape),
        boss_progress=random.integer(0, 7),
        boss_timesteps_to_spawn_this_round=random.integer(-2, 3),
        achievements=achieved,
        growing_plants_mask=random.mixed(0.2, True, state.growing_plants_mask),
        timestep=random.integer(0, 9000),
    )


def edit_classic(random: RandomSource, state: Any) -> Any:
    position = _position(random, state.map.shape[0])
    direction = random.integer(1, 4)
    squares = position + OFFSETS
    palette = [b.value for b in list(ClassicBlockType)[2:]]
    workshop = [ClassicBlockType.CRAFTING_TABLE.value, ClassicBlockType.FURNACE.value]
    blocks = _paint(random, state.map, squares, palette, workshop)
    blocks = blocks.at[position[0], position[1]].set(ClassicBlockType.PATH.value)
    state = state.replace(map=blocks, player_position=position, player_direction=direction)
    state = _place_mobs_classic(random, state, squares, squares[direction])
    stacks = ["wood", "stone", "coal", "iron", "diamond", "sapling"]
    tools = [f"{metal}_{tool}" for metal in ("wood", "stone", "iron") for tool in _TOOLS]
    return state.replace(
        inventory=state.inventory.replace(
            **random.counts(stacks, 9),
            **{name: random.choice([0, 1, 1, 2, 9]) for name in tools},
        ),
        player_health=jnp.maximum(random.level(9), 1),
        player_food=random.level(9),
        player_drink=random.level(9),
        player_energy=random.level(9),
        player_thirst=random.mixed(0.5, 0, random.integer(0, 20)),
        player_hunger=random.integer(0, 25),
        player_fatigue=random.integer(-10, 30),
        is_sleeping=random.chance(0.08),
        achievements=random.chance(random.choice([0.0, 0.5, 1.0]), state.achievements.shape),
        growing_plants_mask=random.mixed(0.2, True, state.growing_plants_mask),
        timestep=random.integer(0, 9000),
    )


_TOOLS = ("pickaxe", "sword")
_MOBS_CLASSIC = ("zombies", "cows", "skeletons")


def _place_mobs_classic(random: RandomSource, state: Any, squares: Array, front: Array) -> Any:
    """Puts a creature in front (one case of three); the other slots are despawned, half of them
    with health left, which DO revives."""
    mob_map = jnp.zeros_like(state.mob_map)
    inside = jnp.all((front >= 0) & (front < jnp.array(mob_map.shape)))
    kind = random.integer(0, len(_MOBS_CLASSIC) - 1)
    revivable = random.chance(0.3)
    placed = {}
    for number, name in enumerate(_MOBS_CLASSIC):
        mobs = getattr(state, name)
        present = inside & (kind == number) & random.chance(1 / 3)
        mob_map = mob_map.at[front[0], front[1]].max(present, mode="drop")
        asleep_health = random.integer(0, 3, mobs.health.shape) * revivable
        placed[name] = mobs.replace(
            position=mobs.position.at[0].set(jnp.where(present, front, mobs.position[0])),
            mask=jnp.zeros_like(mobs.mask).at[0].set(present),
            health=asleep_health.at[0].set(
                jnp.where(present, random.integer(1, 5), asleep_health[0])
            ),
        )
    return state.replace(mob_map=mob_map, **placed)
