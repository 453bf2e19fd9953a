"""Downsampled logs, cells and verdicts against what can be counted by hand."""

import pytest

from maskless_paper import downsampling, results
from maskless_paper.claims import classifier, returns
from maskless_paper.claims.check import Check
from maskless_paper.claims.claims import Claim
from maskless_paper.claims.verdicts import JudgedClaim
from maskless_paper.results import Cell, cell
from maskless_paper.tables import controls
from maskless_paper.tables.deployment import order
from maskless_paper.tables.table import percent, text


def rows(count):
    """`first` is valid in every second row only; the return rises from 0 to 1."""
    for number in range(count):
        met = number % 2 == 0
        yield {
            "frames": 100 * (number + 1),
            "episodes": 1 + number % 3,
            "return": number / (count - 1),
            "valid_rate": 0.5,
            "valid_share": [0.1 if met else 0.0, 0.5],
            "probability_valid": [0.2 + 0.1 * number if met else None, 0.9],
            "feature_correlation": [None, 0.5],
            "suppression_ratio": [None if number < 4 else 0.25, 1.0],
        }


def downsampled(count, planned=10**9, **options):
    names = ["first", "second"]
    return downsampling.downsample(
        list(rows(count)), names, names[:1], planned_frames=planned, **options
    )


def test_a_short_log_keeps_every_row():
    found = downsampled(6)
    assert found["frames"] == [100, 200, 300, 400, 500, 600]
    assert found["return"] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert found["actions"]["first"]["probability_valid"] == [0.2, None, 0.4, None, 0.6, None]
    assert found["mean_feature_correlation"] == [0.5] * 6
    assert found["mean_valid_share"] == [0.3, 0.25] * 3
    assert found["history"]["first"]["suppression_ratio"] == 0.25
    assert found["history"]["first"]["frames_to_half"] is None
    assert found["entropy"] == [None] * 6  # not measured


def test_a_long_log_is_averaged_by_episodes_and_valid_states(monkeypatch):
    monkeypatch.setattr(downsampling, "POINTS", 2)
    found = downsampled(6)
    assert found["frames"] == [300, 600]
    # episodes 1, 2, 3 of returns 0, 0.2, 0.4
    assert found["return"][0] == pytest.approx((2 * 0.2 + 3 * 0.4) / 6, rel=1e-4)
    # only rows in which it was valid count
    assert found["actions"]["first"]["probability_valid"] == [
        pytest.approx(0.3, rel=1e-4),
        pytest.approx(0.6, rel=1e-4),
    ]


def test_frames_to_a_return_are_of_a_smoothed_one():
    found = downsampled(11, planned=100)  # a window of five frames: one row
    assert found["frames_to"] == {"0.5": 600, "0.9": 1000, "0.95": 1100, "0.99": 1100}
    found = downsampled(11)["frames_to"]  # a window of a million: everything so far
    assert found["0.5"] is None or found["0.5"] > 600
    assert found["0.99"] is None
    # While no episode can have run out of time, all that have ended may be successes.
    found = downsampled(11, planned=100, longest_episode=850)["frames_to"]
    assert found == {"0.5": 900, "0.9": 1000, "0.95": 1100, "0.99": 1100}


def entry(frames, condition, seed, masks, value, *, classifier=True, width=0.1):
    return {
        "frames": frames,
        "condition": condition,
        "seed": seed,
        "masks": masks,
        "classifier": classifier,
        "mean_return": value,
        "low": value - width,
        "high": value + width,
        "achievement_rates": {"collect_diamond": 0.5} if masks == "oracle" else {},
    }


RESULT = {
    "evaluations": [
        *(entry(100, "masked-kl", seed, "oracle", 10.0) for seed in (0, 1)),
        entry(100, "masked-kl", 0, "predicted", 9.0),
        entry(100, "masked-kl", 1, "predicted", 8.0),
        entry(50, "masked-kl", 0, "predicted", 1.0),
        *(
            entry(100, "masked", 0, masks, value, classifier=False)
            for masks, value in (("oracle", 10.0), ("predicted", 3.0), ("none", -1.0))
        ),
    ]
}


def test_cells_hold_all_seeds_and_the_widest_range():
    found = results.returns(RESULT, "masked-kl", "predicted")
    assert found == Cell((9.0, 8.0), 7.9, 9.1)
    assert found.mean == 8.5
    assert results.retained(RESULT, "masked-kl").values == (0.9, 0.8)
    assert results.returns(RESULT, "masked-kl", "predicted", 50).values == (1.0,)
    assert results.returns(RESULT, "masked-focal", "oracle") is None
    assert results.achievement(RESULT, "masked-kl", "oracle", "collect_diamond").mean == 0.5
    assert results.achievement(RESULT, "masked-kl", "oracle", "eat_cow").mean == 0.0


def test_without_a_classifier_predicted_masks_are_none():
    assert results.returns(RESULT, "masked", "predicted").values == (-1.0,)
    assert results.returns(RESULT, "masked", "untrained").values == (3.0,)
    assert results.returns(RESULT, "masked-kl", "untrained") is None


def test_an_order_says_what_is_sure():
    cells = {"a": cell([0.8, 0.82]), "b": cell([0.95, 0.96]), "c": cell([0.81, 0.94])}
    assert order(cells) == "`b` > `c` ≳ `a`"


