"""Nothing is lost when writing fails. /dev/full is a disk without space."""

import json

import pytest

from maskless import MasklessError
from maskless.files import output_folder, write_json
from maskless.provenance import provenance
from maskless.report import style


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.json"
    write_json(path, {"run": 1})
    (tmp_path / ".result.json.partial").symlink_to("/dev/full")
    with pytest.raises(MasklessError, match="No space left"):
        write_json(path, {"run": 2})
    assert json.loads(path.read_text()) == {"run": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_figure_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "picture.png").symlink_to("/dev/full")
    with (
        pytest.raises(MasklessError, match="Cannot write the figure"),
        style.figure(tmp_path / "picture") as (_, axes),
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
