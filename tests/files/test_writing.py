"""Nothing is written through a link, half written, or left behind; names become harmless."""

import json
import math
import os

import pytest

from maskless import MasklessError
from maskless.files import printable, replacing, slug, write_json, write_text, writing


def test_a_link_is_replaced_and_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    path = tmp_path / "evaluation.json"
    path.symlink_to(precious)
    for name in (".evaluation.json.partial", ".evaluation.json.0.partial"):
        (tmp_path / name).symlink_to(precious)
    write_json(path, {"a": [math.nan, math.inf, 1.5]})
    assert json.loads(path.read_text()) == {"a": [None, None, 1.5]}
    assert not path.is_symlink()
    assert precious.read_text() == "mine"


def test_an_error_leaves_the_old_file_and_no_new_one(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write_text(path, "old")

    def interrupted():
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MasklessError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_what_kills_have_left_is_removed_in_time(tmp_path, monkeypatch):
    old, new = (tmp_path / f".x.json.{n}.partial" for n in (1, 2))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    write_text(tmp_path / "x.json", "")
    assert not old.exists()
    assert new.exists()  # another process may be writing it
    monkeypatch.setattr(writing, "_ABANDONED_SECONDS", -1.0)
    write_text(tmp_path / "x.json", "")
    assert not new.exists()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("gymnasium:ALE/Pong-v5", "gymnasium-ALE-Pong-v5"),
        ("masked-kl:strength=20,gamma=1e-05", "masked-kl-strength=20,gamma=1e-05"),
        ("../../etc/passwd", "-..-etc-passwd"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("a\x00b\nc\\d", "a-b-c-d"),
        ("\ud800", "-"),
    ],
)
def test_names_of_files(name, safe):
    assert slug(name) == safe
    assert len(slug(name * 10_000)) < 120
    assert slug("x" * 10_000) != slug("x" * 9_999)


def test_what_a_terminal_would_obey_is_spelled_out():
    assert printable("\x1b[2J\x07") == "\\x1b[2J\\x07"
    assert printable("\u202eevil\u2066\u200f") == "\\u202eevil\\u2066\\u200f"
    assert printable("Zug → 列車\n\t🧑\u200d🚀\u00a0é") == "Zug → 列車\n\t🧑\u200d🚀\u00a0é"
    assert printable("\ud800") == "\\ud800"
    assert printable("x" * 10_000, 10) == "xxxxxxxxx…"