def test_texts():
    assert text(Cell((-1.0,), -1.25, -0.5)) == "−1.0 (−1.2 to −0.5)"
    assert text(None) == percent(None) == "–"
    assert percent(cell([0.5, 0.75])) == "62 % (50 to 75)"
    assert results.format_frames(26_214_400) == "26 M"
    assert results.format_frames(1_310_720) == "1.3 M"
    assert results.format_frames(1_024) == "1,024"


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ([], "not run yet"),
        ([None], "not run yet"),
        ([True, True], "reproduced"),
        ([True, None], "partly"),
        ([True, False], "partly"),
        ([False, False], "not reproduced"),
        ([False, None], "not reproduced"),
    ],
)
def test_verdicts(holds, verdict):
    claim = Claim("1", "L1", "It is so", "theory", ("theory",), lambda result: ())
    checks = [Check("so", "so", hold) for hold in holds]
    assert JudgedClaim(claim, {"theory": checks}, {}).verdict == verdict


@pytest.mark.parametrize(("learned", "holds"), [(10.0, [True, False, None]), (0.1, [None] * 3)])
def test_an_untrained_policy_decides_nothing(learned, holds):
    """That it loses little, or much, without its masks says nothing about the claim."""
    left = {"masked": ("none", 0.1), "masked-kl": ("predicted", 0.8)}
    evaluations = [
        entry(100, name, 0, masks, learned * share)
        for name, other in left.items()
        for masks, share in (("oracle", 1.0), other)
    ]
    checks = returns.orders({"evaluations": evaluations})
    assert [check.holds for check in checks] == holds


@pytest.mark.parametrize(
    ("accuracy", "frames", "holds"),
    [(0.99, 10**7, True), (0.95, 10**7, None), (0.95, 10**9, False)],
)
def test_an_accuracy_counts_once_it_is_reached_or_the_budget_is_spent(accuracy, frames, holds):
    log = {"condition": "masked-kl", "frames": [frames], "classifier_accuracy": [accuracy]}
    study = {
        "study": "full-mlp",
        "scale": "gpu",
        "frames": frames,
        "config": {"env": "craftax", "conditions": ["masked-kl"]},
        "evaluations": [entry(frames, "masked-kl", 0, "predicted", 1.0)],
        "logs": [log],
    }
    (check,) = classifier.accuracy(study)
    assert check.holds is holds


def test_what_is_late_can_end_before_the_end():
    log = {"frames": [10, 50, 95, 100], "loss": [9.0, 4.0, 2.0, 1.0]}
    assert results.final_mean(log, "loss") == 1.5
    assert results.final_mean(log, "loss", until=50) == 4.0


def test_a_probability_is_a_mean_of_enough_states():
    """One state in which a rare action happened to be unlikely is no suppression."""
    frames = [1_000, 2_000, 3_000, 4_000, 5_000]
    states = [20, 0, 1, 9, 5]  # the last five are too few, and nothing follows
    log = {
        "frames": frames,
        "actions": {
            "descend": {
                "valid_share": [count / 1_000 for count in states],
                "probability_valid": [0.5, None, 0.001, 0.8, 0.0],
            }
        },
    }
    joined = (0.001 + 9 * 0.8) / 10
    assert results.where_valid(log, "descend") == [
        (0.5, 1_000),
        (pytest.approx(joined), 4_000),
    ]
    assert results.lowest_point(log, "descend") == (0.5, 1_000)
    log["frames"], few = frames[:1], log["actions"]["descend"]
    few |= {"valid_share": [0.002], "probability_valid": [0.25]}
    assert results.lowest_point(log, "descend") == (0.25, 1_000)  # better than nothing
    few |= {"valid_share": [0.0], "probability_valid": [None]}
    assert results.lowest_point(log, "descend") is None


def test_what_exact_masks_change_is_shown_beside_what_they_replace():
    def study(rules, frames, returns, torches):
        made = [
            entry(at, name, 0, masks, value, classifier=False)
            | {"achievement_rates": {"eat_cow": 0.9, "place_torch": torches[name]}}
            for at in frames
            for name, masks, value in returns
        ]
        config = {"env": "craftax", "net": "mlp", "env_options": {"rules": rules}}
        config["conditions"] = list(torches)
        return {"config": config, "evaluations": made, "frames": frames[-1], "stands_in": ""}

    wrong = [("unmasked", "none", 17.0), ("masked", "oracle", 16.0)]
    found = {
        "control-exact-full": study("exact", [10, 51], [("masked", "oracle", 22.0)], {"masked": 1}),
        "full-mlp": study("paper", [50, 100], wrong, {"unmasked": 0.75, "masked": 0}),
    }
    returns, achieved = controls.tables(found)
    assert [row[0] for row in returns.rows] == ["51"]  # the only budget that both have
    assert [cell.split()[0] for cell in returns.rows[0][1:]] == ["17.00", "16.00", "22.00"]
    assert achieved.rows[0] == (
        *("place_torch", "75 % (75 to 75)", "0 % (0 to 0)", "100 % (100 to 100)"),
    )
    assert achieved.rows[1][0] == "eat_cow"
