"""Both games, every action stepped: `exact` masks are what the game does, `paper` masks err where
the fact sheet says. (`maskless validity ENV` is the same at full size; results/validity has it.)"""

import numpy as np
import pytest

from maskless.envs import make
from maskless.envs.craftax.prudence import REASONS
from maskless.envs.mask_audit import audit

pytestmark = pytest.mark.slow

STATES = 1024
MOVES = {"left", "right", "up", "down"}
PLACES = {"place_stone", "place_table", "place_furnace", "place_plant"}
CRAFTS = {
    f"make_{metal}_{tool}" for metal in ("wood", "stone", "iron") for tool in ("pickaxe", "sword")
}
PAPER_MASKS_WHAT_WORKS = {
    "craftax": MOVES | {"sleep", "place_torch"},
    "craftax-classic": MOVES | {"do"} | CRAFTS,
}
PAPER_ALLOWS_WHAT_DOES_NOTHING = {
    "craftax": MOVES
    | PLACES
    | {"do", "rest", "place_torch", "shoot_arrow", "cast_fireball", "cast_iceball"}
    | {"enchant_sword", "enchant_armour", "enchant_bow"},
    "craftax-classic": MOVES | PLACES | {"do", "sleep"},
}


@pytest.fixture(scope="module", params=["craftax-classic", "craftax"])
def result(request, make_on_worlds):
    # A seed in whose states each of the rare cases below occurs.
    return audit(make_on_worlds(request.param), states=STATES, seed=2)


def names_where(result, condition):
    return {
        name for name, holds in zip(result.action_names, condition.tolist(), strict=True) if holds
    }


def test_exact_rules_are_what_the_game_does(result):
    exact = result.rules["exact"]
    assert names_where(result, exact.effective_but_masked > 0) == set()
    assert names_where(result, exact.dead_but_valid > 0) == set()


def test_prudent_rules_differ_from_exact_ones_by_declared_waste_alone(result):
    """Each rule forbids something here, and all of it is something that works."""
    exact, prudent = result.rules["exact"], result.rules["prudent"]
    assert result.errors("prudent") == 0
    declared = {REASONS[name] for name in make(result.env).prudent_rules}
    assert set(prudent.waived) == set(exact.waived) | declared
    waste = {reason: prudent.waived[reason] for reason in declared}
    assert all(counts.sum() > 0 for counts in waste.values()), waste
    np.testing.assert_array_equal(exact.valid - prudent.valid, sum(waste.values()))


def test_every_action_was_seen_both_valid_and_invalid(result):
    """Otherwise the test above would prove little."""
    valid = result.rules["exact"].valid
    assert names_where(result, valid == 0) == set()
    assert names_where(result, valid == result.states) == {"noop"}


def test_decided_differences_are_the_declared_ones_and_occur(result):
    waived = {why: int(counts.sum()) for why, counts in result.rules["exact"].waived.items()}
    expected = {
        "craftax": {"grass", "REST"},
        "craftax-classic": {"grass", "revives", "lava"},
    }[result.env]
    assert len(waived) == len(expected)
    for word in expected:
        (count,) = [count for why, count in waived.items() if word in why]
        assert count > 0
    # All of them together concern DO, REST and (in Classic) the moves, nothing else.
    touched = sum(np.asarray(counts) for counts in result.rules["exact"].waived.values()) > 0
    assert names_where(result, touched) <= {"do", "rest"} | MOVES


def test_paper_rules_err_where_the_fact_sheet_says_and_nowhere_else(result):
    paper = result.rules["paper"]
    masked = names_where(result, paper.effective_but_masked > 0)
    dead = names_where(result, paper.dead_but_valid > 0)
    assert masked == PAPER_MASKS_WHAT_WORKS[result.env]
    assert dead == PAPER_ALLOWS_WHAT_DOES_NOTHING[result.env]
