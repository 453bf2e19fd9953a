"""The hero's body: attributes, hit points, a leg that can be hurt, hunger, and the work of time.

Everything here follows the real game. Where it rolls dice, a uniform number from `Dice` decides.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int8, Int16, Int32, PRNGKeyArray

from minihax import struct
from minihax.game.dice import Dice, uniform_to_int
from minihax.game.rules import Rules
from minihax.look.message_line import FEELING_LENGTHS, REASON_LENGTHS, MessageLine, append
from minihax.look.messages import Message

STRENGTH, INTELLIGENCE, WISDOM, DEXTERITY, CONSTITUTION, CHARISMA = range(6)
TRAINABLE = (STRENGTH, WISDOM, DEXTERITY, CONSTITUTION)
"""The attributes that exercise can change, in the order of `Hero.exercise`."""

# A rogue: the least of each attribute, and how often out of 100 each gets one of the 31 points.
# (The game compares with "> 0" where ">= 0" was meant, which moves one percent to strength.)
_BASE = np.array([7, 7, 7, 10, 7, 6])
_SHARES = np.array([21, 10, 10, 30, 20, 9])
_POINTS = 75 - int(_BASE.sum())
_MOST = np.array([118, 18, 18, 18, 18, 18])
_LEAST = 3

FULL, HUNGRY_AT, WEAK_AT = 900, 150, 50
_EXERCISE_LIMIT = 50
_FIRST_CHECK = 600
_WAIL_PAUSE = 50


@struct.dataclass
class Hero:
    """The body of one hero."""

    attributes: Int8[Array, "6"]
    """Str, Int, Wis, Dex, Con, Cha as they are in health (Str 19..118 stands for 18/01..18/100)."""
    exercise: Int8[Array, "4"]
    """How much the `TRAINABLE` attributes were used (above 0) or abused (below)."""
    hit_points: Int8[Array, ""]
    leg: Int8[Array, ""]
    """Turns until the wounded leg is well again; 0 = both legs are fine."""
    nutrition: Int16[Array, ""]
    """900 at the start, one less each turn; hungry from 150, weak from 50, fainting from 0."""
    deaf: Bool[Array, ""]
    """Fainting made the hero deaf; with the next turn the hearing returns, and it is said."""
    next_check: Int16[Array, ""]
    """The turn from which on exercise is turned into attributes."""
    last_wail: Int16[Array, ""]
    """The turn in which the Banshee was last heard."""


def new_hero(key: PRNGKeyArray, rules: Rules) -> Hero:
    """A hero as the game rolls one: only the attributes differ between episodes."""
    return Hero(
        attributes=_random_attributes(key) if rules.body else jnp.asarray(_BASE, jnp.int8),
        exercise=jnp.zeros(4, jnp.int8),
        hit_points=jnp.int8(rules.hit_points),
        leg=jnp.int8(0),
        nutrition=jnp.int16(FULL),
        deaf=jnp.bool_(False),
        next_check=jnp.int16(_FIRST_CHECK),
        last_wail=jnp.int16(0),
    )


def _random_attributes(key: PRNGKeyArray) -> Int8[Array, "6"]:
    points_key, luck_key = jax.random.split(key)
    draws = jax.random.uniform(points_key, (_POINTS,))

    def give_point(
        attributes: Int32[Array, "6"], draw: Float[Array, ""]
    ) -> tuple[Int32[Array, "6"], None]:
        shares = jnp.where(attributes < _MOST, _SHARES, 0)
        limits = jnp.cumsum(shares)
        chosen = jnp.sum(draw * limits[-1] >= limits)
        return attributes + (jnp.arange(6) == chosen), None

    attributes, _ = jax.lax.scan(give_point, jnp.asarray(_BASE), draws)
    lucky, shift = jax.random.uniform(luck_key, (2, 6))
    attributes += jnp.where(uniform_to_int(lucky, 20) == 0, uniform_to_int(shift, 7) - 2, 0)
    return jnp.clip(attributes, _LEAST, _MOST).astype(jnp.int8)


def attributes_now(hero: Hero) -> Int32[Array, "6"]:
    """The attributes as they count now: hunger costs one Str, a wounded leg one Dex."""
    loss = jnp.zeros(6, jnp.int32)
    loss = loss.at[STRENGTH].set(hero.nutrition <= WEAK_AT).at[DEXTERITY].set(hero.leg > 0)
    return hero.attributes.astype(jnp.int32) - loss


def effective_strength(strength: Int32[Array, ""]) -> Int32[Array, ""]:
    """Str on the scale 3..25 on which 18/01..18/100 are 19 to 21."""
    return jnp.where(strength <= 18, strength, 19 + strength // 50)


def prowess(now: Int32[Array, "6"]) -> Int32[Array, ""]:
    """The mean of Str, Dex and Con that decides about doors and kicks (A in the fact sheet)."""
    total = effective_strength(now[STRENGTH]) + now[DEXTERITY] + now[CONSTITUTION]
    return total // 3


def hunger_state(hero: Hero) -> Int32[Array, ""]:
    """As blstats shows it: 1 not hungry, 2 hungry, 3 weak, 4 fainting."""
    limits = jnp.array([HUNGRY_AT, WEAK_AT, 0])
    return 1 + jnp.sum(hero.nutrition <= limits)


def updated_exercise(
    hero: Hero, gains: Int32[Array, "4"], losses: Int32[Array, "4"] | int = 0
) -> Int8[Array, "4"]:
    """`hero.exercise` after gains and losses; at 50 either way it no longer changes."""
    before = hero.exercise.astype(jnp.int32)
    after = jnp.clip(before + gains - losses, -_EXERCISE_LIMIT, _EXERCISE_LIMIT)
    return jnp.where(jnp.abs(before) < _EXERCISE_LIMIT, after, before).astype(jnp.int8)


def exercise_point(now: Int32[Array, "6"], index: int, draw: Float[Array, ""]) -> Int32[Array, ""]:
    """1 if using the attribute counts as exercise, else 0: the higher it is, the less likely."""
    return (uniform_to_int(draw, 19) > now[index]).astype(jnp.int32)


def take_damage(
    hero: Hero, turn: Int16[Array, ""], damage: Int32[Array, ""]
) -> tuple[Hero, Bool[Array, ""]]:
    """Takes hit points; True when that leaves one and the Banshee is heard."""
    hit_points = hero.hit_points - damage.astype(jnp.int8)
    wails = (damage > 0) & (hit_points == 1) & (turn > hero.last_wail + _WAIL_PAUSE)
    hero = dataclasses.replace(
        hero, hit_points=hit_points, last_wail=jnp.where(wails, turn, hero.last_wail)
    )
    return hero, wails


def pass_time(
    rules: Rules, hero: Hero, turn: Int16[Array, ""], dice: Dice, line: MessageLine
) -> tuple[Hero, Int16[Array, ""], MessageLine]:
    """What happens between this action and the next: one turn, or many when the hero faints."""
    hungry, turns, fainted = _digest_food(hero, dice)
    end = turn + turns.astype(jnp.int16)
    left = jnp.maximum(hero.leg - turns, 0)
    healed = (hero.leg > 0) & (left == 0)
    healed_at_once = healed & (hero.leg == 1)

    line = append(line, hero.deaf, Message.OTHER, len("You can hear again."))
    line = append(line, healed_at_once, Message.LEG_HEALED)
    line = append(line, hungry == HUNGRY_AT, Message.HUNGRY)
    line = append(line, hungry == WEAK_AT, Message.WEAK)
    line = append(line, fainted, Message.FAINTED)
    line = append(line, healed & ~healed_at_once, Message.LEG_HEALED)
    line = append(line, fainted, Message.OTHER, len("You regain consciousness."))

    rested = hero.hit_points + (end // 15 - turn // 15).astype(jnp.int8)
    after = dataclasses.replace(
        hero,
        hit_points=jnp.minimum(rested, rules.hit_points).astype(jnp.int8),
        leg=left.astype(jnp.int8),
        nutrition=hungry.astype(jnp.int16),
        deaf=fainted & (dice.hearing < 0.5),
    )
    after = dataclasses.replace(after, exercise=_passive_exercise(hero, after, turn, end, dice))
    after, line = _change_attributes(after, (end >= hero.next_check) & ~fainted, dice, line)
    return after, end, line


def _digest_food(
    hero: Hero, dice: Dice
) -> tuple[Int32[Array, ""], Int32[Array, ""], Bool[Array, ""]]:
    """Nutrition afterwards, the number of turns that pass, and whether the hero fainted.

    The first time at 0 is certain, later ones become likelier and longer the hungrier one is;
    while fainted, only one turn in ten costs nutrition.
    """
    nutrition = hero.nutrition.astype(jnp.int32) - 1
    tens = (5 - nutrition) // 10
    at_risk = (hero.nutrition > 0) | (uniform_to_int(dice.faint, 20 + tens) >= 19)
    fainted = (nutrition <= 0) & at_risk
    turns = jnp.where(fainted, 10 + tens, 1)
    return nutrition - _binomial_tenth(dice.fasting, turns - 1), turns, fainted


def _binomial_tenth(
    draw: Float[Array, ""], trials: Int32[Array, ""], most: int = 10
) -> Int32[Array, ""]:
    """Successes in `trials` (up to about 30) of chance 1/10, by inverting the distribution."""
    probability = jnp.float32(0.9) ** trials
    reached = probability
    count = jnp.int32(0)
    for successes in range(most):
        count += draw >= reached
        probability = probability * (trials - successes) / (9 * (successes + 1))
        reached += probability
    return jnp.minimum(count, trials)


def _binomial_half(draw: Float[Array, ""], count: Int32[Array, ""]) -> Int32[Array, ""]:
    """Heads among `count` <= 8 coins, all from one uniform number."""
    return jax.lax.population_count(uniform_to_int(draw, 256) & ((1 << count) - 1))


def _passive_exercise(
    hero: Hero, after: Hero, turn: Int16[Array, ""], end: Int16[Array, ""], dice: Dice
) -> Int8[Array, "4"]:
    """`exercise` as time passes: food builds it up, hunger and a wounded leg wear it down."""
    now = attributes_now(after)
    tens = (end // 10 - turn // 10).astype(jnp.int32)
    well_fed, weak, starved = (
        after.nutrition > HUNGRY_AT,
        (after.nutrition <= WEAK_AT) & (after.nutrition > 0),
        after.nutrition <= 0,
    )
    lame_until = jnp.minimum(end, turn + hero.leg - 1)
    fives = (jnp.maximum(lame_until, turn) // 5 - turn // 5).astype(jnp.int32)
    gain = jnp.where(well_fed & (tens > 0), exercise_point(now, CONSTITUTION, dice.living), 0)
    loss = _binomial_half(dice.living, tens)
    zero = jnp.int32(0)
    gains = jnp.stack([zero, zero, zero, gain])
    losses = jnp.stack(
        [
            jnp.where(weak, loss, 0),
            zero,
            _binomial_half(dice.limping, fives),
            jnp.where(starved, loss, 0),
        ]
    )
    return updated_exercise(after, gains, losses)


def _change_attributes(
    hero: Hero, due: Bool[Array, ""], dice: Dice, line: MessageLine
) -> tuple[Hero, MessageLine]:
    """From turn 600 on, once in 800 to 999 turns: exercise may change attributes by one."""
    used = hero.exercise.astype(jnp.int32)
    values = hero.attributes[np.array(TRAINABLE)].astype(jnp.int32)
    possible = jnp.where(used > 0, values < 18, values > _LEAST) & (used != 0)
    strain = jnp.abs(used)
    chance = jnp.where(np.array(TRAINABLE) == WISDOM, strain, strain * 2 // 3)
    changes = due & possible & (uniform_to_int(dice.growth, _EXERCISE_LIMIT) <= chance)
    sign = jnp.sign(used)
    rises = (sign > 0).astype(jnp.int32)
    for index in range(len(TRAINABLE)):
        feeling = jnp.asarray(FEELING_LENGTHS)[index, rises[index]]
        reason = jnp.asarray(REASON_LENGTHS)[index, rises[index]]
        line = append(line, changes[index], Message.ATTRIBUTE_CHANGED, feeling)
        line = append(line, changes[index], Message.OTHER, reason)
    shift = jnp.zeros(6, jnp.int32).at[np.array(TRAINABLE)].set(jnp.where(changes, sign, 0))
    faded = jnp.where(changes, 0, strain // 2 * sign)
    grown = dataclasses.replace(
        hero,
        attributes=(hero.attributes + shift).astype(jnp.int8),
        exercise=jnp.where(due, faded, used).astype(jnp.int8),
        next_check=hero.next_check
        + jnp.where(due, 800 + uniform_to_int(dice.pause, 200), 0).astype(jnp.int16),
    )
    return grown, line
