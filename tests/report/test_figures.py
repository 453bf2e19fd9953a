"""Figures from rows: the numbers in the lines, and files for whatever the rows lack."""

import json

import numpy as np
import pytest

from maskless import MasklessError
from maskless.conditions import CONDITIONS
from maskless.report import curves, figures
from maskless.report.curves import Run, band
from maskless.report.figures import tracked_actions

from report import synthetic

NAMES = ("noop", "descend", "sometimes", "seldom", "never")


def run(values, *, metric="return", label="masked", step=1000, names=NAMES):
    """A run with one metric, at `step` frames and its multiples."""
    rows = [{"frames": step * n, metric: value} for n, value in enumerate(values, start=1)]
    return Run(label, rows, names)


def at(found, frames):
    return int(np.argmin(np.abs(found.frames - frames)))


def test_a_band_is_mean_and_range_over_seeds():
    found = band([run([1.0, 2.0, 6.0, 0.0]), run([3.0, 2.0, 2.0, 0.0])], "return")
    for frames, low, middle, high in ((1000, 1, 2, 3), (2000, 2, 2, 2), (3000, 2, 4, 6)):
        here = at(found, frames)
        assert found.frames[here] == frames
        assert (found.low[here], found.middle[here], found.high[here]) == (low, middle, high)
    assert found.middle[at(found, 2500)] == pytest.approx(3, abs=0.1)  # straight between rows


def test_a_band_over_three_seeds_is_an_interval_of_their_middle():
    ends = [[0.0, 1.0], [1.0, None], [1.0, 1.0], [2.0, 3.0], [2.0, 1.0], [9.0, 2.0]]
    found = band([run(values) for values in ends], "return")
    first, last = at(found, 1000), at(found, 2000)
    assert found.middle[first] == pytest.approx(1.5)  # without the lowest and the highest
    assert 0 < found.low[first] < 1.5 < found.high[first] < 9
    assert found.middle[last] == pytest.approx(4 / 3)  # of the five that there are
    assert found.low[last] == 1.0


def test_probabilities_have_a_geometric_mean_and_a_floor():
    rows = [[[0.5, 0.01]], [[0.5, 0.0001]], [[0.5, 0.0]]]
    made = [run(values, metric="probability_valid", names=("a", "b")) for values in rows]
    found = band(made[:2], "probability_valid", "b", logarithmic=True)
    np.testing.assert_allclose(found.middle, 1e-3)
    np.testing.assert_allclose(found.high, 1e-2)
    found = band(made[2:], "probability_valid", "b", logarithmic=True)
    np.testing.assert_allclose(found.middle, curves.LOWEST)


def test_what_is_unknown_is_bridged_inside_and_left_out_outside():
    found = band([run([None, 1.0, None, 3.0, None])], "return")
    assert found.frames.min() == pytest.approx(2000, rel=0.01)
    assert found.frames.max() == pytest.approx(4000, rel=0.01)
    assert found.middle[at(found, 3000)] == pytest.approx(2, abs=0.05)
    assert len(band([run([None, None])], "return").frames) == 0
    assert len(band([run([1.0])], "a metric of another version").frames) == 0


def test_a_line_has_a_gap_where_much_is_missing():
    found = band([run([1.0] * 30 + [None] * 30 + [3.0] * 40)], "return")
    assert len(found.frames) >= 198
    assert np.isnan(found.middle[70:110]).all()
    assert set(found.middle[~np.isnan(found.middle)]) >= {1.0, 3.0}
    assert np.isnan(found.middle).sum() < 70
    # Every other row unknown, as when an episode is longer than a rollout: one line.
    assert not np.isnan(band([run([1.0, None] * 5 + [1.0])], "return").middle).any()


def test_many_rows_are_averaged():
    random = np.random.default_rng(0)
    values = random.normal(5, 1, 4000)
    found = band([run(values.tolist())], "return")
    assert len(found.frames) == 200
    np.testing.assert_allclose(found.middle, values.reshape(200, 20).mean(-1), rtol=1e-9)


