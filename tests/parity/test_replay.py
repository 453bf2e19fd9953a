"""Every recorded step of the real game replayed through the engine, and its dice: no exceptions."""

import functools
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from minihax.game.actions import DELTAS, HIDDEN, KICK, OPEN, SEARCH
from minihax.game.hero import new_hero
from minihax.game.rules import REAL
from minihax.game.step import new_game, step
from minihax.level.terrain import RECORDED_CHARACTERS, Level, Terrain
from minihax.look.messages import Message

from parity.recordings import load, read_map
from parity.replaying import ATTRIBUTES_IN_BLSTATS, Trajectory, differences, replay


def recorded_trajectories() -> list[Trajectory]:
    g = load("golden_trajectories")
    return [_trajectory(g, f) for f in range(len(g["frag_env"]))]


def _trajectory(g: dict[str, np.ndarray], f: int) -> Trajectory:
    start, length = int(g["frag_start"][f]), int(g["frag_nsteps"][f])
    steps = slice(start, start + length)
    boulders = np.zeros((21, 80), bool)
    for _, x, y in g["boulders"][g["boulders"][:, 0] == f]:
        boulders[y, x] = True
    mine = g["tdiff_frag"] == f
    changes = [
        (int(step), int(y), int(x), int(RECORDED_CHARACTERS[chr(ch)]))
        for step, y, x, ch in zip(
            *(g[f"tdiff_{name}"][mine] for name in ("step", "y", "x", "ch")), strict=True
        )
    ]
    return Trajectory(
        name=f"fragment {f}",
        terrain=read_map(g["frag_truemap"][f]),
        boulders=boulders,
        start=(int(g["frag_y0"][f]), int(g["frag_x0"][f])),
        attributes=g["frag_blstats0"][f][ATTRIBUTES_IN_BLSTATS],
        actions=g["action"][steps].astype(int),
        texts=[str(g["messages"][i]) for i in g["msg_id"][steps]],
        positions=np.stack([g["y1"][steps], g["x1"][steps]], axis=1).astype(int),
        turns=g["t1"][steps].astype(int),
        blstats=g["blstats"][steps],
        prompts=g["prompt_after"][steps],
        rewards=g["reward"][steps],
        done=g["done"][steps],
        died=g["end_status"][steps] == 1,
        changes=changes,
    )


def test_every_recorded_step():
    trajectories = recorded_trajectories()
    wrong = []
    for trajectory, engine in zip(trajectories, replay(trajectories), strict=True):
        wrong += differences(trajectory, engine)
    steps = sum(t.length for t in trajectories)
    assert not wrong, f"{len(wrong)} differences in {steps} steps, such as\n" + "\n".join(
        wrong[:20]
    )


# --- probabilities -----------------------------------------------------------------------------

TRIALS = 10_000
CONFIDENCE = 0.99


def _kicks(t: Trajectory) -> np.ndarray:
    """Steps in which a kick is aimed somewhere."""
    answers = np.flatnonzero((t.actions[1:] < 8) & t.prompts[:-1]) + 1
    return answers[t.actions[answers - 1] == KICK]


