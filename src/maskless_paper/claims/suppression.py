"""Checks of probabilities and features: is an action suppressed, does it recover, and why?"""

from typing import Any

from maskless_paper import results
from maskless_paper.claims.check import (
    Check,
    Judge,
    between,
    compare,
    every_seed,
    is_above,
    show,
    unanimous,
    versus,
)
from maskless_paper.study_files import Result

_LOWEST: Any = {"form": ".1e", "ours": "lowest {}"}


def suppressed(limit: float, within: int | None = None) -> Judge:
    """The study's first watched action, without masks: tenfold, and below the paper's limit."""

    def judge(result: Result) -> list[Check]:
        action, uniform = result["watched"][0], 1 / len(result["action_names"])
        low = results.lowest(result, "unmasked", action)
        early = low if within is None else results.lowest(result, "unmasked", action, within)
        long_enough = within is None or result["frames"] >= within
        until = "" if within is None else f" within {results.format_frames(within)} frames"
        return [
            compare(
                f"{action} falls at least tenfold below uniform ({uniform:.3f}) without masks",
                low,
                lambda p: p <= uniform / 10,
                **_LOWEST,
            ),
            compare(
                f"below {limit:g}{until}", early, lambda p: p < limit, **_LOWEST, final=long_enough
            ),
        ]

    return judge


def valid_rates(result: Result) -> list[Check]:
    early = results.initial(result, "unmasked", "valid_rate")
    masked = results.final(result, "masked", "valid_rate")
    first = results.cell(log["valid_rate"][0] for log in results.logs(result, "unmasked"))
    uniform = results.cell(log["mean_valid_share"][0] for log in results.logs(result, "unmasked"))
    when = results.format_frames(result["logs"][0]["frames"][0])
    tenth = results.format_frames(0.1 * result["frames"])
    ours = f"{{}} in the first {tenth}; {show(first)} in the first {when}, uniform {show(uniform)}"
    says = "unmasked: fewer than 15 % valid actions early"
    return [
        compare(says, early, lambda rate: rate < 0.15, ours=ours),
        compare("masked: 100 %", masked, lambda rate: rate > 0.9999),
    ]


def first_occurrence(result: Result) -> list[Check]:
    """The paper's own measure: tenfold suppressed at the first valid states, without masks only."""
    checks = []
    for action in result["watched"]:
        for name, says, holds in (
            ("unmasked", "at most a tenth of uniform when first valid", True),
            ("masked", "not so under masks", False),
        ):
            firsts = [results.first_occurrence(log, action) for log in results.logs(result, name)]
            met = [first for first in firsts if first is not None]
            cell = results.cell(first.ratio for first in met)
            when = ", ".join(
                f"{first.ratio:.1g} at {results.format_frames(first.frames)}" for first in met
            )
            answer = every_seed(cell, lambda ratio: ratio <= 0.1)
            checks.append(
                Check(
                    f"{action}, {name}: {says}",
                    when or "never valid",
                    None if answer is None else answer == holds,
                )
            )
    return checks


def masked_probability(result: Result) -> list[Check]:
    action, uniform = result["watched"][0], 1 / len(result["action_names"])
    final = results.final(result, "masked", "probability_valid", action)
    return [
        compare(f"masked: {action} at 0.5 to 1.0", final, lambda p: p >= 0.5),
        compare(
            f"masked: {action} never tenfold below uniform",
            results.lowest(result, "masked", action),
            lambda p: p > uniform / 10,
            form=".2g",
            ours="lowest {}",
        ),
    ]


def recovery(result: Result) -> list[Check]:
    action, long = result["watched"][0], 100_000_000
    spans, recovered = [], []
    for log in results.logs(result, "unmasked"):
        points = results.where_valid(log, action)
        below = [point.frames for point in points if point.probability < 1e-2]
        spans.append(max(below) - min(below) if below else 0)
        recovered.append(bool(below) and points[-1].probability > 1e-2)
    return [
        Check(
            f"{action} stays below 1e-2 for over 100 M frames",
            ", ".join(results.format_frames(span) for span in spans),
            unanimous([span > long for span in spans]) if result["frames"] > long else None,
        ),
        Check(
            "and then recovers",
            f"{sum(recovered)} of {len(recovered)} seeds",
            unanimous(recovered),
        ),
    ]


