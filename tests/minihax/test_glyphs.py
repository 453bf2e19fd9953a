"""The tables of looks and of messages."""

import jax.numpy as jnp
import numpy as np

from minihax.level.terrain import Terrain
from minihax.look.glyphs import LOOKS, NLE_GLYPHS, NUM_GLYPHS, Glyph, appearance, from_nle_glyphs
from minihax.look.messages import TEXTS, WITH_LEG_HEALED, Message, message_id

SAME = {t: Glyph[t.name] for t in Terrain if t.name in Glyph.__members__}
LOOK_OF = SAME | {
    Terrain.STONE: Glyph.UNSEEN,
    Terrain.SECRET_CORRIDOR: Glyph.UNSEEN,
    Terrain.BROKEN_DOOR: Glyph.DOORWAY,
}
BY_ORIENTATION = {
    Terrain.OPEN_DOOR: (Glyph.OPEN_DOOR_VERTICAL, Glyph.OPEN_DOOR_HORIZONTAL),
    Terrain.CLOSED_DOOR: (Glyph.CLOSED_DOOR_VERTICAL, Glyph.CLOSED_DOOR_HORIZONTAL),
    Terrain.LOCKED_DOOR: (Glyph.CLOSED_DOOR_VERTICAL, Glyph.CLOSED_DOOR_HORIZONTAL),
    Terrain.SECRET_DOOR: (Glyph.VERTICAL_WALL, Glyph.HORIZONTAL_WALL),
    Terrain.SECRET_LOCKED_DOOR: (Glyph.VERTICAL_WALL, Glyph.HORIZONTAL_WALL),
}


def test_every_terrain_has_its_look():
    terrain = jnp.asarray(list(Terrain), jnp.int8)
    for horizontal in (False, True):
        flags = jnp.full(terrain.shape, horizontal)
        shown = appearance(terrain, flags, jnp.zeros_like(flags))
        assert shown.dtype == jnp.int8
        for kind, look in zip(Terrain, np.asarray(shown), strict=True):
            wanted = BY_ORIENTATION[kind][horizontal] if kind in BY_ORIENTATION else LOOK_OF[kind]
            assert look == wanted, (kind, horizontal)
        boulders = appearance(terrain, flags, jnp.ones_like(flags))
        assert (boulders == Glyph.BOULDER).all()


def test_ids_are_compact_and_nle_numbers_unique_but_for_mapped_floor():
    assert list(Glyph) == list(range(NUM_GLYPHS))
    assert NUM_GLYPHS <= 50
    assert set(LOOKS) == set(Glyph)
    assert len(set(NLE_GLYPHS.tolist())) == NUM_GLYPHS - 1
    assert NLE_GLYPHS[Glyph.FLOOR_MAPPED] == NLE_GLYPHS[Glyph.FLOOR]


def test_nle_glyphs_there_and_back():
    expected = np.arange(NUM_GLYPHS)
    expected[Glyph.FLOOR_MAPPED] = Glyph.FLOOR
    np.testing.assert_array_equal(from_nle_glyphs(NLE_GLYPHS), expected)
    # A kitten, a potion and a number beyond the table: nothing that occurs here.
    strange = from_nle_glyphs(np.array([[332, 2180], [2390, 9999]]))
    assert (strange == Glyph.UNSEEN).all()


def test_messages_are_a_closed_list_and_read_back():
    assert list(Message) == list(range(len(TEXTS)))
    assert len(set(TEXTS)) == len(TEXTS)
    for message in Message:
        if message != Message.OTHER:
            assert message_id(TEXTS[message]) == message


def test_messages_that_combine():
    assert message_id("The door opens.  Your leg feels better.") == Message.DOOR_OPENS_LEG_HEALED
    assert WITH_LEG_HEALED[Message.DOOR_OPENS] == Message.DOOR_OPENS_LEG_HEALED
    assert WITH_LEG_HEALED[Message.NONE] == Message.LEG_HEALED
    assert WITH_LEG_HEALED[Message.WALL] == Message.WALL
    two_finds = "You find a hidden door.  You find a hidden passage."
    assert message_id(two_finds) == Message.FOUND_DOOR
    tough = "You feel tough!  You must have been leading a healthy life-style."
    assert message_id(tough) == Message.ATTRIBUTE_CHANGED
    greeting = "Hello Agent, welcome to NetHack!  You are a chaotic male human Rogue."
    assert message_id(greeting) == Message.WELCOME
    assert message_id("The kitten miaows.") == Message.OTHER
    assert message_id("") == Message.NONE
