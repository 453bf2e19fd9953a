"""What differs between the games, as data: one engine plays all of them.

`REAL` is NetHack 3.6.6 as MiniHack plays it. `PAPER` is the simplified game that the paper
trained on. Each field of `PAPER` says whose decision it is: the paper's (its text, or NetHax, the
code it used), or ours where both are silent or where following them would make the game pointless.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Rules:
    """The switches of the engine. Static: each set of rules compiles to its own program."""

    prompts: bool = True
    """OPEN and KICK ask "In what direction?" and act with the next action.
    False: they act at once, on the first door around the hero that they can work on."""
    autoopen: bool = True
    """Walking into a closed door tries to open it. False: the door blocks."""
    diagonal_doorways: bool = True
    """Doorways without a door, or with a broken one, can be passed diagonally."""
    body: bool = True
    """The hero has attributes that decide about doors; can be hurt, go hungry, faint and die.
    False: doors always open, kicks succeed with `kick_chance` and never hurt."""
    kick_chance: float = 0.0
    """With `body` off: the probability that a kick opens an adjacent locked door."""
    secrets: bool = True
    """Searching finds hidden doors and corridors. False: it is just waiting."""
    boulders: bool = True
    """Levels can have boulders. False saves the time to look for them."""
    messages: bool = True
    """The game says what happens. False: it is silent."""
    hit_points: int = 12
    """At the start, and at most."""
    num_actions: int = 11
    """Actions from this number on do nothing."""
    frozen_penalty: float = -0.01
    """The reward of a step in which no game turn passes."""
    goal_reward: float = 1.0
    """The reward for stepping onto the goal, except on the very last step."""
    episode_limit: int = 1000
    """Steps after which the episode is cut off."""


REAL = Rules()

PAPER = Rules(
    prompts=False,  # the paper's: open_door and kick are single actions without a direction
    autoopen=False,  # the paper's: closed doors block movement
    diagonal_doorways=False,  # NetHax's: no diagonal moves through any door, empty ones included
    body=False,  # NetHax's: no damage, no hunger, no death; open_door always succeeds
    # NetHax's. There no locked door ever appears and a kick at nothing takes a turn; here locked
    # doors do appear, and a kick at nothing takes none, like every action that the paper's mask
    # calls invalid (ours).
    kick_chance=0.25,
    secrets=False,  # the paper's: search waits
    boulders=False,  # NetHax's
    messages=False,  # NetHax's: the message is always empty
    hit_points=16,  # NetHax's: shown, never changed
    # Ours: the turn counter counts turns (NetHax shows the steps), the real order of actions,
    # and among several doors open_door and kick take the first in that order of directions.
)


def maze_rules(episode_limit: int) -> Rules:
    """MazeWalk: the real game with the eight moves only, and nothing in it to open or to push."""
    return dataclasses.replace(
        REAL, num_actions=8, boulders=False, secrets=False, episode_limit=episode_limit
    )
