"""How the messages of one step become one line, as on the game's 80-column screen.

Messages of one step are joined while they fit; one that does not fit starts a new line and the old
one is gone. The agent sees the id of the last line (rules in messages.py).
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from minihax import struct
from minihax.look.messages import TEXTS, WITH_LEG_HEALED, Message

_ROOM = 80 - len("--More--")  # the game keeps room for its prompt
TEXT_LENGTHS = np.array([len(text) for text in TEXTS], np.int32)

# "You feel weak!  You haven't been exercising properly.": rows Str, Wis, Dex, Con; lost, gained.
_FEELINGS = (("weak", "strong"), ("foolish", "wise"), ("clumsy", "agile"), ("fragile", "tough"))
_REASONS = (
    ("exercising properly", "exercising diligently"),
    ("paying attention", "very observant"),
    ("working on reflexes lately", "working on your reflexes"),
    ("watching your health", "leading a healthy life-style"),
)
FEELING_LENGTHS = np.array(
    [[len(f"You feel {feeling}!") for feeling in pair] for pair in _FEELINGS], np.int32
)
REASON_LENGTHS = np.array(
    [
        [len(f"You haven't been {lost}."), len(f"You must have been {gained}.")]
        for lost, gained in _REASONS
    ],
    np.int32,
)


@struct.dataclass
class MessageLine:
    """The line so far."""

    message: Int32[Array, ""]
    """Its `Message` id."""
    length: Int32[Array, ""]
    """Its length in characters; 0 = no message yet."""


def start_line(message: Int32[Array, ""]) -> MessageLine:
    """A line with the one message (none of it when that is `NONE`)."""
    return MessageLine(message=message, length=jnp.asarray(TEXT_LENGTHS)[message])


def append(
    line: MessageLine,
    when: Bool[Array, ""],
    message: int,
    length: Int32[Array, ""] | int | None = None,
) -> MessageLine:
    """Adds a message to the line, where `when` is True."""
    if length is None:
        length = int(TEXT_LENGTHS[message])
    fits = (line.length > 0) & (line.length + length + 3 < _ROOM)
    joined = line.message
    if message == Message.LEG_HEALED:
        joined = jnp.asarray(WITH_LEG_HEALED, jnp.int32)[line.message]
    return MessageLine(
        message=jnp.where(when, jnp.where(fits, joined, message), line.message),
        length=jnp.where(when, jnp.where(fits, line.length + 2 + length, length), line.length),
    )
