"""Downsampled logs, cells and verdicts against what can be counted by hand."""

import pytest

from maskless_paper import downsampling, results
from maskless_paper.claims import classifier, deployment
from maskless_paper.claims.check import Check, compare, is_above
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
    assert found["history"]["first"]["first_valid_states"] == 10
    assert found["history"]["second"]["first_valid_states"] == 50  # not watched, but known
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
        "standard_error": width / 1.96,
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
    assert found.mean == found.middle == 8.5
    assert results.returns(RESULT, "masked-kl", "predicted", 50).values == (1.0,)
    assert results.returns(RESULT, "masked-focal", "oracle") is None
    assert results.achievement(RESULT, "masked-kl", "oracle", "collect_diamond").mean == 0.5
    assert results.achievement(RESULT, "masked-kl", "oracle", "eat_cow").mean == 0.0


def test_without_a_classifier_predicted_masks_are_none():
    assert results.returns(RESULT, "masked", "predicted").values == (-1.0,)
    assert results.returns(RESULT, "masked", "untrained").values == (3.0,)
    assert results.returns(RESULT, "masked-kl", "untrained") is None


def test_what_is_kept_holds_the_error_of_the_oracle_s_return_too():
    kept = results.retained(RESULT, "masked-kl")
    assert kept.values == (0.9, 0.8)
    # The error of a ratio of 9 and 10, each 0.1 wide: sqrt(0.1^2 + (0.9 * 0.1)^2) / 10
    assert kept.high == pytest.approx(0.9 + 0.01345, abs=2e-4)
    assert kept.low == pytest.approx(0.8 - 0.01281, abs=2e-4)
    (_, (share, error)) = results.retained_by_seed(RESULT, "masked-kl").items()
    assert (share, error[0]) == (1, 0.8)


def test_three_seeds_have_an_interval_over_seeds_and_episodes():
    def study(*means):
        entries = [entry(1, "masked", seed, "oracle", x) for seed, x in enumerate(means)]
        return results.returns({"evaluations": entries}, "masked", "oracle")

    two, three, five = study(1.0, 2.0), study(1.0, 2.0, 3.0), study(0.0, 1.9, 2.0, 2.1, 9.0)
    assert (two.low, two.high) == (0.9, 2.1)  # the widest range that there is
    assert 0.9 < three.low < 1.5 < 2.5 < three.high < 3.1  # the mean of three draws
    assert five.middle == pytest.approx(2.0)  # without the lowest and the highest
    assert five.mean == 3.0


def test_no_order_is_claimed_from_two_seeds():
    two = {"a": cell([0.8, 0.82]), "b": cell([0.95, 0.96]), "c": cell([0.81, 0.94])}
    assert order(two) == "`b` ≳ `c` ≳ `a`"
    three = {name: cell([*one.values, one.mean]) for name, one in two.items()}
    assert order(three) == "`b` > `c` ≳ `a`"
    assert is_above(two["b"], two["a"]) is None
    assert is_above(three["b"], three["a"]) is True
    assert is_above(three["a"], three["b"]) is False
    assert is_above(cell([0.2, 0.2]), cell([0.04, 0.099])) is None  # not even twice as much


def test_seeds_that_disagree_decide_nothing():
    assert compare("p < 1e-4", cell([2.6e-4, 9.2e-5]), lambda p: p < 1e-4).holds is None
    assert compare("p < 1e-4", cell([2.6e-5, 9.2e-5]), lambda p: p < 1e-4).holds is True
    assert compare("p < 1e-4", cell([2.6e-4, 9.2e-4]), lambda p: p < 1e-4).holds is False
    assert compare("p < 1e-4", None, lambda p: p < 1e-4).holds is None


def test_texts():
    assert text(Cell((-1.0,), -1.25, -0.5)) == "−1.0 (−1.2 to −0.5)"
    assert text(cell([0.5])) == "0.5"
    assert text(None) == percent(None) == "–"
    assert percent(cell([0.5, 0.75])) == "62 % (50 to 75)"
    assert results.format_frames(26_214_400) == "26 M"
    assert results.format_frames(1_310_720) == "1.3 M"
    assert results.format_frames(1_024) == "1,024"


