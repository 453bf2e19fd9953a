"""How the messages of one step become one line, as on the game's 80-column screen.

What is said within a step is joined while it fits; what does not fit begins a new line and the
old one is gone. The agent sees the id of the last line (rules in messages.py).
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from minihax import struct
from minihax.look.messages import TEXTS, WITH_LEG_HEALED, Message

_ROOM = 80 - len("--More--")  # the game keeps room for the question whether one has read it
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
class Speech:
    """The line so far."""

    message: Int32[Array, ""]
    """Its `Message` id."""
    length: Int32[Array, ""]
    """Its length in characters; 0 = nothing was said yet."""


def begin(message: Int32[Array, ""]) -> Speech:
    """A line with the one message (none of it when that is `NONE`)."""
    return Speech(message=message, length=jnp.asarray(TEXT_LENGTHS)[message])


def say(
    line: Speech,
    when: Bool[Array, ""],
    message: int,
    length: Int32[Array, ""] | int | None = None,
) -> Speech:
    """Adds a message to the line, where `when` is True."""
    if length is None:
        length = int(TEXT_LENGTHS[message])
    fits = (line.length > 0) & (line.length + length + 3 < _ROOM)
    joined = line.message
    if message == Message.LEG_HEALED:
        joined = jnp.asarray(WITH_LEG_HEALED, jnp.int32)[line.message]
    return Speech(
        message=jnp.where(when, jnp.where(fits, joined, message), line.message),
        length=jnp.where(when, jnp.where(fits, line.length + 2 + length, length), line.length),
    )
