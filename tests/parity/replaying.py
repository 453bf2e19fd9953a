"""Replays what the real game did through the engine, step by step.

A `Trajectory` is one recorded or live episode. Where the real game threw dice, `choose_dice` picks
dice that ask the engine for the recorded outcome; if the engine cannot produce it, the replay
differs from the recording and `differences` says where.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from minihax.env import blstats
from minihax.game.dice import Dice
from minihax.game.rules import REAL, Rules
from minihax.game.step import new_game, step_with_dice
from minihax.level.terrain import Level
from minihax.look.messages import message_id

# blstats has Str on the scale 3..25, Str, Dex, Con, Int, Wis, Cha; the engine the game's own order.
ATTRIBUTES_IN_BLSTATS = np.array([3, 6, 7, 4, 5, 8])
STR, INT, WIS, DEX, CON, CHA = range(6)
NEVER, ALWAYS = 0.9999, 0.0  # for dice of which low means yes

_SUCCESSES = (
    "The door opens.",
    "As you kick the door, it",
    "Crash!",
)
_EFFORTS = ("The door resists!", "As you kick the door, it", "WHAMMM!!!", "With great effort")
_HEARD = ("You can hear again.", "You regain consciousness.", "You haven't been", "You must have")


@dataclasses.dataclass
class Trajectory:
    """One real episode, or its beginning: T steps. `after` arrays hold what each step led to."""

    name: str
    terrain: np.ndarray
    """[21, 80] terrain codes at the start."""
    boulders: np.ndarray
    start: tuple[int, int]
    attributes: np.ndarray
    """[6] at the start, in the engine's order."""
    actions: np.ndarray
    texts: list[str]
    positions: np.ndarray
    """[T, 2] (y, x)"""
    turns: np.ndarray
    blstats: np.ndarray
    """[T, 27]; all 0 where the real environment had already quit the game."""
    prompts: np.ndarray
    rewards: np.ndarray
    done: np.ndarray
    died: np.ndarray
    changes: list[tuple[int, int, int, int]]
    """(step, y, x, terrain) of every change of the true map."""

    @property
    def length(self) -> int:
        return len(self.actions)


def choose_dice(t: Trajectory) -> dict[str, np.ndarray]:
    """The fields of `Dice`, [T, ...], that ask for the recorded outcomes."""
    n = t.length
    turn_before = np.concatenate([[1], t.turns[:-1]])
    attributes = np.concatenate([t.attributes[None], t.blstats[:, ATTRIBUTES_IN_BLSTATS]])
    hit_points = np.concatenate([[REAL.hit_points], t.blstats[:, 10]])
    jumps = t.turns - turn_before

    def says(*beginnings: str) -> np.ndarray:
        return np.array([any(b in text for b in beginnings) for text in t.texts])

    hurt = says("Ouch!")
    wounded = (hurt & (attributes[1:, DEX] < attributes[:-1, DEX])) | says("Dumb move!")
    sides = np.where(attributes[:-1, CON] > 15, 3, 5)
    healing_point = (t.turns % 15 == 0) & (t.turns != turn_before)
    damage = hit_points[:-1] - hit_points[1:] + healing_point
    damage = np.where(t.died, sides, np.clip(damage, 1, sides))
    found = np.full((n, 9), NEVER)
    for step, y, x, _ in t.changes:
        if "You find" in t.texts[step] and t.actions[step] == 10:
            hero_y, hero_x = t.positions[step]
            found[step, (y - hero_y + 1) * 3 + x - hero_x + 1] = ALWAYS
    fainted = jumps > 1
    values = {
        "success": np.where(says(*_SUCCESSES), ALWAYS, NEVER),
        "shatter": np.where(says("shatters"), ALWAYS, NEVER),
        "wound": np.where(wounded, ALWAYS, NEVER),
        "healing": _healing_times(t, wounded),
        "damage": (damage - 0.5) / sides,
        "found": found,
        "faint": np.where(fainted, 0.9999, 0.0),
        "fasting": _fasting(t, jumps),
        "hearing": _hearing(t, fainted, jumps),
    } | _growth(t, attributes, says)
    return {name: value.astype(np.float32) for name, value in values.items()}


