"""Checks of returns: Table 1, what is left without the oracle, frames and steps to success."""

from maskless_paper import reported, results
from maskless_paper.claims import deployment
from maskless_paper.claims.check import (
    COLLAPSED,
    RETAINED,
    Check,
    between,
    compare,
    enough_seeds,
    is_above,
    once_true,
    show,
    similar,
    unanimous,
    versus,
)
from maskless_paper.plans import LAMBDA
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
    return [*checks, *deployment.orders(result)]


def beyond_oracle(result: Result) -> list[Check]:
    kl, masked = (results.returns(result, n, "oracle") for n in ("masked-kl", "masked"))
    if kl is None or masked is None:
        return []
    says = "masked-kl above masked, both with the oracle"
    return [Check(says, versus(kl, masked), is_above(kl, masked))]


def oracle_helps_predictor(result: Result) -> list[Check]:
    """The paper's ablation under the oracle's masks, and its first quarter."""
    kl, masked = (results.returns(result, n, "oracle") for n in ("masked-kl:strength=20", "masked"))
    early = results.budgets(result)[0]
    sooner, later = (
        results.returns(result, name, results.training_masks(name), early)
        for name in ("masked", "unmasked-kl:strength=20")
    )
    return [
        Check(
            "with the oracle, masked + predictor is above masked",
            versus(kl, masked),
            is_above(kl, masked),
        ),
        Check(
            f"masked learns faster early ({results.format_frames(early)} frames)",
            versus(sooner, later),
            is_above(sooner, later),
        ),
    ]


def diamonds(result: Result) -> list[Check]:
    unmasked = results.achievement(result, "unmasked", "none", "collect_diamond")
    kl = results.achievement(result, "masked-kl", "oracle", "collect_diamond")
    full = results.has_full_budget(result)
    more = None
    if unmasked is not None and kl is not None and enough_seeds(unmasked, kl):
        more = unanimous([a >= 2 * b for a in kl.values for b in unmasked.values])
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
            between(0.05, 0.35),
            decides=results.has_learned(result, "masked"),
        )
    )
    return checks + [
        compare(
            f"`{name}`: the same under predicted masks",
            results.retained(result, name),
            lambda x: x >= RETAINED,
            decides=results.has_learned(result, name) and results.decides(result),
        )
        for name in ("masked-focal", "masked-kl")
    ]


def frames_to_one(result: Result) -> list[Check]:
    shares = reported.SHARE_TO_ONE.get(result["config"]["net"])
    if shares is None:
        return []
    ours = {name: _share_of_frames(result, name) for name in shares}
    same = result["config"]["ppo"]["gae_lambda"] == LAMBDA
    checks = [
        Check(
            f"`{name}`: {_percent(share)} of 2e8 frames",
            _percent(measured := ours[name]),
            None if measured is None or not same else abs(measured - share) <= 0.05,
        )
        for name, share in shares.items()
    ]
    masked, unmasked = (_each_seed(result, name) for name in ("masked", "unmasked"))
    until = result["frames"] / _CORRIDOR_FRAMES
    if None in masked:
        sooner = None
    elif unmasked and not any(unmasked):
        sooner = True  # no order of means, but what every seed did: never is later
    else:
        later = results.cell(until if share is None else share for share in unmasked)
        sooner = is_above(later, results.cell(share for share in masked))
    both = f"{_percent(ours['masked'])} against {_percent(ours['unmasked'])} in {_percent(until)}"
    return [*checks, Check("masked sooner than unmasked", both, sooner)]


def frames_like_masked(result: Result) -> list[Check]:
    """Of masked-kl and masked, until the return is one."""
    kl, masked = (_each_seed(result, name) for name in ("masked-kl", "masked"))
    pairs = [(a, b) for a in kl for b in masked]
    same = [abs(a - b) <= 0.05 for a, b in pairs if a is not None and b is not None]
    says = "masked-kl needs as many frames as masked, within 5 points"
    both = " against ".join(_percent(_share_of_frames(result, n)) for n in ("masked-kl", "masked"))
    return [Check(says, both, unanimous(same) if len(same) == len(pairs) else None)]


def _share_of_frames(result: Result, name: str) -> float | None:
    """Until the return was 0.95, of the paper's budget; None where a seed never reached it."""
    shares = [share for share in _each_seed(result, name) if share is not None]
    all_reached = len(shares) == len(results.logs(result, name))
    return sum(shares) / len(shares) if shares and all_reached else None


def _each_seed(result: Result, name: str) -> list[float | None]:
    frames = [log["frames_to"]["0.95"] for log in results.logs(result, name)]
    return [None if one is None else one / _CORRIDOR_FRAMES for one in frames]


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
            close if long_enough else None,
        ),
        Check(
            "under predicted masks, masked + predictor is like unmasked + predictor",
            versus(masked, unmasked),
            same if long_enough else None,
        ),
        compare(
            "masked alone has nothing left",
            left,
            lambda share: share < COLLAPSED,
            ours=show(alone) + ", {} of its return",
        ),
    ]
