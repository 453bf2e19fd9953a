"""The metrics of one run: a line of JSON per update in `metrics.jsonl`, and copies elsewhere.

    with RunLog(folder) as log:
        log.write([{"update": 1, "frames": 4096, "return": 0.5, "policy/valid": per_action}])
    columns(folder / "metrics.jsonl")["return"]        # for figures

A row maps names to numbers, 1-D arrays (one number per action), texts or None; `update` is always
in it. NaN and infinity become null, which JSON can say. A line is there as a whole or not at all.
"""

import errno
import json
import math
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Required, TypedDict, runtime_checkable

import numpy as np

from maskless.errors import MasklessError, require
from maskless.files import (
    Number,
    Size,
    UnreadableError,
    Whole,
    check_type,
    opened,
    parse_line,
    read_bytes,
    replacing,
)

METRICS_FILE = "metrics.jsonl"
_DIGITS = 7  # as many as float32 has

_LARGEST = 2**28  # bytes: a thousand lines for a thousand actions
_MOST_LINES = 100_000  # as objects, short lines take twenty times the room of the file
_MOST_CELLS = 2**24  # of the columns, where each row may have metrics that no other has
_Number = Number | Whole
_ROW: Any = dict[str, _Number | bool | str | list[_Number | None] | None]

Row = dict[str, Any]


@runtime_checkable
class Sink(Protocol):
    """Where rows go besides the file: see `maskless.training.sinks`."""

    def write(self, rows: Sequence[Row]) -> None:
        """The rows of one chunk as they stand in the file: numbers, lists, texts, None."""

    def close(self) -> None:
        """Nothing more comes."""


