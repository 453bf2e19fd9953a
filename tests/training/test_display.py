"""The display in a terminal and in a pipe."""

import io
import math

import pytest
from rich.console import Console

from maskless.training.display import TrainingDisplay

CONDITIONS = ["masked", "masked-kl"]
ROWS = {
    "masked": {"return": 1.234, "length": 33.21, "valid_rate": 1.0},
    "masked-kl": {
        **{"return": -0.5, "length": math.nan},
        **{"valid_rate": 0.987, "mask_recall": 0.91, "mask_total_variation": 0.0421},
    },
}


class Clock:
    """Time that passes when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def display(clock, *, terminal, width=100, **options):
    console = Console(file=io.StringIO(), record=True, force_terminal=terminal, width=width)
    total = 1_000_000
    return console, TrainingDisplay("[demo]", total, CONDITIONS, console, clock=clock, **options)


def last_picture(console):
    text = console.export_text()
    return text[text.rindex("[demo]") :].splitlines()


def test_a_terminal_shows_bar_table_and_warnings(clock):
    console, shown = display(clock, terminal=True)
    with shown:
        clock.now = 60.0  # compiling
        shown.update(100_000, ROWS, [])
        clock.now = 70.0
        shown.update(200_000, ROWS, ["descend [is] suppressed"])
        shown.announce("SIGINT: finishing")
    lines = last_picture(console)
    assert lines[0].startswith("[demo] ━")
    assert lines[1] == "200,000/1,000,000 frames  10,000/s  0:01:10  0:01:20 left"
    table = [line.split("  ") for line in lines[2:5]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in table]
    assert cells == [
        ["condition", "return", "episode length", "valid actions", "mask recall", "mask TV"],
        ["masked", "1.23", "33.2", "100.0%", "–", "–"],
        ["masked-kl", "-0.50", "–", "98.7%", "91.0%", "0.042"],
    ]
    assert lines[5:] == ["! descend [is] suppressed", "! SIGINT: finishing"]


def test_a_terminal_says_that_it_compiles(clock):
    console, shown = display(clock, terminal=True)
    with shown:
        clock.now = 3.0
        shown.doing("compiling the updates")
        clock.now = 10.0
    assert "0/1,000,000 frames  compiling the updates for 7 s" in last_picture(console)[1]


def test_a_pipe_hears_at_once_that_something_happens(clock):
    console, shown = display(clock, terminal=False)
    with shown:
        clock.now = 3.0
        shown.doing("compiling the updates")
    assert console.file.getvalue() == "[demo]: compiling the updates, 0:00:03\n"


def test_warnings_that_no_longer_hold_go_away(clock):
    console, shown = display(clock, terminal=True)
    with shown:
        shown.update(1, ROWS, ["trouble"])
        shown.update(2, ROWS, [])
    assert "trouble" not in "\n".join(last_picture(console))


def test_a_narrow_terminal(clock):
    console, shown = display(clock, terminal=True, width=80)
    with shown:
        long = "masked-kl:learning_rate=0.0003,entropy=0.01,predicted_share=0.5"
        shown._conditions = ("masked", long)
        shown.update(999_999, {"masked": ROWS["masked"], long: ROWS["masked-kl"]}, [])
    lines = last_picture(console)
    assert all(len(line) <= 80 for line in lines)
    assert all(number in "".join(lines) for number in ("98.7%", "91.0%", "0.042", "mask TV"))


def test_a_pipe_gets_a_line_now_and_then(clock):
    console, shown = display(clock, terminal=False, seconds_between_lines=10.0)
    with shown:
        for second in range(26):
            clock.now = float(second)
            shown.update(10_000 * (second + 1), ROWS, ["trouble"] if second > 4 else [])
    lines = console.file.getvalue().splitlines()
    assert "\x1b" not in console.file.getvalue()
    assert [line.split()[1] for line in lines if line.startswith("[demo]")] == [
        *("10,000/1,000,000", "110,000/1,000,000", "210,000/1,000,000", "260,000/1,000,000")
    ]
    assert lines[1] == (
        "[demo]: 110,000/1,000,000 frames, 10,000/s, 0:00:10, 0:01:29 left"
        " | masked: return 1.23, episode length 33.2, valid actions 100.0%"
        " | masked-kl: return -0.50, valid actions 98.7%, mask recall 91.0%, mask TV 0.042"
    )
    assert lines.count("warning: trouble") == 1


def test_a_resumed_run_counts_only_its_own_frames(clock):
    console, shown = display(clock, terminal=False, seconds_between_lines=0.0)
    with shown:
        shown.update(500_000, {}, [])
        clock.now = 10.0
        shown.update(600_000, {}, [])
    assert "10,000/s, 0:00:10, 0:00:40 left" in console.file.getvalue().splitlines()[-1]


def test_by_default_on_stderr(capsys):
    with TrainingDisplay("demo", 10, ["masked"]) as shown:
        shown.update(10, {"masked": {"return": 1.0}}, [])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "demo: 10/10 frames" in captured.err