def recorded_rolls(trajectories: list[Trajectory]) -> dict[str, list[tuple[float, bool]]]:
    """For each kind of dice: (the chance in the fact sheet, did it happen) of each throw."""
    rolls: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for t in trajectories:
        shown = np.concatenate([t.attributes[None], t.blstats[:, ATTRIBUTES_IN_BLSTATS]])
        strength = np.where(shown[:, 0] > 18, 19 + shown[:, 0] // 50, shown[:, 0])
        prowess = (strength + shown[:, 3] + shown[:, 4]) // 3
        for k, text in enumerate(t.texts):
            if text.startswith(("The door opens.", "The door resists!")):
                rolls["a door opens"].append((prowess[k] / 20, "opens" in text))
        kicks = set(_kicks(t))
        terrain = t.terrain.copy()
        changes = {when for when, *_ in t.changes}
        for k in range(t.length):
            before = t.positions[k - 1] if k else np.array(t.start)
            if k in kicks and not t.died[k]:
                target = terrain[tuple(before + DELTAS[t.actions[k]])]
                for name, kinds, sides in (
                    ("a kick breaks a door", (Terrain.CLOSED_DOOR, Terrain.LOCKED_DOOR), 35),
                    (
                        "a kick uncovers a door",
                        (Terrain.SECRET_DOOR, Terrain.SECRET_LOCKED_DOOR),
                        30,
                    ),
                    ("a kick uncovers a passage", (Terrain.SECRET_CORRIDOR,), 30),
                ):
                    if target in kinds:
                        rolls[name].append((prowess[k] / sides, k in changes))
                if "Ouch!" in t.texts[k]:
                    rolls["a hard kick wounds"].append((1 / 3, shown[k + 1, 3] < shown[k, 3]))
                if shown[k, 3] < 16 and ("Dumb" in t.texts[k] or "empty" in t.texts[k]):
                    rolls["a kick into the air wounds"].append((1 / 3, "Dumb" in t.texts[k]))
            if t.actions[k] == SEARCH and t.turns[k] > (t.turns[k - 1] if k else 1):
                around = terrain[before[0] - 1 : before[0] + 2, before[1] - 1 : before[1] + 2]
                hidden = int(HIDDEN[around].sum())
                found = sum(when == k for when, *_ in t.changes)
                rolls["a search finds"] += [(1 / 7, i < found) for i in range(hidden)]
            for when, y, x, kind in t.changes:
                if when == k:
                    terrain[y, x] = kind
    return rolls


def surprise(rolls: list[tuple[float, bool]]) -> float:
    """How many standard deviations the number of successes is from what the chances say."""
    chances, happened = np.array([r[0] for r in rolls]), np.array([r[1] for r in rolls])
    return float((happened.sum() - chances.sum()) / np.sqrt((chances * (1 - chances)).sum()))


def p_value(rolls: list[tuple[float, bool]]) -> float:
    """How likely a number of successes this far off is, exactly: throws may be few."""
    counts = np.ones(1)
    for chance, _ in rolls:
        counts = np.convolve(counts, [1 - chance, chance])
    successes = sum(happened for _, happened in rolls)
    return float(2 * min(counts[: successes + 1].sum(), counts[successes:].sum()))


def limit(number_of_tests: int = 1) -> float:
    """Standard deviations of the 99 % interval, or of that many intervals at once."""
    return float(scipy.stats.norm.ppf(1 - (1 - CONFIDENCE) / 2 / number_of_tests))


def test_recorded_frequencies():
    rolls = recorded_rolls(recorded_trajectories())
    if len(load("golden_trajectories")["frag_env"]) >= 30:
        assert rolls.keys() >= {"a door opens", "a kick breaks a door", "a search finds"}
    p_values = {name: p_value(throws) for name, throws in rolls.items()}
    # Recordings that nobody has seen yet may be given, so all intervals have to hold at once.
    bound = (1 - CONFIDENCE) / max(1, len(p_values))
    assert all(p > bound for p in p_values.values()), p_values


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, None, None, None))
def _trial(key, level: Level, actions, attributes):
    state = new_game(REAL, jax.random.fold_in(key, 0), level)
    hero = state.hero
    attributes = jnp.where(attributes > 0, attributes, hero.attributes).astype(jnp.int8)
    first = state.replace(hero=hero.replace(attributes=attributes))
    second, _ = step(REAL, jax.random.fold_in(key, 1), first, actions[0])
    return second, step(REAL, jax.random.fold_in(key, 2), second, actions[1])[0]


def _simulate(target: Terrain, actions: tuple[int, ...], attributes=(0,) * 6):
    """TRIALS games in which the hero, left of one square of the given kind, does up to two things.

    The states before and after the last of them. Attributes of 0 are rolled.
    """
    terrain = np.zeros((21, 80), np.int8)
    terrain[10, 40], terrain[10, 41] = Terrain.FLOOR, target
    nowhere = jnp.zeros((21, 80), bool)
    level = Level(jnp.asarray(terrain), nowhere, nowhere, nowhere, jnp.array([10, 40]))
    keys = jax.random.split(jax.random.key(1), TRIALS)
    idle = 11  # a number that no action has: nothing happens
    actions = jnp.array((idle,) * (2 - len(actions)) + actions)
    return _trial(keys, level, actions, jnp.array(attributes))


EAST = 1
# Str, Int, Wis, Dex, Con, Cha
AVERAGE = (15, 10, 10, 15, 15, 8)  # A = 15
TOUGH = (15, 10, 10, 12, 18, 8)
STRONG = (30, 10, 10, 13, 13, 8)  # 18/12


