"""The rules of the two games, case by case. (What the real game does is tested in tests/parity.)"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihax.game.actions import KICK, OPEN, SEARCH
from minihax.game.dice import fixed
from minihax.game.rules import PAPER, REAL
from minihax.game.step import KICK_PROMPT, NO_PROMPT, OPEN_PROMPT, new_game, step, step_with_dice
from minihax.level.terrain import RECORDED_CHARACTERS, Level, Terrain
from minihax.look.messages import Message

N, E, S, W, NE, SE, SW, NW = range(8)
PLAY = jax.jit(step_with_dice, static_argnums=0)
LUCKY = {"success": 0.0, "found": 0.0}
UNLUCKY = {"success": 0.9999, "found": 0.9999}


def game_on(picture: str, rules=REAL):
    """A game on a small map: '@' the hero on floor, '^' the hero in an open door, '0' a boulder."""
    terrain = np.zeros((21, 80), np.int8)
    boulders = np.zeros((21, 80), bool)
    start = None
    for y, line in enumerate(picture.strip("\n").splitlines(), 5):
        for x, character in enumerate(line, 30):
            if character in "@^":
                start = (y, x)
            boulders[y, x] = character == "0"
            plain = {"@": ".", "^": "o", "0": "."}.get(character, character)
            terrain[y, x] = RECORDED_CHARACTERS[plain]
    nowhere = jnp.zeros((21, 80), bool)
    level = Level(
        jnp.asarray(terrain), nowhere, nowhere, jnp.asarray(boulders), jnp.array(start, jnp.int32)
    )
    return new_game(rules, jax.random.key(0), level)


def after(state, *actions, rules=REAL, **dice):
    """The state and the result after some actions, all with the same dice."""
    result = None
    for action in actions:
        state, result = PLAY(rules, state, action, fixed(**dice))
    return state, result


def square(state, dy: int, dx: int) -> Terrain:
    """The terrain next to where the games of these tests start with '@' in the middle."""
    return Terrain(int(state.terrain[6 + dy, 31 + dx]))


class TestPaperGame:
    def test_open_door_opens_a_neighbour_without_asking(self):
        for picture in (" c \n @ \n   ", "c  \n @ \n   ", "   \n @ \n  c"):
            state, result = after(game_on(picture, PAPER), OPEN, rules=PAPER)
            assert (state.terrain == Terrain.OPEN_DOOR).sum() == 1
            assert state.turn == 2
            assert state.prompt == NO_PROMPT
            assert result.reward == 0

    def test_open_door_takes_the_first_in_the_order_of_directions(self):
        state, _ = after(game_on("  c\n @c\n   ", PAPER), OPEN, rules=PAPER)
        assert square(state, 0, 1) == Terrain.OPEN_DOOR
        assert square(state, -1, 1) == Terrain.CLOSED_DOOR

    @pytest.mark.parametrize(
        ("picture", "action"),
        [
            ("   \n @c\n   ", E),  # a closed door blocks
            ("   \n @L\n   ", E),
            ("   \n @ \n   ", E),
            ("  ,\n @ \n   ", NE),  # no door can be passed diagonally
            ("  o\n @ \n   ", NE),
            ("   \n @L\n   ", OPEN),  # nothing to open
            ("   \n @c\n   ", KICK),  # nothing to kick in
        ],
    )
    def test_what_is_not_possible_is_frozen(self, picture, action):
        before = game_on(picture, PAPER)
        state, result = after(before, action, rules=PAPER)
        assert result.reward == pytest.approx(-0.01)
        assert state.turn == before.turn
        assert (state.position == before.position).all()
        assert (state.terrain == before.terrain).all()
        assert state.message == Message.NONE

    def test_the_penalty_is_an_option(self):
        rules = dataclasses.replace(PAPER, frozen_penalty=-0.5)
        _, result = after(game_on("   \n @ \n   ", rules), N, rules=rules)
        assert result.reward == -0.5

    def test_a_kick_opens_one_locked_door_in_four(self):
        state = game_on("   \n @L\n   ", PAPER)
        keys = jax.random.split(jax.random.key(0), 10_000)
        states, results = jax.vmap(lambda key: step(PAPER, key, state, KICK))(keys)
        opened = (states.terrain == Terrain.OPEN_DOOR).any(axis=(1, 2)).mean()
        assert float(opened) == pytest.approx(0.25, abs=2.576 * np.sqrt(0.25 * 0.75 / 10_000))
        assert (results.reward == 0).all()

    def test_search_waits(self):
        before = game_on("   \n @S\n   ", PAPER)
        state, result = after(before, SEARCH, rules=PAPER, **LUCKY)
        assert state.turn == before.turn + 1
        assert result.reward == 0
        assert (state.terrain == before.terrain).all()

    def test_nobody_gets_hurt_or_hungry(self):
        before = game_on("   \n @L\n   ", PAPER)
        scan = lambda state, _: (step_with_dice(PAPER, state, KICK, fixed(**UNLUCKY))[0], None)  # noqa: E731
        state, _ = jax.lax.scan(scan, before, None, length=999)
        assert state.turn == 1000
        assert all(
            (a == b).all()
            for a, b in zip(*map(jax.tree.leaves, (state.hero, before.hero)), strict=True)
        )


class TestPrompt:
    def test_open_asks_and_then_acts(self):
        state, result = after(game_on("   \n @c\n   "), OPEN)
        assert (state.prompt, state.message) == (OPEN_PROMPT, Message.DIRECTION_PROMPT)
        assert result.reward == pytest.approx(-0.01)
        state, result = after(state, E, **LUCKY)
        assert (state.prompt, state.message) == (NO_PROMPT, Message.DOOR_OPENS)
        assert square(state, 0, 1) == Terrain.OPEN_DOOR
        assert result.reward == 0

    @pytest.mark.parametrize(
        ("key", "answer", "message"),
        [
            (OPEN, OPEN, Message.STRANGE_DIRECTION_NEVER_MIND),
            (OPEN, KICK, Message.STRANGE_DIRECTION_NEVER_MIND),
            (OPEN, SEARCH, Message.NOTHING_TO_LOOT),
            (KICK, OPEN, Message.STRANGE_DIRECTION),
            (KICK, KICK, Message.STRANGE_DIRECTION),
            (KICK, SEARCH, Message.NONE),
        ],
    )
    def test_odd_answers(self, key, answer, message):
        state, result = after(game_on("   \n @ \n   "), key, answer)
        assert (state.prompt, state.message, state.turn) == (NO_PROMPT, message, 1)
        assert result.reward == pytest.approx(-0.01)

    def test_a_wounded_leg_does_not_kick(self):
        state, _ = after(game_on("   \n @.\n   "), KICK, E, wound=0.0, damage=0.0)
        wounded = dataclasses.replace(state.hero, leg=jnp.int8(5))
        state, result = after(dataclasses.replace(state, hero=wounded), KICK)
        assert (state.prompt, state.message) == (NO_PROMPT, Message.NONE)
        assert result.reward == pytest.approx(-0.01)


class TestBoulders:
    def test_pushing_is_mentioned_once_in_a_while(self):
        state = game_on("       \n@0......\n       ")
        state, _ = after(state, SEARCH, SEARCH)  # the game counts from turn 0 on
        messages = []
        for _ in range(3):
            state, _ = after(state, E)
            messages.append(int(state.message))
        assert messages == [Message.BOULDER_MOVED, Message.NONE, Message.NONE]
        assert state.boulders[6, 34]
        assert state.boulders.sum() == 1
        assert state.position.tolist() == [6, 33]

    @pytest.mark.parametrize(
        ("picture", "action"),
        [
            ("   \n@0 \n   ", E),
            ("   \n@00.\n   ", E),
            ("   \n@0c\n   ", E),
            ("   \n@0L\n   ", E),
            ("@  \n 0 \n  o", SE),
        ],
    )
    def test_stuck(self, picture, action):
        state, result = after(game_on(picture), action)
        assert state.message == Message.BOULDER_STUCK
        assert result.reward == pytest.approx(-0.01)

    @pytest.mark.parametrize(
        ("picture", "action"),
        [("@  \n 0 \n  ,", SE), ("@  \n 0 \n  b", SE), ("   \n@0o\n   ", E), ("   \n@0>\n   ", E)],
    )
    def test_goes_through_doorways(self, picture, action):
        state, result = after(game_on(picture), action)
        assert result.reward == 0
        assert (state.position == game_on(picture).position + jnp.array([action == SE, 1])).all()

    def test_the_door_comes_first(self):
        state, _ = after(game_on("   \n ^ \n  0"), SE)
        assert state.message == Message.NO_DIAGONAL_OUT_OF_DOORWAY


class TestEnd:
    def test_the_goal(self):
        _, result = after(game_on("   \n @>\n   "), E)
        assert (result.reward, result.done, result.truncated) == (1, True, False)

    def test_the_goal_on_the_last_step_is_too_late(self):
        state = dataclasses.replace(game_on("   \n @>\n   "), steps=jnp.int16(999))
        _, result = after(state, E)
        assert (result.reward, result.done, result.truncated) == (0, True, True)
        assert result.reached_goal

    def test_a_frozen_last_step_still_costs(self):
        state = dataclasses.replace(game_on("   \n @>\n   "), steps=jnp.int16(999))
        _, result = after(state, W)
        assert result.reward == pytest.approx(-0.01)
        assert result.truncated

    def test_death(self):
        state = game_on("   \n @ \n   ")
        weak = dataclasses.replace(state.hero, hit_points=jnp.int8(1))
        _, result = after(dataclasses.replace(state, hero=weak), KICK, E, damage=0.5)
        assert (result.reward, result.done, result.died, result.truncated) == (0, True, True, False)

    @pytest.mark.parametrize("action", [-1, 11, 1000])
    @pytest.mark.parametrize("prompt", [NO_PROMPT, OPEN_PROMPT, KICK_PROMPT])
    def test_an_unknown_action_does_nothing(self, action, prompt):
        before = dataclasses.replace(game_on("   \n.@.\n   "), prompt=jnp.int8(prompt))
        state, result = after(before, action, **LUCKY)
        assert result.reward == pytest.approx(-0.01)
        expected = dataclasses.replace(before, steps=jnp.int16(1), message=jnp.int8(0))
        assert all(
            (a == b).all() for a, b in zip(*map(jax.tree.leaves, (state, expected)), strict=True)
        )


class TestHunger:
    def test_the_course_of_starvation(self):
        def search(state, key):
            state, _ = step(REAL, key, state, SEARCH)
            return state, (state.turn, state.message)

        keys = jax.random.split(jax.random.key(0), 999)
        state, (turns, messages) = jax.lax.scan(search, game_on("   \n @ \n   "), keys)
        turns, messages = np.asarray(turns), np.asarray(messages)
        assert turns[messages == Message.HUNGRY].tolist() == [751]
        assert turns[messages == Message.WEAK].tolist() == [851]
        jumps = np.diff(turns)
        assert turns[:-1][jumps > 1][0] == 900
        assert jumps[jumps > 1][0] == 10  # the first faint
        assert jumps.max() <= 30
        assert 1250 < turns[-1] < 1650  # real games: 1347 to 1511
        assert state.hero.nutrition < -100
