"""The rules one by one, on states made for them. That `exact` is what the game does is shown by
the audit (test_audit.py); here the differences between the two rule sets are pinned down."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from craftax.craftax.constants import BlockType, ItemType
from craftax.craftax_classic.constants import BlockType as ClassicBlockType

import maskless
from maskless.envs.mask_audit import Audit
from maskless.envs.prudence import with_prudence

PRUDENT = Path(__file__).parents[3] / "results" / "validity" / "prudent"


class Bench:
    """A world to tinker with, and its masks by action name."""

    def __init__(self, id, worlds):
        self.prudent = maskless.make(id, rules="prudent")
        self.envs = {rules: maskless.make(id, rules=rules) for rules in ("paper", "exact")}
        state = jax.tree.map(lambda x: x[3], worlds(id))
        full = id == "craftax"
        self.grass = BlockType.GRASS.value if full else ClassicBlockType.GRASS.value
        size = state.map.shape[-1]
        self.state = state.replace(
            map=jnp.full_like(state.map, self.grass),
            player_position=jnp.array([size // 2, size // 2]),
            player_direction=jnp.int32(3),
        )
        if full:
            self.state = self.state.replace(item_map=jnp.zeros_like(state.item_map))

    def masks(self, state, action):
        """(paper, exact) for one action."""
        return tuple(
            bool(env.validity(state)[env.action_names.index(action)]) for env in self.envs.values()
        )

    def allowed(self, state, action, env=None):
        """(exact, prudent) for one action."""
        number = self.prudent.action_names.index(action)
        return self.masks(state, action)[1], bool((env or self.prudent).validity(state)[number])

    def put(self, block, row, column, state=None):
        """Sets a block, relative to the player, on every floor."""
        state = state or self.state
        y, x = state.player_position + jnp.array([row, column])
        return state.replace(map=state.map.at[..., y, x].set(block.value))

    def carry(self, state=None, **counts):
        state = state or self.state
        counts = {
            name: jnp.asarray(count, getattr(state.inventory, name).dtype)
            for name, count in counts.items()
        }
        return state.replace(inventory=state.inventory.replace(**counts))


@pytest.fixture(scope="module")
def full(worlds):
    return Bench("craftax", worlds)


@pytest.fixture(scope="module")
def classic(worlds):
    return Bench("craftax-classic", worlds)


@pytest.mark.parametrize("energy", range(10))
def test_sleep(full, classic, energy):
    def tired(bench):
        return bench.state.replace(player_energy=jnp.int32(energy))

    assert full.masks(tired(full), "sleep") == (energy <= 5, energy < 9)
    assert classic.masks(tired(classic), "sleep") == (True, energy < 9)


def test_turning_towards_a_solid_block_is_masked_by_the_paper_in_full_only(full, classic):
    wall = full.put(BlockType.STONE, 0, -1)
    assert full.masks(wall, "left") == (False, True)
    assert full.masks(wall.replace(player_direction=jnp.int32(1)), "left") == (False, False)
    wall = classic.put(ClassicBlockType.STONE, 0, -1)
    assert classic.masks(wall, "left") == (True, True)
    assert classic.masks(wall.replace(player_direction=jnp.int32(1)), "left") == (True, False)


def test_lava_is_a_wall_in_full_and_death_in_classic(full, classic):
    assert full.masks(full.put(BlockType.LAVA, 0, 1), "right") == (False, True)
    assert classic.masks(classic.put(ClassicBlockType.LAVA, 0, 1), "right") == (False, False)


def test_classic_reads_lava_across_the_edge_of_the_map(classic):
    edge = classic.state.replace(player_position=jnp.array([5, 0]))
    assert classic.masks(edge, "left") == (True, True)
    far = edge.replace(map=edge.map.at[5, -1].set(ClassicBlockType.LAVA.value))
    assert classic.masks(far, "left") == (True, False)


@pytest.mark.parametrize("floor", range(9))
def test_torches_work_on_every_floor(full, floor):
    lit = full.carry(torches=1).replace(player_level=jnp.int32(floor))
    assert full.masks(lit, "place_torch") == (floor in (2, 5, 7, 8), True)
    # but not on every ground
    wet = full.put(BlockType.WATER, -1, 0, lit)
    assert full.masks(wet, "place_torch") == (floor in (2, 5, 7, 8), False)


@pytest.mark.parametrize(
    ("block", "stone", "table", "plant"),
    [
        ("GRASS", True, True, True),
        ("SAND", True, True, False),
        ("WATER", True, True, False),
        ("LAVA", True, True, False),
        ("STONE", False, False, False),
        ("PLANT", False, False, False),
    ],
)
def test_placing_needs_room(full, block, stone, table, plant):
    rich = full.carry(full.put(BlockType[block], -1, 0), stone=1, wood=2, sapling=1)
    for action, works in (("stone", stone), ("table", table), ("furnace", table), ("plant", plant)):
        assert full.masks(rich, f"place_{action}") == (True, works)
    occupied = rich.replace(mob_map=jnp.ones_like(rich.mob_map))
    assert full.masks(occupied, "place_stone") == (True, False)


def test_in_classic_no_table_can_be_placed_on_water(classic):
    rich = classic.carry(classic.put(ClassicBlockType.WATER, -1, 0), stone=1, wood=2)
    assert classic.masks(rich, "place_table") == (True, False)
    assert classic.masks(rich, "place_stone") == (True, True)


@pytest.mark.parametrize("flying", range(4))
def test_three_projectiles_at_a_time(full, flying):
    armed = full.carry(bow=1, arrows=3)
    shots = armed.player_projectiles
    mask = shots.mask.at[0].set(jnp.arange(3) < flying)
    armed = armed.replace(
        player_projectiles=shots.replace(mask=mask), learned_spells=jnp.array([True, False])
    )
    assert full.masks(armed, "shoot_arrow") == (True, flying < 3)
    assert full.masks(armed, "cast_fireball") == (True, flying < 3)
    assert full.masks(armed, "cast_iceball") == (False, False)


@pytest.mark.parametrize(
    ("table", "gem", "in_front", "works"),
    [
        ("FIRE", "ruby", True, True),
        ("FIRE", "sapphire", True, False),
        ("ICE", "sapphire", True, True),
        ("ICE", "ruby", True, False),
        ("FIRE", "ruby", False, False),
    ],
)
def test_enchanting_needs_the_faced_table_and_its_own_gem(full, table, gem, in_front, works):
    block = BlockType[f"ENCHANTMENT_TABLE_{table}"]
    state = full.put(block, *((-1, 0) if in_front else (1, 1)))
    state = full.carry(state, sword=1, **{gem: 1})
    assert full.masks(state, "enchant_sword") == (True, works)
    assert full.masks(state, "enchant_bow") == (False, False)
    assert full.masks(state.replace(player_mana=jnp.int32(8)), "enchant_sword") == (False, False)


def test_rest_needs_a_wound_food_and_drink(full):
    assert full.masks(full.state, "rest") == (True, False)
    hurt = full.state.replace(player_health=jnp.float32(5))
    assert full.masks(hurt, "rest") == (True, True)
    assert full.masks(hurt.replace(player_food=jnp.int32(0)), "rest") == (True, False)
    assert full.masks(hurt.replace(player_drink=jnp.int32(0)), "rest") == (True, False)


@pytest.mark.parametrize(
    ("block", "pickaxe", "works"),
    [
        ("TREE", 0, True),
        ("STONE", 0, False),
        ("STONE", 1, True),
        ("IRON", 1, False),
        ("IRON", 2, True),
        ("DIAMOND", 2, False),
        ("RUBY", 3, False),
        ("RUBY", 4, True),
        ("CRAFTING_TABLE", 0, True),
        ("CHEST", 0, True),
        ("PLANT", 4, False),
        ("RIPE_PLANT", 0, True),
        ("LAVA", 4, False),
        ("WATER", 0, True),
    ],
)
def test_do_in_full(full, block, pickaxe, works):
    state = full.carry(full.put(BlockType[block], -1, 0), pickaxe=pickaxe)
    assert full.masks(state, "do") == (True, works)


def test_drinking_when_nothing_can_be_gained(full):
    state = full.put(BlockType.FOUNTAIN, -1, 0)
    done = state.replace(achievements=jnp.ones_like(state.achievements))
    assert full.masks(done, "do") == (True, False)
    assert full.masks(done.replace(player_thirst=jnp.float32(0.5)), "do") == (True, True)


def test_grass_gives_saplings_until_no_more_fit(full, classic):
    assert full.masks(full.carry(sapling=98), "do") == (True, True)
    assert full.masks(full.carry(sapling=99), "do") == (True, False)
    nine = classic.carry(sapling=9)
    assert classic.masks(nine, "do") == (True, True)  # the achievement is still open
    achieved = nine.replace(achievements=jnp.ones_like(nine.achievements))
    assert classic.masks(achieved, "do") == (True, False)


def test_crafting_again_is_possible_in_classic_and_masked_by_the_paper(full, classic):
    state = classic.carry(classic.put(ClassicBlockType.CRAFTING_TABLE, 1, 1), wood=1)
    assert classic.masks(state, "make_wood_pickaxe") == (True, True)
    owned = classic.carry(state, wood_pickaxe=2)
    assert classic.masks(owned, "make_wood_pickaxe") == (False, True)
    state = full.carry(full.put(BlockType.CRAFTING_TABLE, 1, 1), wood=1, pickaxe=1)
    assert full.masks(state, "make_wood_pickaxe") == (False, False)


@pytest.mark.parametrize(("kills", "opens"), [(7, False), (8, True)])
def test_ladders(full, kills, opens):
    def standing_on(item, floor):
        y, x = full.state.player_position
        return full.state.replace(
            player_level=jnp.int32(floor),
            item_map=full.state.item_map.at[floor, y, x].set(item.value),
            monsters_killed=full.state.monsters_killed.at[floor].set(kills),
        )

    assert full.masks(standing_on(ItemType.LADDER_DOWN, 1), "descend") == (opens, opens)
    assert full.masks(standing_on(ItemType.LADDER_UP, 1), "ascend") == (True, True)
    assert full.masks(standing_on(ItemType.LADDER_UP, 0), "ascend") == (False, False)
    assert full.masks(standing_on(ItemType.LADDER_UP, 1), "descend") == (False, False)


@pytest.mark.parametrize("rules", ["paper", "exact"])
def test_asleep_only_noop_is_valid(full, classic, rules):
    for bench, field in ((full, "is_sleeping"), (full, "is_resting"), (classic, "is_sleeping")):
        locked = bench.state.replace(**{field: jnp.bool_(True)})
        mask = bench.envs[rules].validity(locked)
        assert mask.tolist() == [True] + [False] * (len(mask) - 1)


def test_the_game_s_parameters_count(full):
    state = full.state.replace(player_xp=jnp.int32(1), player_strength=jnp.int32(5))
    env = full.envs["exact"]
    strength = env.action_names.index("level_up_strength")
    assert not env.validity(state)[strength]
    assert env.validity(state, env.default_params.replace(max_attribute=6))[strength]


def test_prudent_classic_makes_no_tool_twice_and_no_table_beside_a_table(classic):
    by_table = classic.put(ClassicBlockType.CRAFTING_TABLE, 0, 1)
    first = classic.carry(by_table, wood=5, stone=5)
    again = classic.carry(first, wood_pickaxe=1)
    assert classic.allowed(first, "make_wood_pickaxe") == (True, True)
    assert classic.allowed(again, "make_wood_pickaxe") == (True, False)
    assert classic.allowed(again, "make_wood_sword") == (True, True)
    assert classic.allowed(first, "place_table") == (True, False)
    assert classic.allowed(classic.carry(wood=5), "place_table") == (True, True)
    one_rule = maskless.make("craftax-classic", rules="prudent", prudence=["tool-again"])
    assert classic.allowed(first, "place_table", one_rule) == (True, True)
    assert classic.allowed(again, "make_wood_pickaxe", one_rule) == (True, False)
    by_number = with_prudence(classic.envs["paper"], 1)
    for state in (first, again, classic.carry(wood=5)):
        assert (by_number.validity(state) == one_rule.validity(state)).all()


@pytest.mark.parametrize("game", ["classic", "full"])
def test_a_prudent_furnace_stands_by_a_table_and_alone(game, request):
    bench = request.getfixturevalue(game)
    blocks = BlockType if game == "full" else ClassicBlockType
    away = bench.carry(stone=5)
    by_table = bench.put(blocks.CRAFTING_TABLE, 0, 1, away)
    by_both = bench.put(blocks.FURNACE, 0, -1, by_table)
    assert bench.allowed(away, "place_furnace") == (True, False)
    assert bench.allowed(by_table, "place_furnace") == (True, True)
    assert bench.allowed(by_both, "place_furnace") == (True, False)


def test_prudent_full_destroys_no_station_and_spends_no_gem_or_book_twice(full):
    facing_table = full.put(BlockType.CRAFTING_TABLE, -1, 0)
    assert full.allowed(facing_table, "do") == (True, False)
    assert full.allowed(full.put(BlockType.TREE, -1, 0), "do") == (True, True)
    altar = full.put(BlockType.ENCHANTMENT_TABLE_FIRE, -1, 0)
    rich = full.carry(altar, ruby=2, sword=1).replace(player_mana=jnp.int32(9))
    burning = rich.replace(sword_enchantment=jnp.int32(1))
    freezing = rich.replace(sword_enchantment=jnp.int32(2))
    assert full.allowed(rich, "enchant_sword") == (True, True)
    assert full.allowed(burning, "enchant_sword") == (True, False)
    assert full.allowed(freezing, "enchant_sword") == (True, True)
    reader = full.carry(books=1)
    assert full.allowed(reader, "read_book") == (True, True)
    learned = reader.replace(learned_spells=jnp.ones(2, bool))
    assert full.allowed(learned, "read_book") == (True, False)


def test_an_unknown_prudent_rule_is_refused():
    with pytest.raises(maskless.MasklessError, match="did you mean 'tool-again'"):
        maskless.make("craftax-classic", rules="prudent", prudence=["tools-again"])


@pytest.mark.parametrize("game", ["craftax", "craftax-classic"])
def test_the_committed_audit_tells_prudence_from_feasibility(game):
    """In 20,000 states the exact rules are right, and the prudent ones differ by declared rules."""
    found = Audit.from_json(json.loads((PRUDENT / game / "validity.json").read_text()))
    exact, prudent = found.rules["exact"], found.rules["prudent"]
    assert found.states >= 20_000
    assert found.errors("exact") == found.errors("prudent") == 0
    reasons = maskless.make(game).prudent_rules.values()
    assert set(prudent.waived) == {*exact.waived, *reasons}
    forbidden = sum(prudent.waived[reason] for reason in reasons)
    np.testing.assert_array_equal(exact.valid - prudent.valid, forbidden)
