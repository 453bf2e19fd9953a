"""What cannot be printed costs a line, and nothing else."""

import io
import os
import sys

import pytest

from maskless.console import SafeConsole


def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w", encoding="utf-8")


def full_disk():
    return open("/dev/full", "w", encoding="utf-8")


def closed_file():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("broken", [closed_pipe, full_disk, closed_file])
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_takes_nothing(broken, name, monkeypatch):
    stream = broken()
    monkeypatch.setattr(sys, name, stream)
    console = SafeConsole(name)
    for _ in range(3000):  # more than any buffer holds
        console.print("[bold]lines[/] · and lines")
    assert isinstance(console.finish(), OSError | ValueError)
    monkeypatch.undo()
    if not stream.closed:
        with pytest.raises(OSError, match=r"Broken pipe|No space"):
            stream.close()


def test_a_character_that_the_encoding_lacks(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console = SafeConsole("stdout")
    console.print("π · 0.5")
    assert console.finish() is None
    assert raw.getvalue() == b"? ? 0.5\n"


def test_no_stream_at_all(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    console = SafeConsole("stdout")
    console.print("into the void")
    assert console.finish() is None


def test_what_arrives_is_as_it_was(capsys):
    SafeConsole("stdout").print("π · 0.5")
    assert capsys.readouterr().out == "π · 0.5\n"