def test_tracked_are_the_critical_and_the_rarest_valid_actions():
    seen = run([[1.0, 0.3, 0.2, 0.01, 0.0]] * 2, metric="valid_share")
    assert tracked_actions([seen]) == ["descend", "seldom", "sometimes"]
    assert tracked_actions([seen], most=2) == ["descend", "seldom"]
    everything = run([[1.0]], metric="valid_share", names=("only",))
    assert tracked_actions([everything]) == ["only"]


def test_all_figures_are_drawn_from_what_json_gives_back(tmp_path):
    made = [
        Run(run.label, json.loads(json.dumps(run.rows)), run.action_names, run.classifier)
        for run in synthetic.runs(labels=("unmasked", "masked-kl", "my own"), seeds=2, rows=12)
    ]
    paths = figures.draw_all(made, tmp_path)
    assert [path.stem for path in paths] == [
        "returns",
        "valid_rate",
        "probabilities",
        "correlation",
        "classifier",
    ]
    for path in paths:
        assert path.stat().st_size > 5000
        assert path.with_suffix(".svg").stat().st_size > 5000


@pytest.mark.parametrize("values", [[], [None], [0.5], [0.5, None, 0.7]])
def test_short_and_empty_runs_are_drawn_too(values, tmp_path):
    assert len(figures.draw_all([run(values, metric="return")], tmp_path)) == 5


def test_an_image_has_room_for_some_of_thousands_of_actions(tmp_path):
    names = [f"action {number}" for number in range(3000)]
    known = {name: [0.5] * 3000 for name in ("valid_share", "classifier_recall")}
    row = {"frames": 1, "classifier_precision": [0.5] * 3000, "classifier_auroc": [0.5] * 3000}
    figures.draw_classifier([Run("masked-kl", [row | known], names)], tmp_path / "classifier")
    assert "the 200 rarest actions" in (tmp_path / "classifier.svg").read_text()


def test_a_run_without_a_classifier_has_no_figure_of_it(tmp_path):
    made = [Run("unmasked", run([1.0]).rows, NAMES, classifier=False)]
    assert "classifier" not in {path.stem for path in figures.draw_all(made, tmp_path)}


def test_wrong_input_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(MasklessError, match="no run to draw"):
        figures.draw_all([], tmp_path)
    with pytest.raises(MasklessError, match=r"Unknown action 'desend'.*'descend'"):
        figures.draw_probabilities([run([1.0])], tmp_path / "x", actions=["desend"])
    with pytest.raises(MasklessError, match="different actions"):
        figures.draw_returns([run([1.0]), run([1.0], names=("a", "b"))], tmp_path / "x")


def test_a_condition_keeps_its_colour_and_others_take_free_ones():
    labels = ["mine", "masked", "yours"]
    colours = [figures.colour_of(labels, label) for label in labels]
    assert len(set(colours)) == 3
    assert colours[1] == figures.colour_of(["masked"], "masked")


def test_a_colour_means_one_thing():
    """Among labels that are no plain conditions, none has the colour of another meaning."""
    blue, vermilion = figures.COLOURS["masked"], figures.COLOURS["unmasked"]
    kinds = ["oracle masks", "predicted masks", "no masks"]
    assert [figures.colour_of(kinds, kind) for kind in kinds[::2]] == [blue, vermilion]
    half = "masked-loop:predicted_share=0.5"
    assert figures.colour_of(["masked-kl", half], half) == figures.COLOURS["masked-loop"]
    several = ["masked-loop:predicted_share=0.1", "masked-loop", half, "masked-focal"]
    colours = [figures.colour_of(several, name) for name in several]
    assert len(set(colours)) == len(several)
    assert not {blue, vermilion} & set(colours)
    assert colours[1] == figures.COLOURS["masked-loop"]


def test_conditions_side_by_side_have_colours_of_their_own():
    together = [*list(CONDITIONS)[:6], *list(CONDITIONS)[-5:]]
    colours = [figures.colour_of(together, name) for name in together]
    assert len(set(colours)) == len(together)
    # As in the committed figures, and in the paper's order.
    shown = ("masked", "unmasked", "masked-focal", "masked-kl")
    assert [figures.COLOURS[name] for name in shown] == list(figures.style.PALETTE[:4])
