"""One look for all figures: colour-blind-safe, readable at column width and on a dark page."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

from maskless.files import printable, write_bytes

matplotlib.use("Agg")  # no display is needed, here or on a server
import matplotlib.pyplot as plt

# Okabe and Ito's colours, a neutral grey, and three of Paul Tol's: all are colour-blind-safe.
BLUE, VERMILION, ORANGE, GREEN = "#0072B2", "#D55E00", "#E69F00", "#009E73"
SKY, PURPLE, BLACK, GREY = "#56B4E9", "#CC79A7", "#000000", "#7F7F7F"
WINE, INDIGO, OLIVE = "#882255", "#332288", "#999933"

PALETTE = (BLUE, VERMILION, ORANGE, GREEN, WINE, GREY, SKY, PURPLE, BLACK, INDIGO, OLIVE)
"""For curves side by side, in this order."""
MASK_COLOURS = {"oracle": BLUE, "predicted": SKY, "clone": INDIGO, "none": VERMILION}
"""Kinds of masks have the colours of the conditions that act so while training."""

_STYLE: Any = {
    "figure.facecolor": "white",  # opaque, so that a dark page does not swallow black text
    "savefig.dpi": 160,
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "maskless",  # the same figure gives the same file
}


def label(name: str, most: int = 40) -> str:
    """A name as it stands, in a figure: short enough, on one line, and no formula."""
    return printable(name.replace("\n", " "), most).replace("$", r"\$")


@contextmanager
def figure(path: Path, **subplots: Any) -> Iterator[tuple[Any, Any]]:
    """Draw into the yielded (figure, axes); saved as `path`.png and `path`.svg on leaving."""
    with plt.rc_context(_STYLE):
        fig, axes = plt.subplots(layout="constrained", **subplots)
        try:
            yield fig, axes
            for suffix in (".png", ".svg"):
                metadata = {"Date": None} if suffix == ".svg" else None
                drawn = io.BytesIO()  # matplotlib itself would follow a link in the file's place
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
                    fig.savefig(drawn, format=suffix[1:], metadata=metadata)
                write_bytes(path.with_suffix(suffix), drawn.getvalue())
        finally:
            plt.close(fig)
