"""Checks of acting without the oracle: what is kept, by which loss, and what goes with it."""

from collections.abc import Mapping

import numpy as np

from maskless import statistics
from maskless_paper import reported, results
from maskless_paper.claims.check import (
    COLLAPSED,
    RETAINED,
    Check,
    compare,
    enough_seeds,
    is_above,
    unanimous,
    versus,
)
from maskless_paper.study_files import Result

_ENOUGH = 8
"""With fewer runs a rank correlation that is not negative may be chance."""


def orders(result: Result) -> list[Check]:
    """What a deployment depends on: what is kept counts from a tenth of the paper's frames on."""
    kl, focal = (results.returns(result, n, "predicted") for n in ("masked-kl", "masked-focal"))
    learned = {
        name: results.has_learned(result, name) for name in ("masked", "masked-focal", "masked-kl")
    }
    comparable = learned["masked-focal"] and learned["masked-kl"]
    bar = _bar(result)
    checks = [
        compare(
            "masked: less than a third is left without masks",
            results.retained(result, "masked", "none"),
            lambda share: share < COLLAPSED,
            ours="{} of its return",
            decides=learned["masked"] and results.decides(result),
        ),
        compare(
            f"masked-kl keeps at least {100 * bar:.0f} % under predicted masks",
            results.retained(result, "masked-kl"),
            lambda share: share >= bar,
            decides=learned["masked-kl"] and results.decides(result),
        ),
    ]
    if _kl_keeps_more_in_paper(result):
        order = is_above(kl, focal) if comparable else None
        checks.append(Check("and more than masked-focal", versus(kl, focal), order))
    return checks


def _block(result: Result) -> Mapping[str, tuple[float, float]] | None:
    """The paper's own numbers for this game and network."""
    config = result["config"]
    return reported.TABLE.get((config["env"], config["net"]))


def _kl_keeps_more_in_paper(result: Result) -> bool:
    """Not in the corridors, where its own two numbers are the same."""
    block = _block(result)
    return block is None or block["masked-kl"][1] > block["masked-focal"][1]


def _bar(result: Result) -> float:
    """The paper's own share for this game and network, less five points; at most 95 %."""
    block = _block(result)
    if block is None:
        return RETAINED
    oracle, predicted = block["masked-kl"]
    return min(RETAINED, predicted / oracle - 0.05)


def twice_as_good(result: Result) -> list[Check]:
    """KL against focal, as a factor: each seed with the same seed of the other."""
    kl, focal = (results.returns(result, n, "predicted") for n in ("masked-kl", "masked-focal"))
    if kl is None or focal is None:
        return []
    factors = results.cell(a / b for a, b in zip(kl.values, focal.values, strict=True) if b > 0)
    decides = results.decides(result)
    says = "masked-kl returns twice what masked-focal does under predicted masks"
    return [compare(says, factors, lambda factor: factor >= 1.9, decides=decides, ours="{} x")]


def cost_of_deployment(result: Result) -> list[Check]:
    """What masked-kl under its own masks loses against the unmasked agent."""
    kl = results.returns(result, "masked-kl", "predicted")
    unmasked = results.returns(result, "unmasked", "none")
    if kl is None or unmasked is None:
        return []
    says = "masked-kl under predicted masks returns at least 98 % of what unmasked does"
    share = kl.mean / unmasked.mean
    holds = unanimous([a >= 0.975 * max(unmasked.values) for a in kl.values])
    if holds is False and max(kl.values) >= 0.975 * min(unmasked.values):
        holds = None
    decided = results.decides(result) and enough_seeds(kl, unmasked)
    return [Check(says, f"{share:.2f}, {versus(kl, unmasked)}", holds if decided else None)]


def variance(result: Result) -> list[Check]:
    """The spread over seeds of the two losses."""
    kl, focal = (results.returns(result, n, "oracle") for n in ("masked-kl", "masked-focal"))
    if kl is None or focal is None:
        return []
    spreads = [max(cell.values) - min(cell.values) for cell in (focal, kl)]
    ours = f"seeds are {spreads[0]:.2f} apart with focal, {spreads[1]:.2f} with KL"
    enough = len(kl.values) > results.SEEDS
    return [
        Check("masked-focal differs more from seed to seed than masked-kl", ours,
              spreads[0] > spreads[1] if enough else None)
    ]  # fmt: skip


def lower_correlation_keeps_more(result: Result) -> list[Check]:
    """Over the runs of masked conditions with a classifier, at the study's end."""
    action = result["watched"][0]
    points: list[tuple[float, float]] = []
    for name in results.conditions(result):
        kept = results.retained_by_seed(result, name)
        if results.training_masks(name) != "oracle" or not results.has_classifier(name):
            continue
        for log in results.logs(result, name):
            correlation = results.final_mean(log, "feature_correlation", action)
            if correlation is not None and log["seed"] in kept:
                points.append((correlation, kept[log["seed"]][0]))
    x, y = np.array(points).reshape(-1, 2).T
    if not statistics.can_rank(x, y):
        return []
    ranks, chance = statistics.rank_correlation(x, y), statistics.rank_correlation_p(x, y)
    holds = None
    if ranks < 0 and chance < 0.05:
        holds = True
    elif ranks >= 0 and len(points) >= _ENOUGH:
        holds = False
    says = f"the lower the correlation ({action}), the more is kept"
    return [
        Check(says, f"rank correlation {ranks:.2f} of {len(points)} runs, p = {chance:.2g}", holds)
    ]


def never_beyond_unmasked(result: Result) -> list[Check]:
    """Predicted masks against no masks at all."""
    unmasked = results.returns(result, "unmasked", "none")
    checks = []
    for name in ("masked-focal", "masked-kl"):
        ours = results.returns(result, name, "predicted")
        above = is_above(ours, unmasked)
        says = f"`{name}` under predicted masks is not above unmasked"
        holds = None if above is None or not results.decides(result) else not above
        checks.append(Check(says, versus(ours, unmasked), holds))
    return checks
