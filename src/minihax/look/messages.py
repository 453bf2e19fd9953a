"""Everything the game says, as a closed list: the agent gets the number of a message, not its text.

NetHack joins what it says within one step with two blanks. Three rules keep the list closed:

1. "Your leg feels better." after another message is common enough to have ids of its own, one
   for each message that can come before it (a hero with a wounded leg cannot kick).
   `WITH_LEG_HEALED[message]` gives the id.
2. Of any other combination only the beginning counts: the longest text of the list that the whole
   message starts with. What is dropped shows in blstats (hunger, attributes, hit points), except
   for a second hidden square found by the same search, which shows on the map.
3. A message that starts with no text of the list is `OTHER`.
"""

import enum

import numpy as np


class Message(enum.IntEnum):
    """The ids. 0 is silence; ids are part of the observation, so append, never renumber."""

    NONE = 0
    OTHER = 1
    WELCOME = 2
    # Moving
    WALL = 3
    SOLID_STONE = 4
    NO_DIAGONAL_INTO_DOORWAY = 5
    NO_DIAGONAL_OUT_OF_DOORWAY = 6
    BOULDER_MOVED = 7
    BOULDER_STUCK = 8
    # Doors
    DIRECTION_PROMPT = 9
    STRANGE_DIRECTION = 10
    STRANGE_DIRECTION_NEVER_MIND = 11
    NOTHING_TO_LOOT = 12
    DOOR_OPENS = 13
    DOOR_RESISTS = 14
    DOOR_LOCKED = 15
    DOOR_ALREADY_OPEN = 16
    DOORWAY_EMPTY = 17
    DOOR_BROKEN = 18
    NO_DOOR_THERE = 19
    # Kicking
    KICK_EMPTY_SPACE = 20
    KICK_STRAIN = 21
    KICK_HURTS = 22
    KICK_HURTS_BANSHEE = 23
    KICK_WHAMM = 24
    KICK_DOOR_CRASHES_OPEN = 25
    KICK_DOOR_SHATTERS = 26
    KICK_SECRET_DOOR_OPENED = 27
    KICK_SECRET_DOOR_UNCOVERED = 28
    KICK_SECRET_PASSAGE = 29
    # Searching
    FOUND_DOOR = 30
    FOUND_PASSAGE = 31
    # The body
    LEG_HEALED = 32
    HUNGRY = 33
    WEAK = 34
    FAINTED = 35
    ATTRIBUTE_CHANGED = 36
    # What can be said before "Your leg feels better." in the same step
    BOULDER_MOVED_LEG_HEALED = 37
    DOOR_OPENS_LEG_HEALED = 38
    DOOR_RESISTS_LEG_HEALED = 39
    FOUND_DOOR_LEG_HEALED = 40
    FOUND_PASSAGE_LEG_HEALED = 41


NUM_MESSAGES = len(Message)

_M = Message
_LEG = "Your leg feels better."
_TEXTS = {
    _M.NONE: "",
    _M.OTHER: "(something else)",
    # The name and the role follow; the recordings begin after this message.
    _M.WELCOME: "Hello Agent, welcome to NetHack!",
    _M.WALL: "It's a wall.",
    _M.SOLID_STONE: "It's solid stone.",
    _M.NO_DIAGONAL_INTO_DOORWAY: "You can't move diagonally into an intact doorway.",
    _M.NO_DIAGONAL_OUT_OF_DOORWAY: "You can't move diagonally out of an intact doorway.",
    _M.BOULDER_MOVED: "With great effort you move the boulder.",
    _M.BOULDER_STUCK: "You try to move the boulder, but in vain.",
    _M.DIRECTION_PROMPT: "In what direction? ",
    _M.STRANGE_DIRECTION: "What a strange direction!",
    _M.STRANGE_DIRECTION_NEVER_MIND: "What a strange direction!  Never mind.",
    _M.NOTHING_TO_LOOT: "You don't find anything here to loot.",
    _M.DOOR_OPENS: "The door opens.",
    _M.DOOR_RESISTS: "The door resists!",
    _M.DOOR_LOCKED: "This door is locked.",
    _M.DOOR_ALREADY_OPEN: "This door is already open.",
    _M.DOORWAY_EMPTY: "This doorway has no door.",
    _M.DOOR_BROKEN: "This door is broken.",
    _M.NO_DOOR_THERE: "You see no door there.",
    _M.KICK_EMPTY_SPACE: "You kick at empty space.",
    _M.KICK_STRAIN: "Dumb move!  You strain a muscle.",
    _M.KICK_HURTS: "Ouch!  That hurts!",
    _M.KICK_HURTS_BANSHEE: "Ouch!  That hurts!  You hear the wailing of the Banshee...",
    _M.KICK_WHAMM: "WHAMMM!!!",
    _M.KICK_DOOR_CRASHES_OPEN: "As you kick the door, it crashes open!",
    _M.KICK_DOOR_SHATTERS: "As you kick the door, it shatters to pieces!",
    _M.KICK_SECRET_DOOR_OPENED: "Crash!  You kick open a secret door!",
    _M.KICK_SECRET_DOOR_UNCOVERED: "Crash!  Your kick uncovers a secret door!",
    _M.KICK_SECRET_PASSAGE: "Crash!  You kick open a secret passage!",
    _M.FOUND_DOOR: "You find a hidden door.",
    _M.FOUND_PASSAGE: "You find a hidden passage.",
    _M.LEG_HEALED: _LEG,
    _M.HUNGRY: "You are beginning to feel hungry.",
    _M.WEAK: "You are beginning to feel weak.",
    _M.FAINTED: "You faint from lack of food.",
    _M.ATTRIBUTE_CHANGED: "You feel ",  # tough, fragile, agile, ...: which one is in blstats
    _M.BOULDER_MOVED_LEG_HEALED: f"With great effort you move the boulder.  {_LEG}",
    _M.DOOR_OPENS_LEG_HEALED: f"The door opens.  {_LEG}",
    _M.DOOR_RESISTS_LEG_HEALED: f"The door resists!  {_LEG}",
    _M.FOUND_DOOR_LEG_HEALED: f"You find a hidden door.  {_LEG}",
    _M.FOUND_PASSAGE_LEG_HEALED: f"You find a hidden passage.  {_LEG}",
}

TEXTS: tuple[str, ...] = tuple(_TEXTS[message] for message in Message)
"""The text of each message (where more can follow: its beginning), indexed by id."""

_LONGEST_FIRST = sorted(
    (m for m in Message if m not in (_M.NONE, _M.OTHER)), key=lambda m: -len(TEXTS[m])
)


def _with_leg_healed() -> np.ndarray:
    ids = np.arange(NUM_MESSAGES, dtype=np.int8)
    ids[_M.NONE] = _M.LEG_HEALED
    for message in Message:
        if message.name.endswith("_LEG_HEALED"):
            ids[Message[message.name.removesuffix("_LEG_HEALED")]] = message
    return ids


WITH_LEG_HEALED = _with_leg_healed()
"""The id after "Your leg feels better." is added to a message, indexed by that message's id.
Messages without such a variant stay as they are (rule 2)."""


def message_id(text: str) -> Message:
    """The id of what the game said in one step (rules in the module's docstring)."""
    if not text:
        return Message.NONE
    return next((m for m in _LONGEST_FIRST if text.startswith(TEXTS[m])), Message.OTHER)