@pytest.mark.parametrize(
    ("target", "actions", "attributes", "message", "chance"),
    [
        (Terrain.CLOSED_DOOR, (EAST,), AVERAGE, Message.DOOR_OPENS, 15 / 20),
        (Terrain.CLOSED_DOOR, (OPEN, EAST), AVERAGE, Message.DOOR_OPENS, 15 / 20),
        (Terrain.CLOSED_DOOR, (KICK, EAST), AVERAGE, Message.KICK_DOOR_CRASHES_OPEN, 15 / 35),
        (Terrain.LOCKED_DOOR, (KICK, EAST), AVERAGE, Message.KICK_DOOR_CRASHES_OPEN, 15 / 35),
        (Terrain.LOCKED_DOOR, (KICK, EAST), STRONG, Message.KICK_DOOR_SHATTERS, 15 / 35 / 5),
        (Terrain.SECRET_DOOR, (KICK, EAST), AVERAGE, Message.KICK_SECRET_DOOR_OPENED, 15 / 30),
        (
            Terrain.SECRET_LOCKED_DOOR,
            (KICK, EAST),
            AVERAGE,
            Message.KICK_SECRET_DOOR_UNCOVERED,
            15 / 30,
        ),
        (Terrain.SECRET_CORRIDOR, (KICK, EAST), AVERAGE, Message.KICK_SECRET_PASSAGE, 15 / 30),
        (Terrain.SECRET_DOOR, (SEARCH,), AVERAGE, Message.FOUND_DOOR, 1 / 7),
        (Terrain.SECRET_CORRIDOR, (SEARCH,), AVERAGE, Message.FOUND_PASSAGE, 1 / 7),
        (Terrain.FLOOR, (KICK, EAST), AVERAGE, Message.KICK_STRAIN, 1 / 3),
    ],
)
def test_simulated_chances(target, actions, attributes, message, chance):
    _, after = _simulate(target, actions, attributes)
    successes = int((after.message == message).sum())
    assert surprise([(chance, i < successes) for i in range(TRIALS)]) == pytest.approx(
        0, abs=limit()
    )


@pytest.mark.parametrize(("attributes", "sides"), [(AVERAGE, 5), (TOUGH, 3)])
def test_simulated_damage(attributes, sides):
    before, after = _simulate(Terrain.STONE, (KICK, EAST), attributes)
    damage = np.asarray(before.hero.hit_points - after.hero.hit_points)
    counts = np.bincount(damage, minlength=sides + 1)
    assert counts[0] == 0
    assert len(counts) == sides + 1
    assert scipy.stats.chisquare(counts[1:]).pvalue > 1 - CONFIDENCE
    wounded = np.asarray(after.hero.leg) > 0
    rolls = [(1 / 3, i < wounded.sum()) for i in range(TRIALS)]
    assert abs(surprise(rolls)) < limit()
    turns_to_heal = np.bincount(np.asarray(after.hero.leg)[wounded], minlength=10)
    assert turns_to_heal[:5].sum() == 0
    assert scipy.stats.chisquare(turns_to_heal[5:]).pvalue > 1 - CONFIDENCE


@pytest.mark.parametrize(
    ("target", "actions", "measured"),
    [
        (Terrain.LOCKED_DOOR, (KICK, EAST), (623, 1500)),
        (Terrain.SECRET_DOOR, (KICK, EAST), (745, 1500)),
        (Terrain.SECRET_CORRIDOR, (KICK, EAST), (510, 1000)),
        (Terrain.CLOSED_DOOR, (EAST,), (1124, 1500)),
        (Terrain.SECRET_DOOR, (SEARCH,), (365, 2500)),
        (Terrain.SECRET_CORRIDOR, (SEARCH,), (362, 2500)),
    ],
)
def test_against_the_measured_frequencies(target, actions, measured):
    """With heroes as they are rolled: the counts of the fact sheet, from another set of games."""
    before, after = _simulate(target, actions)
    changed = np.asarray((before.terrain != after.terrain).any(axis=(1, 2)))
    table = [[changed.sum(), TRIALS - changed.sum()], [measured[0], measured[1] - measured[0]]]
    assert scipy.stats.chi2_contingency(table, correction=False).pvalue > 1 - CONFIDENCE


def test_heroes_are_rolled_as_in_the_recordings():
    heroes = jax.vmap(lambda key: new_hero(key, REAL))(jax.random.split(jax.random.key(2), TRIALS))
    ours = np.asarray(heroes.attributes)
    # Level i of all three recorded environments has the same seed, hence the same hero.
    recorded = load("corridor_levels")["R2_attr"][:, ATTRIBUTES_IN_BLSTATS - 2]
    for place in range(6):
        kinds = np.arange(3, 119)
        table = np.stack(
            [[(a[:, place] == kind).sum() for kind in kinds] for a in (ours, recorded)]
        )
        table = table[:, table.sum(0) >= 10]
        p = scipy.stats.chi2_contingency(table).pvalue
        assert p > (1 - CONFIDENCE) / 6, (place, table)