def unmasked_predictor(result: Result) -> list[Check]:
    name = "unmasked-kl:strength=20"
    low = results.lowest(result, name, "descend")
    probability, correlation = (
        results.final(result, name, metric, "descend")
        for metric in ("probability_valid", "feature_correlation")
    )
    end = result["frames"] >= 150_000_000
    again = "and is above 0.1 again by 150 M frames"
    about = "its correlation falls to about 0.3"
    return [
        compare("descend falls below 1e-3", low, lambda p: p < 1e-3, **_LOWEST, final=end),
        compare(again, probability, lambda p: p > 0.1, form=".2g", final=end),
        compare(about, correlation, between(0.2, 0.4), decides=end),
    ]


def masked_predictor(result: Result) -> list[Check]:
    names = ("masked", "masked-kl:strength=20")
    alone, classifier = (
        results.final(result, name, "feature_correlation", "descend") for name in names
    )
    lower = is_above(alone, classifier)
    return [
        *(
            compare(
                f"`{name}`: descend above 0.1",
                results.lowest(result, name, "descend"),
                lambda p: p > 0.1,
                form=".2g",
                ours="lowest {}",
            )
            for name in names
        ),
        compare("masked: correlation 0.75 to 0.85", alone, between(0.75, 0.85)),
        Check("lower with a classifier", versus(classifier, alone), lower),
        compare(
            "masked: 0.3 to 0.5 where it is invalid",
            results.final(result, "masked", "raw_probability_invalid", "descend"),
            between(0.3, 0.5),
            form=".2g",
        ),
    ]


def lower_where_invalid(result: Result) -> list[Check]:
    """The raw policy's probability of descend where it is invalid."""
    masked, predictor = (
        results.final(result, name, "raw_probability_invalid", "descend")
        for name in ("masked", "masked-kl:strength=20")
    )
    ours = f"{show(predictor, '.1e')} against {show(masked, '.1e')}"
    return [Check("lower with a classifier", ours, is_above(masked, predictor))]


def correlation_begins(result: Result) -> list[Check]:
    first = results.cell(
        next((x for x in log["actions"]["descend"]["feature_correlation"] if x is not None), None)
        for log in results.logs(result, "unmasked-kl:strength=20")
    )
    return [compare("unmasked + predictor: it begins at about 0.75", first, between(0.65, 0.85))]


def correlations(result: Result) -> list[Check]:
    action = result["watched"][0]
    masked, unmasked, kl = (
        results.final(result, name, "feature_correlation", action)
        for name in ("masked", "unmasked", "masked-kl")
    )
    hidden = results.final(result, "masked-kl", "hidden_correlation", action)
    decides = results.decides(result)
    return [
        compare(f"masked: {action} 0.8 to 1.0", masked, lambda r: r >= 0.8, decides=decides),
        compare("unmasked: about 0.3", unmasked, between(0.2, 0.4), decides=decides),
        compare(
            "masked-kl: about 0.4",
            kl,
            between(0.3, 0.5),
            decides=decides,
            ours=f"{{}}; at the actor's last layer {show(hidden)}",
        ),
        Check("masked-kl below masked", versus(kl, masked), is_above(masked, kl)),
    ]


def separation_by_collapse(result: Result) -> list[Check]:
    action = result["watched"][0]
    unmasked = results.final(result, "unmasked", "feature_correlation", action)
    return [
        compare(
            f"unmasked: the features of {action} separate (correlation at most 0.5)",
            unmasked,
            lambda r: r <= 0.5,
            decides=results.decides(result),
        ),
        Check("because the policy collapsed", "no run takes the two apart", None),
    ]
