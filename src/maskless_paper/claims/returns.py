"""Checks of returns: Table 1, what is left without the oracle, frames and steps to success."""

from maskless_paper import reported, results
from maskless_paper.claims.check import (
    COLLAPSED,
    RETAINED,
    Check,
    between,
    compare,
    once_true,
    show,
    similar,
    surely_above,
    versus,
)
from maskless_paper.studies import PAPER_CONDITIONS, WORLDS
from maskless_paper.study_files import Result

_CORRIDOR_FRAMES = WORLDS["corridor"].frames["paper"]


def table_one(result: Result) -> list[Check]:
    """A block of Table 1: the numbers at the full budget, their order at any."""
    config = result["config"]
    block = reported.TABLE.get((config["env"], config["net"]))
    if block is None:
        return []
    checks = []
    for name, (oracle, predicted) in block.items():
        masks = (results.training_masks(name), "predicted")
        ours = [results.returns(result, name, kind) for kind in masks]
        near = [
            cell is not None and abs(cell.mean - expected) <= 0.05 * abs(oracle)
            for cell, expected in zip(ours, (oracle, predicted), strict=True)
        ]
        checks.append(
            Check(
                f"`{name}`: {oracle} with the oracle, {predicted} without",
                ", ".join(show(cell) for cell in ours),
                all(near) if results.has_full_budget(result) else None,
            )
        )
    return [*checks, *orders(result)]


def orders(result: Result) -> list[Check]:
    """What a deployment depends on, whatever the budget."""
    kl, focal = (results.returns(result, n, "predicted") for n in ("masked-kl", "masked-focal"))
    learned = {
        name: results.has_learned(result, name) for name in ("masked", "masked-focal", "masked-kl")
    }
    comparable = learned["masked-focal"] and learned["masked-kl"]
    return [
        compare(
            "masked: less than a third is left without masks",
            results.retained(result, "masked", "none"),
            lambda share: share < COLLAPSED,
            ours="{} of its return",
            decides=learned["masked"],
        ),
        compare(
            "masked-kl keeps at least 95 % under predicted masks",
            results.retained(result, "masked-kl"),
            lambda share: share >= RETAINED,
            decides=learned["masked-kl"],
        ),
        Check(
            "and more than masked-focal",
            versus(kl, focal),
            surely_above(kl, focal) if comparable else None,
        ),
    ]


def beyond_oracle(result: Result) -> list[Check]:
    kl, masked = (results.returns(result, n, "oracle") for n in ("masked-kl", "masked"))
    if kl is None or masked is None:
        return []
    says = "masked-kl above masked, both with the oracle"
    return [Check(says, versus(kl, masked), surely_above(kl, masked))]


def diamonds(result: Result) -> list[Check]:
    unmasked = results.achievement(result, "unmasked", "none", "collect_diamond")
    kl = results.achievement(result, "masked-kl", "oracle", "collect_diamond")
    full = results.has_full_budget(result)
    more = None if unmasked is None or kl is None else kl.mean >= 2 * unmasked.mean
    return [
        compare("unmasked: about 20 %", unmasked, between(0.1, 0.3), decides=full),
        compare("masked-kl: about 60 %", kl, between(0.5, 0.7), decides=full),
        Check("masked-kl at least twice as often", versus(kl, unmasked), more),
    ]


def corridor_returns(result: Result) -> list[Check]:
    checks = []
    for name in PAPER_CONDITIONS:
        ours = results.returns(result, name, results.training_masks(name))
        final = results.has_full_budget(result)
        checks.append(compare(f"`{name}`: at least 0.9", ours, lambda x: x >= 0.85, final=final))
    checks.append(
        compare(
            "masked, without masks: 0.1 to 0.3",
            results.returns(result, "masked", "none"),
            lambda x: x <= 0.35,
            decides=results.has_learned(result, "masked"),
        )
    )
    return checks + [
        compare(
            f"`{name}`: the same under predicted masks",
            results.retained(result, name),
            lambda x: x >= RETAINED,
            decides=results.has_learned(result, name),
        )
        for name in ("masked-focal", "masked-kl")
    ]


def frames_to_one(result: Result) -> list[Check]:
    shares = reported.SHARE_TO_ONE.get(result["config"]["net"])
    if shares is None:
        return []
    ours = {name: _share_of_frames(result, name) for name in shares}
    checks = [
        Check(
            f"`{name}`: {_percent(share)} of 2e8 frames",
            _percent(measured := ours[name]),
            None if measured is None else abs(measured - share) <= 0.05,
        )
        for name, share in shares.items()
    ]
    masked, unmasked = ours["masked"], ours["unmasked"]
    sooner = None if masked is None or unmasked is None else masked < unmasked
    both = f"{_percent(masked)} against {_percent(unmasked)}"
    return [*checks, Check("masked sooner than unmasked", both, sooner)]


def _share_of_frames(result: Result, name: str) -> float | None:
    """Until the return was 0.95, of the paper's budget; None where a seed never reached it."""
    frames = [log["frames_to"]["0.95"] for log in results.logs(result, name)]
    return None if None in frames else sum(frames) / len(frames) / _CORRIDOR_FRAMES


def _percent(share: float | None) -> str:
    return "not reached" if share is None else f"{100 * share:.0f} %"


def lengths(result: Result) -> list[Check]:
    checks = []
    for name, length in reported.LENGTH.get(result["config"]["net"], {}).items():
        ours = results.metric(result, name, results.training_masks(name), "length")
        near = None
        if ours is not None and results.has_learned(result, name):
            near = all(abs(x / length - 1) <= 0.1 for x in ours.values)
            # Episodes become shorter as long as there is something to learn.
            may_fall = min(ours.values) > length and not results.has_full_budget(result)
            near = once_true(near, not may_fall)
        checks.append(Check(f"`{name}`: {length:.0f} steps", show(ours, ".0f"), near))
    return checks


def ablation(result: Result) -> list[Check]:
    names = ("unmasked-kl:strength=20", "masked", "masked-kl:strength=20")
    trained = [results.returns(result, name, results.training_masks(name)) for name in names]
    means = [cell.mean for cell in trained if cell is not None]
    close = similar(means) if len(means) == len(names) else None
    unmasked, alone, masked = (results.returns(result, name, "predicted") for name in names)
    same = None
    if unmasked is not None and masked is not None:
        same = abs(unmasked.mean - masked.mean) <= 0.07 * abs(unmasked.mean)
    left = results.retained(result, "masked", "none")
    long_enough = result["frames"] >= 400_000_000
    return [
        Check(
            "all three end at a similar return",
            ", ".join(show(cell) for cell in trained),
            once_true(close, long_enough),
        ),
        Check(
            "under predicted masks, masked + predictor is like unmasked + predictor",
            versus(masked, unmasked),
            once_true(same, long_enough),
        ),
        compare(
            "masked alone has nothing left",
            left,
            lambda share: share < COLLAPSED,
            ours=show(alone) + ", {} of its return",
        ),
    ]
