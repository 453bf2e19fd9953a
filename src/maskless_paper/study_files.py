"""The JSON of a study: its configuration, what was measured, and where it ran.

result = read_result(Path("results/studies/classic-mlp.json"))
"""

import json
import math
import re
from pathlib import Path
from typing import Any

from maskless.errors import MasklessError
from maskless.files import read_json, write_text

Result = dict[str, Any]
"""The content of such a file; `run.run_study` says what is in it."""
FORMAT = 1
"""Version of the content; raised when older files cannot be read any more."""
DIGITS = 5
"""Significant digits of every measured number."""


def read_result(path: Path) -> Result:
    """What `write_result` wrote."""
    content: Result = read_json(path, dict[str, Any], advice="it is no result of a study")
    if content.get("format") != FORMAT:
        raise MasklessError(f"{path} is not the result of a study of this version of maskless.")
    return content


def read_studies(folder: Path) -> dict[str, Result]:
    """All results in a folder, by the name of the study."""
    return {path.stem: read_result(path) for path in sorted(folder.glob("*.json"))}


def write_result(path: Path, result: Result) -> None:
    """Indented, but with every list of numbers on one line: small, and fit for a diff."""

    def on_one_line(numbers: re.Match[str]) -> str:
        return "[" + re.sub(r"\s+", " ", numbers[1]) + "]"

    text = json.dumps(result, indent=1, allow_nan=False)
    write_text(path, re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", on_one_line, text) + "\n")


def rounded(number: float) -> float | None:
    """A number as the JSON holds it; `null` for NaN and infinity."""
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None
