"""Nothing is lost when writing fails. /dev/full is a disk without space."""

import json
import os

import pytest

from maskless import MasklessError
from maskless.files import output_folder, write_json, writing
from maskless.provenance import provenance
from maskless.report import style


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_json(path, {"run": 1})

    def open_on_a_full_disk(path, flags, *mode):
        os.close(real_open(path, flags, *mode))  # there is room for a name
        return real_open("/dev/full", os.O_WRONLY)

    real_open = os.open
    monkeypatch.setattr(writing.os, "open", open_on_a_full_disk)
    with pytest.raises(MasklessError, match="No space left"):
        write_json(path, {"run": 2})
    assert json.loads(path.read_text()) == {"run": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_figure_that_cannot_be_written_says_so(tmp_path):
    with (
        pytest.raises(MasklessError, match=r"Cannot write .*picture.png"),
        style.figure(tmp_path / "nowhere" / "picture") as (_, axes),
    ):
        axes.plot([1, 2])


def test_the_same_figure_gives_the_same_file(tmp_path):
    for name in ("a", "b"):
        with style.figure(tmp_path / name) as (_, axes):
            axes.plot([1, 2])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_folders_are_tried_before_the_work(tmp_path):
    assert output_folder(tmp_path / "a/b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(MasklessError, match="choose another folder"):
        output_folder(tmp_path / "file" / "below")


def test_provenance_names_versions_device_and_commit(monkeypatch):
    monkeypatch.setenv("MASKLESS_COMMIT", "abc123")
    made = provenance()
    assert made["commit"] == "abc123"
    assert made["device"]
    assert made["versions"]["craftax"].startswith("1.6")
