"""What is no file, too large, too deep or of another type is refused in one sentence."""

import dataclasses
import json
import os

import numpy as np
import pytest
from safetensors.numpy import save

from maskless import MasklessError
from maskless.files import (
    check_finite_weights,
    check_inside,
    parse_json,
    parse_line,
    parse_tensors,
    read_bytes,
    read_json,
    read_tensors,
)


@dataclasses.dataclass(frozen=True)
class Settings:
    episodes: int
    rates: list[float | None] = dataclasses.field(default_factory=list)


PLACES = {
    "a fifo": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "no such file": lambda path: path.symlink_to("nowhere"),
    "1 TiB": lambda path: (path.touch(), os.truncate(path, 2**40)),
    "levels of symbolic links": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("sentence", PLACES)
def test_what_is_no_file_is_not_opened(tmp_path, sentence):
    path = tmp_path / "config.json"
    PLACES[sentence](path)
    with pytest.raises(MasklessError, match=sentence):
        read_json(path, Settings)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[" * 10**6, "levels deep"),
        (b"[" * 65 + b"]" * 65, "64 levels deep"),
        (b'{"episodes": 1' + b"0" * 30 + b"}", "episodes is a number out of range"),
        (b'{"episodes": 1e999}', "episodes is not a finite number"),
        (b'{"a": {"b": [NaN]}}', "a.b is not a finite number"),
        (b'{"name": "\\ud800"}', "half of a character"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a": "\xff"}', "not text in UTF-8"),
        (b"", "not JSON"),
        # A long name around many is not written out for each of them.
        (json.dumps({"a" * 2**22: dict.fromkeys(map(str, range(10**5)), 1e999)}), "a… is not"),
    ],
)
def test_json_that_nothing_can_use(content, sentence):
    with pytest.raises(MasklessError, match=sentence):
        parse_json(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "it lacks 'episodes'"),
        ({"episodes": "3"}, "'episodes' must be int, not str"),
        ({"episodes": True}, "'episodes' must be int, not bool"),
        ({"episodes": 1, "rates": [0.5, None, "x"]}, r"'rates\[2\]' must be"),
        ([], "it must be object, not array"),
    ],
)
def test_the_sentence_names_file_and_field(tmp_path, content, sentence):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    with pytest.raises(
        MasklessError, match=rf"x.json cannot be used: {sentence}.*; do it again\.$"
    ):
        read_json(path, Settings, advice="do it again")


def test_lines_have_the_bounds_of_their_type():
    kind = dict[str, float | list[float | None]]
    assert parse_line(b'{"a": 1, "b": [null, 2.5]}', kind) == {"a": 1.0, "b": [None, 2.5]}
    for line in (b'{"a": [[1]]}', b'{"a": 1e999}', b'{"a": ' + b"[" * 10**5, b'{"a": NaN}'):
        with pytest.raises(MasklessError):
            parse_line(line, kind)


def test_weights_that_are_not_finite_are_named(tmp_path):
    arrays = {
        "good": np.ones(3, np.float32),
        "bad/kernel": np.array([1, np.nan, np.inf], "float16"),
    }
    content = save(arrays)
    with pytest.raises(MasklessError, match="2 of the 3 weights 'bad/kernel' are NaN or infinite"):
        check_finite_weights(parse_tensors(content))
    (tmp_path / "x").write_bytes(content)
    assert list(read_tensors(tmp_path / "x", ["good"], most=1000)) == ["good"]
    with pytest.raises(MasklessError, match="safetensors"):
        read_tensors(tmp_path / "x", ["other"], most=1000)
    for length in (0, 2**30, 2**63):
        with pytest.raises(MasklessError, match="no safetensors file"):
            parse_tensors(length.to_bytes(8, "little") + content[8:])


def test_links_out_of_a_folder(tmp_path):
    inside, outside = tmp_path / "run", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "policy").symlink_to(outside)
    (tmp_path / "named").symlink_to(inside)  # the folder itself may be a link
    (inside / "checkpoints").mkdir()
    check_inside(tmp_path / "named", tmp_path / "named" / "checkpoints")
    with pytest.raises(MasklessError, match="a link that leads out"):
        check_inside(inside, inside / "policy")
    (outside / "secret").write_text("x")
    (inside / "figure").symlink_to(outside / "secret")
    assert read_bytes(inside / "figure") == b"x"
    with pytest.raises(MasklessError, match="it is a link"):
        read_bytes(inside / "figure", follow=False)