@pytest.mark.parametrize(
    ("holds", "missing", "verdict", "said"),
    [
        ([], (), "not run", ""),
        ([], ("other",), "not run", "1 not run"),
        ([None], (), "open", "1 open"),
        ([True, True], (), "reproduced", "2 yes"),
        ([True, None], (), "yes so far", "1 yes, 1 open"),
        ([True, True], ("other",), "yes so far", "2 yes, 1 not run"),
        ([True, False, None], ("other",), "mixed", "1 yes, 1 no, 1 open, 1 not run"),
        ([False, False], (), "not reproduced", "2 no"),
        ([False, None], (), "no so far", "1 no, 1 open"),
    ],
)
def test_verdicts_follow_from_counts(holds, missing, verdict, said):
    claim = Claim("1", "L1", "It is so", "theory", ("theory", *missing), lambda result: ())
    judged = JudgedClaim(claim, {"theory": [Check("so", "so", hold) for hold in holds]}, {})
    assert judged.counts.verdict == verdict
    assert str(judged.counts) == said
    assert judged.missing == missing


@pytest.mark.parametrize(("learned", "holds"), [(10.0, [True, False, None]), (0.1, [None] * 3)])
def test_an_untrained_policy_decides_nothing(learned, holds):
    """That it loses little, or much, without its masks says nothing about the claim."""
    left = {"masked": ("none", 0.1), "masked-kl": ("predicted", 0.8)}
    evaluations = [
        entry(100, name, 0, masks, learned * share)
        for name, other in left.items()
        for masks, share in (("oracle", 1.0), other)
    ]
    study = {"study": "classic-mlp", "scale": "gpu", "frames": 10**9, "evaluations": evaluations}
    study["config"] = {"env": "craftax-classic", "net": "mlp"}
    checks = deployment.orders(study)
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
        (0.5, 1_000, 20),
        (pytest.approx(joined), 4_000, 10),
    ]
    assert results.lowest_point(log, "descend") == (0.5, 1_000, 20)
    everything = results.lowest_point(log, "descend", states=100)
    assert everything == (pytest.approx((20 * 0.5 + 0.001 + 9 * 0.8) / 35), 5_000, 35)
    log["frames"], few = frames[:1], log["actions"]["descend"]
    few |= {"valid_share": [0.002], "probability_valid": [0.25]}
    assert results.lowest_point(log, "descend") == (0.25, 1_000, 2)  # better than nothing
    few |= {"valid_share": [0.0], "probability_valid": [None]}
    assert results.lowest_point(log, "descend") is None


def test_a_first_occurrence_says_over_how_many_states_it_is():
    history = {"first_valid_frames": 1.9999e4, "suppression_ratio": 0.25}
    log = {
        "frames": [10_000, 20_000, 30_000],
        "actions": {"descend": {"valid_share": [0.0, 0.0003, 0.5]}},
        "history": {"descend": history},
    }
    assert results.first_occurrence(log, "descend") == (0.25, 19_999, 3)
    history["first_valid_states"] = 1  # newer studies know better
    assert results.first_occurrence(log, "descend") == (0.25, 19_999, 1)
    history |= {"first_valid_frames": None, "suppression_ratio": None}
    assert results.first_occurrence(log, "descend") is None


def test_what_exact_masks_change_is_shown_beside_what_they_replace():
    def study(rules, frames, returns, torches):
        made = [
            entry(at, name, 0, masks, value, classifier=False)
            | {"achievement_rates": {"eat_cow": 0.9, "place_torch": torches[name]}}
            for at in frames
            for name, masks, value in returns
        ]
        config = {"env": "craftax", "net": "mlp", "env_options": {"rules": rules}}
        config |= {"conditions": list(torches), "seeds": 1, "width": None, "precision": "float32"}
        config["ppo"] = {"anneal": True, "num_envs": 1024, "rnd": False}
        study = "full-mlp" if rules == "paper" else "control-exact-full"
        head = {"study": study, "scale": "gpu", "config": config}
        return head | {"evaluations": made, "frames": frames[-1]}

    wrong = [("unmasked", "none", 17.0), ("masked", "oracle", 16.0)]
    found = {
        "control-exact-full": study("exact", [10, 51], [("masked", "oracle", 22.0)], {"masked": 1}),
        "full-mlp": study("paper", [50, 100], wrong, {"unmasked": 0.75, "masked": 0}),
    }
    returns, achieved = controls.tables(found)
    assert [row[0] for row in returns.rows] == ["51"]  # the only budget that both have
    assert [cell.split()[0] for cell in returns.rows[0][1:]] == ["17.00", "16.00", "22.00"]
    assert achieved.rows[0] == (*("place_torch", "75 %", "0 %", "100 %"),)
    assert achieved.rows[1][0] == "eat_cow"