class RunLog:
    """Appends to the metrics of a run folder. Reopening drops a line that a kill cut short."""

    def __init__(self, folder: Path, sinks: Sequence[Sink] = ()):
        self.path = Path(folder) / METRICS_FILE
        self._sinks = tuple(sinks)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _appending(self.path)
            self._file.truncate(_end_of_last_line(self.path))
        except OSError as error:
            raise _cannot_write(self.path, error) from error

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends the rows of one chunk; they are in the file when this returns."""
        plain = [plain_row(row) for row in rows]
        for row in plain:
            if not isinstance(row.get("update"), int):
                raise MasklessError(f"A row of metrics needs its update as an integer: {row}.")
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in plain)
        self._append(text.encode())
        for sink in self._sinks:
            sink.write(plain)

    def truncate_after(self, update: int) -> None:
        """Removes the rows of later updates, all at once: call it when resuming from `update`."""
        rows = zip(_whole_lines(self.path), read_metrics(self.path), strict=True)
        kept = [line for line, row in rows if row["update"] <= update]
        try:
            with replacing(self.path) as file:
                file.writelines(line + b"\n" for line in kept)
            self._file.close()
            self._file = _appending(self.path)
        except OSError as error:
            raise _cannot_write(self.path, error) from error

    def close(self) -> None:
        self._file.close()
        for sink in self._sinks:
            sink.close()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, content: bytes) -> None:
        size = os.fstat(self._file.fileno()).st_size
        view = memoryview(content)
        try:
            while view:  # an unbuffered write may take a part only
                view = view[self._file.write(view) :]
        except OSError as error:
            self._file.truncate(size)  # no half line for the next row to continue
            raise _cannot_write(self.path, error) from error


def plain_row(row: Mapping[str, Any]) -> Row:
    """The row as it stands in the file: numbers, lists, texts, None."""
    return {name: _plain(name, value) for name, value in row.items()}


def read_metrics(path: Path) -> list[Row]:
    """The rows of a `metrics.jsonl`, or of the one in a run folder. A last line that is being
    written, or was cut short, is left out."""
    path = Path(path)
    path = path / METRICS_FILE if path.is_dir() else path
    return [_parse(path, number, line) for number, line in enumerate(_whole_lines(path), start=1)]


_PerAction = list[_Number | None] | None
_PER_ACTION = (
    *("valid_share", "probability_valid", "raw_probability_invalid", "frames_to_half"),
    *("first_valid_frames", "first_valid_log_probability", "suppression_ratio"),
    *("feature_correlation", "feature_cosine_with_bias", "suppressed_since_frames"),
    *("classifier_recall", "classifier_precision", "classifier_auroc"),
)
_RUN_ROW: Any = TypedDict(  # type: ignore[misc] # "return" is no name of an attribute
    "_RUN_ROW",
    {"update": Required[Size], "frames": Required[Size], "seconds": _Number}
    | dict.fromkeys(("return", "length", "valid_rate"), _Number | None)
    | dict.fromkeys(_PER_ACTION, _PerAction),
    total=False,
)
"""What is read again of the rows that a training writes, to go on or to report."""


def read_run(folder: Path, num_actions: int) -> list[Row]:
    """The rows of a run, each with its frames, and lists of one number per action."""
    path, rows = Path(folder) / METRICS_FILE, read_metrics(folder)
    for number, row in enumerate(rows, start=1):
        try:
            check_type(row, _RUN_ROW)
            for name, value in row.items():
                fits = not isinstance(value, list) or len(value) == num_actions
                require(fits, f"{name!r} is no list of {num_actions} numbers, one per action")
        except MasklessError as error:
            raise _damaged(path, number, error) from error
    return rows


def columns(source: Path | Sequence[Row]) -> dict[str, np.ndarray]:
    """The metrics by name: [rows] for numbers, [rows, actions] for lists.

    Whole numbers that every row has stay integers; otherwise numbers are float64, with NaN where a
    row has none. Texts are an array of objects.
    """
    rows = read_metrics(Path(source)) if isinstance(source, (str, os.PathLike)) else source
    names = dict.fromkeys(name for row in rows for name in row)
    few = len(names) * len(rows) <= _MOST_CELLS
    require(
        few, f"The {len(rows):,} rows hold {len(names):,} different metrics: choose some of them."
    )
    return {name: _column(name, [row.get(name) for row in rows]) for name in names}


def _column(name: str, values: list[Any]) -> np.ndarray:
    present = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in present):
        return np.array(values, object)
    if not any(isinstance(value, list) for value in present):
        whole = len(present) == len(values) and all(isinstance(value, int) for value in present)
        return np.array(values, np.int64 if whole else np.float64)
    width = max(len(value) for value in present if isinstance(value, list))
    blank = [None] * width
    if any(not isinstance(value, list) or len(value) != width for value in present):
        raise MasklessError(f"The metric {name!r} does not have {width} numbers in every row.")
    return np.array([blank if value is None else value for value in values], np.float64)


def _plain(name: str, value: Any) -> Any:
    """What JSON can hold of a number or of a 1-D array."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, list) and all(x is None or isinstance(x, int | float) for x in value):
        value = [math.nan if x is None else x for x in value]
    array = np.asarray(value)
    if array.ndim > 1 or array.dtype.kind in "OUSMmc":
        raise MasklessError(
            f"The metric {name!r} is {array.dtype}{list(array.shape)}: log a number, or a list with"
            " one number per action."
        )
    if array.dtype.kind in "biu":
        return array.tolist()
    numbers = array.astype(np.float64).tolist()
    return [_rounded(x) for x in numbers] if array.ndim else _rounded(numbers)


def _rounded(number: float) -> float | None:
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else None


def _parse(path: Path, number: int, line: bytes) -> Row:
    try:
        row = parse_line(line, _ROW)
        require(isinstance(row.get("update"), int), "it has no update")
    except MasklessError as error:
        raise _damaged(path, number, error) from error
    return row


def _damaged(path: Path, number: int, why: MasklessError) -> MasklessError:
    reason = str(why).rstrip(".")
    return MasklessError(
        f"Line {number} of {path} is damaged ({reason}): delete the line to go on."
    )


def _whole_lines(path: Path) -> list[bytes]:
    try:
        content = read_bytes(path, most=_LARGEST)
    except UnreadableError as error:
        raise MasklessError(f"Cannot read the metrics {path} ({error.reason}).") from error
    lines = content.count(b"\n")
    most = f"it has {lines:,} lines, and a log has at most {_MOST_LINES:,}"
    require(lines <= _MOST_LINES, f"Cannot read the metrics {path} ({most}).")
    return content.split(b"\n")[:-1]


def _appending(path: Path) -> BinaryIO:
    """The file, open for more; a link is not followed to what may be another's."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    file = os.fdopen(os.open(path, flags, 0o666), "ab", buffering=0)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file")
    return file


def _end_of_last_line(path: Path) -> int:
    """How many bytes of the file are whole lines."""
    with opened(path, most=_LARGEST) as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def _cannot_write(path: Path, error: OSError) -> MasklessError:
    return MasklessError(f"Cannot write the metrics {path} ({error.strerror}).")
