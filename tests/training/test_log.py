"""metrics.jsonl: every line whole, readable by any JSON parser, and back as arrays."""

import json
import os
import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest

from maskless import MasklessError
from maskless.training.log import RunLog, columns, read_metrics


def strict_lines(folder):
    """What a parser that knows only the JSON standard reads."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


class Collector:
    """A sink that remembers."""

    def __init__(self):
        self.events = []

    def write(self, rows):
        self.events.append(rows)

    def close(self):
        self.events.append("close")


def test_numbers_of_every_kind(tmp_path):
    row = {
        "update": np.int64(3),
        "frames": 10**12,
        "loss": jnp.float32(1 / 3),
        "half": jnp.bfloat16(1.5),
        "tiny": np.float64(1.23456789012e-30),
        "nan": float("nan"),
        "inf": jnp.float32(-jnp.inf),
        "per_action": jnp.array([0.1, jnp.nan, 2.0]),
        "counts": np.array([1, 2], np.uint8),
        "flags": np.array([True, False]),
        "done": np.bool_(True),
        "none": None,
        "text": "é\n",
    }
    with RunLog(tmp_path / "a/b") as log:
        log.write([row])
    assert strict_lines(tmp_path / "a/b") == [
        {
            **{"update": 3, "frames": 10**12, "loss": 0.3333333, "half": 1.5},
            **{"tiny": 1.234568e-30, "nan": None, "inf": None, "per_action": [0.1, None, 2.0]},
            **{"counts": [1, 2], "flags": [True, False], "done": True, "none": None},
            "text": "é\n",
        }
    ]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"update": 1, "x": np.zeros((2, 2))}, r"'x' is float64\[2, 2\]"),
        ({"update": 1, "x": object()}, "'x' is object"),
        ({"update": 1, "x": 1j}, "'x' is complex128"),
        ({"x": 1}, "needs its update"),
    ],
)
def test_what_is_not_a_metric(tmp_path, row, sentence):
    with RunLog(tmp_path) as log:
        with pytest.raises(MasklessError, match=sentence):
            log.write([{"update": 0}, row])
        assert strict_lines(tmp_path) == []  # the rows of a visit come together or not at all


def test_rows_are_in_the_file_at_once_and_sinks_see_them_plain(tmp_path):
    sink = Collector()
    with RunLog(tmp_path, [sink]) as log:
        log.write([{"update": 1, "x": np.array([np.nan])}, {"update": 2}])
        assert len(strict_lines(tmp_path)) == 2
        log.write([{"update": 3}])
        assert len(strict_lines(tmp_path)) == 3
    first, second, third = {"update": 1, "x": [None]}, {"update": 2}, {"update": 3}
    assert sink.events == [[first, second], [third], "close"]


@pytest.mark.parametrize("torn", [b"{", b'{"update": 3, "x": 0.', b"\0" * 200_000])
@pytest.mark.parametrize("rows", [0, 2])
def test_a_torn_last_line_is_dropped(tmp_path, torn, rows):
    with RunLog(tmp_path) as log:
        log.write([{"update": update} for update in range(rows)])
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(torn)
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == rows
    with RunLog(tmp_path) as log:
        log.write([{"update": rows}])
    assert [row["update"] for row in strict_lines(tmp_path)] == [*range(rows + 1)]


def test_truncate_after_resuming(tmp_path):
    with RunLog(tmp_path) as log:
        log.write([{"update": update, "x": 0.1} for update in range(10)])
        kept = (tmp_path / "metrics.jsonl").read_bytes().splitlines(keepends=True)[:5]
        log.truncate_after(4)
        assert (tmp_path / "metrics.jsonl").read_bytes() == b"".join(kept)
        log.truncate_after(7)
        log.write([{"update": 5}])
        log.truncate_after(-1)
        assert read_metrics(tmp_path) == []
        log.write([{"update": 0}])
    assert read_metrics(tmp_path) == [{"update": 0}]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"update": 0}\n{"upd\n{"update": 2}\n')
    with pytest.raises(MasklessError, match=r"Line 2 of .*metrics.jsonl is damaged"):
        read_metrics(tmp_path)
    with RunLog(tmp_path) as log, pytest.raises(MasklessError, match="Line 2"):
        log.truncate_after(0)
    with pytest.raises(MasklessError, match="Cannot read the metrics"):
        read_metrics(tmp_path / "nowhere.jsonl")


FULL_DISK = """
    import resource, sys
    from maskless.errors import MasklessError
    from maskless.training.log import RunLog

    log = RunLog(sys.argv[1])
    log.write([{"update": 1}])
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    try:
        log.write([{"update": 2, "x": "y" * 200}])
    except MasklessError as error:
        print(error)
    log.write([{"update": 3}])
"""


def test_a_full_disk_leaves_no_half_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=60,
    )
    assert "Cannot write the metrics" in done.stdout, done.stderr
    assert strict_lines(tmp_path) == [{"update": 1}, {"update": 3}]


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MasklessError, match="Cannot write the metrics"):
        RunLog(tmp_path / "file")


def test_columns_for_figures(tmp_path):
    rows = [
        {"update": 1, "return": 0.5, "per_action": [1.0, float("nan")], "late": None},
        {"update": 2, "return": float("nan"), "per_action": [0.25, 0.5], "note": "resumed"},
        {"update": 3, "late": 7},
    ]
    with RunLog(tmp_path) as log:
        log.write(rows)
    nan = np.nan
    for found in (columns(tmp_path), columns(str(tmp_path)), columns(read_metrics(tmp_path))):
        assert found["update"].dtype == np.int64
        np.testing.assert_array_equal(found["update"], [1, 2, 3])
        np.testing.assert_array_equal(found["return"], [0.5, nan, nan])
        np.testing.assert_array_equal(found["per_action"], [[1, nan], [0.25, 0.5], [nan, nan]])
        np.testing.assert_array_equal(found["late"], [nan, nan, 7])
        assert found["note"].tolist() == [None, "resumed", None]
    assert columns([]) == {}
    with pytest.raises(MasklessError, match="'x' does not have 2 numbers in every row"):
        columns([{"update": 1, "x": [1]}, {"update": 2, "x": [1, 2]}])
    with pytest.raises(MasklessError, match="5,000 rows hold 5,001 different metrics"):
        columns([{"update": number, str(number): 0} for number in range(5000)])
