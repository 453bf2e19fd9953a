"""The warning names the right actions, since the right frame, and stops when they recover."""

import dataclasses
import json

import numpy as np
import pytest

from maskless import MasklessError
from maskless.diagnostics.suppression_warning import (
    SuppressionWatch,
    suppressed_actions,
    warning_lines,
)

NAMES = ("noop", "descend", "open_door", "never")
LOW, FINE = 0.01, 0.1  # a tenth of uniform is 0.025


def row(frames, descend, open_door=FINE, share=0.01):
    """noop is rightly never chosen: it is valid everywhere."""
    return {
        "frames": frames,
        "probability_valid": [1e-6, descend, open_door, None],
        "valid_share": [1.0, share, 0.2, 0.0],
    }


def test_names_the_action_and_since_when():
    rows = [row(100, FINE), row(200, LOW), row(300, None), row(400, LOW / 10)]
    (found,) = suppressed_actions(rows, NAMES)
    assert (found.action, found.since_frames) == ("descend", 200)
    assert (found.probability, found.uniform, found.valid_share) == (LOW / 10, 0.25, 0.01)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["action"] == "descend"
    said = found.sentence
    assert "descend" in said
    assert "250 times less than uniform" in said
    assert "since 200 frames" in said
    assert "1 % of states" in said


def test_recovery_ends_it_and_a_relapse_begins_anew():
    watch = SuppressionWatch(NAMES)
    assert watch.update(row(100, LOW))
    assert watch.update(row(200, FINE)) == []
    assert watch.update(row(300, float("nan"))) == []
    (found,) = watch.update(row(400, LOW))
    assert found.since_frames == 400
    np.testing.assert_equal(watch.since_frames, [np.nan, 400, np.nan, np.nan])


def test_what_is_mostly_valid_or_never_valid_is_not_suppressed():
    assert suppressed_actions([row(100, LOW, share=0.6)], NAMES) == []
    assert suppressed_actions([], NAMES) == []
    assert warning_lines([]) == []


def test_the_worst_come_first_and_the_rest_is_counted():
    found = suppressed_actions([row(100, 2e-3, open_door=0.0)], NAMES)
    assert [one.action for one in found] == ["open_door", "descend"]
    assert "infinitely less" in found[0].sentence
    worst, more, advice = warning_lines(found, most=1)
    assert worst == found[0].sentence
    assert more == "1 more suppressed: descend."
    assert "--conditions masked-focal" in advice


def test_rows_of_another_environment_are_refused():
    with pytest.raises(MasklessError, match="action names of the same run"):
        suppressed_actions([row(1, FINE)], ("left", "right"))