def _healing_times(t: Trajectory, wounded: np.ndarray) -> np.ndarray:
    """The leg heals 5 to 9 turns after the kick; what is not recorded any more may be 9."""
    draws = np.full(t.length, 0.5)
    healed = [k for k, text in enumerate(t.texts) if "Your leg feels better." in text]
    for step in np.flatnonzero(wounded):
        turns = next((t.turns[k] - t.turns[step] for k in healed if k > step), 9)
        draws[step] = (np.clip(turns - 5, 0, 4) + 0.5) / 5
    return draws


def _fasting(t: Trajectory, jumps: np.ndarray) -> np.ndarray:
    """How much nutrition each faint costs, so that the next one has the recorded length."""
    draws = np.full(t.length, 0.0)
    nutrition = 900
    faints = np.flatnonzero(jumps > 1)
    for step in range(t.length):
        if jumps[step] < 1:
            continue
        nutrition -= 1
        if jumps[step] == 1:
            continue
        later = faints[faints > step]
        cost = 0
        if len(later):
            waking = int((jumps[step + 1 : later[0]] == 1).sum())
            tens = jumps[later[0]] - 10
            highest = 5 - 10 * tens  # the largest nutrition with that many tens
            cost = max(0, nutrition - waking - 1 - highest)
        draws[step] = _draw_for_count(cost, int(jumps[step]) - 1)
        nutrition -= cost
    return draws


def _draw_for_count(count: int, trials: int) -> float:
    """A uniform number for which a binomial of chance 1/10 is `count`."""
    chances = [0.9**trials]
    for k in range(trials):
        chances.append(chances[-1] * (trials - k) / (9 * (k + 1)))
    return float(np.sum(chances[:count]) + 0.5 * chances[count])


def _hearing(t: Trajectory, fainted: np.ndarray, jumps: np.ndarray) -> np.ndarray:
    """After a faint: is the return of the hearing said in the next turn?"""
    draws = np.full(t.length, NEVER)
    for step in np.flatnonzero(fainted):
        later = np.flatnonzero(jumps[step + 1 :] != 0)
        text = t.texts[step + 1 + later[0]] if len(later) else ""
        if text.startswith(_HEARD) or "You can hear again." in text:
            draws[step] = ALWAYS
    return draws


def _growth(t: Trajectory, attributes: np.ndarray, says) -> dict[str, np.ndarray]:
    """Exercise in the direction of the recorded changes of Str, Wis, Dex, Con."""
    n = t.length
    growth = np.full((n, 4), NEVER)
    direction = np.zeros((n, 4), int)
    check = np.full(n, NEVER)
    for step, text in enumerate(t.texts):
        if "You feel " not in text and not text.startswith(("You haven't been", "You must have")):
            continue
        change = np.sign(attributes[step + 1] - attributes[step])[[STR, WIS, DEX, CON]]
        growth[step, change != 0] = ALWAYS
        for column in np.flatnonzero(change):
            start = np.flatnonzero(growth[:step, column] == ALWAYS)
            direction[start[-1] + 1 if len(start) else 0 : step + 1, column] = change[column]
        if t.turns[step] >= 1400:
            check[:] = np.clip((t.turns[step] - 1400 + 0.5) / 200, 0, 0.9999)
    gains = says(*_EFFORTS)
    effort = np.zeros((n, 2))
    for place, column in ((0, 0), (1, 2)):
        wanted = np.where(gains, direction[:, column] > 0, direction[:, column] < 0)
        effort[:, place] = np.where(wanted, 0.9999, 0.0)
    fed = t.turns < 751
    living = np.where(fed, direction[:, 3] > 0, (direction[:, 3] < 0) | (direction[:, 0] < 0))
    return {
        "growth": growth,
        "pause": check,
        "effort": effort,
        "living": np.where(living, 0.9999, 0.0),
        "limping": np.where(direction[:, 2] < 0, 0.9999, 0.0),
    }


