"""A game in the terminal, in the characters and colours that NetHack uses."""

import itertools

import jax.numpy as jnp
import numpy as np
from rich.text import Text

from minihax.game.step import NO_PROMPT, OPEN_PROMPT, State
from minihax.level.terrain import Terrain
from minihax.look.glyphs import CHARACTERS, COLOURS, Glyph, appearance
from minihax.look.messages import TEXTS

# NetHack's colour numbers are the terminal's; 0 (black) is only ever used for blanks.
_STYLES = ["", *(f"color({number})" for number in range(1, 16))]
_HIDDEN = "reverse color(1)"
_LOCKED = "bold color(1)"


def screen(state: State) -> Text:
    """What the player of the real game sees: the message, the remembered map, the status line."""
    remembered = np.array(state.remembered)
    remembered[tuple(np.asarray(state.position))] = Glyph.HERO
    picture = Text(TEXTS[int(state.message)] + "\n", no_wrap=True)
    picture.append(_draw(remembered))
    prompt = int(state.prompt)
    waiting = "" if prompt == NO_PROMPT else "  open" if prompt == OPEN_PROMPT else "  kick"
    picture.append(
        f"HP:{int(state.hero.hit_points)}  T:{int(state.turn)}  step {int(state.steps)}{waiting}"
    )
    return picture


def whole_level(state: State) -> Text:
    """The true map. What the player cannot tell is marked in red: hidden doors and corridors
    (reversed, as what they will be once found) and locked doors."""
    terrain = np.asarray(state.terrain)
    revealed = np.select(
        [
            terrain == Terrain.SECRET_CORRIDOR,
            terrain == Terrain.SECRET_DOOR,
            terrain == Terrain.SECRET_LOCKED_DOOR,
        ],
        [Terrain.CORRIDOR, Terrain.CLOSED_DOOR, Terrain.LOCKED_DOOR],
        terrain,
    ).astype(np.int8)
    glyphs = np.array(appearance(jnp.asarray(revealed), state.horizontal, state.boulders))
    glyphs[tuple(np.asarray(state.position))] = Glyph.HERO
    marks = np.where(revealed != terrain, _HIDDEN, "")
    marks = np.where(terrain == Terrain.LOCKED_DOOR, _LOCKED, marks)
    return _draw(glyphs, marks)


def _draw(glyphs: np.ndarray, marks: np.ndarray | None = None) -> Text:
    """A map of glyph ids as text; `marks` are styles that replace NetHack's colour."""
    styles = np.array(_STYLES, object)[COLOURS[glyphs]]
    if marks is not None:
        styles = np.where(marks != "", marks, styles)
    picture = Text(no_wrap=True)
    for characters, row in zip(CHARACTERS[glyphs], styles, strict=True):
        squares = list(zip(characters, row, strict=True))[1:]  # column 0 is no part of the map
        for style, run in itertools.groupby(squares, key=lambda square: square[1]):
            picture.append("".join(chr(character) for character, _ in run), style)
        picture.append("\n")
    return picture