@functools.partial(jax.jit, static_argnums=0)
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0, 0, 0, 0))
def _replay(rules: Rules, terrain, boulders, start, attributes, actions, dice):
    nowhere = jnp.zeros_like(boulders)  # light and the direction of walls matter for sight only
    level = Level(terrain, nowhere, nowhere, boulders, start)
    state = new_game(rules, jax.random.key(0), level)
    state = state.replace(hero=state.hero.replace(attributes=attributes))

    def step(state, inputs):
        action, dice = inputs
        after, result = step_with_dice(rules, state, action, Dice(**dice))
        return after, {
            "terrain": after.terrain,
            "positions": after.position,
            "turns": after.turn,
            "prompts": after.prompt > 0,
            "messages": after.message,
            "rewards": result.reward,
            "done": result.done,
            "died": result.died,
            "blstats": blstats(rules, after),
        }

    return jax.lax.scan(step, state, (actions, dice))[1]


def replay(
    trajectories: list[Trajectory], batch: int = 50, rules: Rules = REAL
) -> list[dict[str, np.ndarray]]:
    """What the engine does, for each trajectory: arrays [T, ...]."""
    longest = max(t.length for t in trajectories)
    results = []
    for first in range(0, len(trajectories), batch):
        group = trajectories[first : first + batch]
        # A last group that is not full repeats its first member, to compile only once.
        out = _replay(rules, *_stack([*group, *group[:1] * (batch - len(group))], longest))
        out = jax.tree.map(np.asarray, out)
        results += [
            jax.tree.map(lambda x, i=i, n=t.length: x[i, :n], out) for i, t in enumerate(group)
        ]
    return results


def _stack(group: list[Trajectory], longest: int):
    """The arguments of `_replay` for a group of trajectories, padded to the same length."""

    def pad(*values: np.ndarray) -> np.ndarray:
        padded = np.zeros((len(values), longest, *values[0].shape[1:]), values[0].dtype)
        for row, value in zip(padded, values, strict=True):
            row[: len(value)] = value
        return padded

    return (
        np.stack([t.terrain for t in group]),
        np.stack([t.boulders for t in group]),
        np.array([t.start for t in group], np.int32),
        np.stack([t.attributes for t in group]).astype(np.int8),
        pad(*[t.actions.astype(np.int32) for t in group]),
        jax.tree.map(pad, *[choose_dice(t) for t in group]),
    )


def differences(t: Trajectory, engine: dict[str, np.ndarray]) -> list[str]:
    """Every step in which the engine differs from the recording, in words."""
    terrain = t.terrain.copy()
    changes: dict[int, list[tuple[int, int, int]]] = {}
    for step, y, x, kind in t.changes:
        changes.setdefault(step, []).append((y, x, kind))
    quit_game = ~t.blstats.any(axis=1)  # the real environment shows a blank screen then
    unknown = quit_game & (t.rewards != 1)  # of the goal we know where it is
    expected = {
        "positions": (t.positions, unknown),
        "turns": (t.turns, t.died | (quit_game & t.done)),
        "prompts": (t.prompts, t.done),
        "messages": (np.array([message_id(text) for text in t.texts]), t.died | quit_game),
        "rewards": (t.rewards.astype(np.float32), np.zeros_like(t.done)),
        "done": (t.done, np.zeros_like(t.done)),
        "died": (t.died, np.zeros_like(t.done)),
        "blstats": (t.blstats, quit_game),
    }
    wrong = []
    for step in range(t.length):
        for y, x, kind in changes.get(step, []):
            terrain[y, x] = kind
        where = f"{t.name}, step {step}, action {t.actions[step]}, {t.texts[step]!r}"
        if not np.array_equal(terrain, engine["terrain"][step]):
            wrong.append(f"{where}: the maps differ")
        for name, (real, skipped) in expected.items():
            ours = engine[name][step]
            if not skipped[step] and not np.array_equal(real[step], ours):
                wrong.append(f"{where}: {name} {real[step]} in reality, {ours} in the engine")
    return wrong
