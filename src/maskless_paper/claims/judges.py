"""What our runs say of what the paper says: one function for each kind of claim."""

import dataclasses
from collections.abc import Callable, Mapping

from maskless_paper import results
from maskless_paper.claims import paper
from maskless_paper.results import Cell
from maskless_paper.run import Result
from maskless_paper.tables.suppression import lowest_cell

COLLAPSE = 1 / 3
"""Below this share of its oracle return a policy has collapsed."""
KEPT = 0.95
"""At least this share of the oracle return is kept."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One thing a claim says, and what our runs say of it."""

    says: str
    ours: str
    holds: bool | None
    """None: open, because it was not run, or not for long enough."""


def _cell(cell: Cell | None, form: str = ".2f") -> str:
    if cell is None:
        return "–"
    # `z`: no zero is negative
    mean, low, high = (f"{number:z{form}}" for number in (cell.mean, cell.low, cell.high))
    return mean if low == high else f"{mean} ({low} to {high})"


def _all(cell: Cell | None, test: Callable[[float], bool]) -> bool | None:
    """Whether it is so for every seed."""
    return None if cell is None else all(test(value) for value in cell.values)


def statements(expected: Mapping[str, tuple[str, ...]]) -> Callable[[Result], list[Part]]:
    """Statements of the theory, and the verdicts that agree with the claim."""

    def judge(result: Result) -> list[Part]:
        found = result["statements"]
        return [
            Part(found[name]["claim"], found[name]["verdict"], found[name]["verdict"] in verdicts)
            for name, verdicts in expected.items()
        ]

    return judge


def suppressed(limit: float, within: int | None = None) -> Callable[[Result], list[Part]]:
    """The study's first watched action, without masks: tenfold, and below the paper's limit."""

    def judge(result: Result) -> list[Part]:
        action, uniform = result["watched"][0], 1 / len(result["action_names"])
        low = lowest_cell(result, "unmasked", action)
        early = low if within is None else lowest_cell(result, "unmasked", action, within)
        below = _all(early, lambda p: p < limit)
        if below is False and within is not None and result["frames"] < within:
            below = None  # it may still come
        until = "" if within is None else f" within {results.millions(within)} frames"
        return [
            Part(
                f"{action} falls at least tenfold below uniform ({uniform:.3f}) without masks",
                f"lowest {_cell(low, '.1e')}",
                _all(low, lambda p: p <= uniform / 10),
            ),
            Part(f"below {limit:g}{until}", f"lowest {_cell(early, '.1e')}", below),
        ]

    return judge


def valid_rates(result: Result) -> list[Part]:
    early = [results.early(log, "valid_rate") for log in results.logs(result, "unmasked")]
    masked = results.late_cell(result, "masked", "valid_rate")
    free = results.cell(early)
    return [
        Part("unmasked: fewer than 15 % valid actions early", _cell(free), free.mean < 0.15),
        Part("masked: 100 %", _cell(masked), _all(masked, lambda rate: rate > 0.9999)),
    ]


def masked_probability(result: Result) -> list[Part]:
    action = result["watched"][0]
    late = results.late_cell(result, "masked", "probability_valid", action)
    low, uniform = lowest_cell(result, "masked", action), 1 / len(result["action_names"])
    return [
        Part(f"masked: {action} at 0.5 to 1.0", _cell(late), _all(late, lambda p: p >= 0.5)),
        Part(
            f"masked: {action} never tenfold below uniform",
            f"lowest {_cell(low, '.2g')}",
            _all(low, lambda p: p > uniform / 10),
        ),
    ]


def recovery(result: Result) -> list[Part]:
    action, long = result["watched"][0], 100_000_000
    spans, recovered = [], []
    for log in results.logs(result, "unmasked"):
        known = results.where_valid(log, action)
        below = [frames for p, frames in known if p < 1e-2]
        spans.append(max(below) - min(below) if below else 0)
        recovered.append(bool(below) and known[-1][0] > 1e-2)
    enough = result["frames"] > long
    shown = ", ".join(results.millions(span) for span in spans)
    held = all(span > long for span in spans)
    return [
        Part(f"{action} stays below 1e-2 for over 100 M frames", shown, held if enough else None),
        Part("and then recovers", f"{sum(recovered)} of {len(recovered)} seeds", all(recovered)),
    ]


def unmasked_predictor(result: Result) -> list[Part]:
    name = "unmasked-kl:strength=20"
    low = lowest_cell(result, name, "descend")
    late = results.late_cell(result, name, "probability_valid", "descend")
    similar = results.late_cell(result, name, "feature_correlation", "descend")
    reached = result["frames"] >= 150_000_000
    fell, rose = _all(low, lambda p: p < 1e-3), _all(late, lambda p: p > 0.1)
    return [
        Part(
            "descend falls below 1e-3",
            f"lowest {_cell(low, '.1e')}",
            fell if fell or reached else None,
        ),
        Part(
            "and is above 0.1 again by 150 M frames",
            _cell(late, ".2g"),
            rose if rose or reached else None,
        ),
        Part(
            "its correlation falls to about 0.3",
            _cell(similar),
            _all(similar, lambda r: 0.2 <= r <= 0.4) if reached else None,
        ),
    ]


def masked_predictor(result: Result) -> list[Part]:
    both = ("masked", "masked-kl:strength=20")
    lows = [lowest_cell(result, name, "descend") for name in both]
    similar = [results.late_cell(result, n, "feature_correlation", "descend") for n in both]
    wrong = [results.late_cell(result, n, "raw_probability_invalid", "descend") for n in both]
    known = [cell for cell in similar if cell is not None]
    return [
        *(
            Part(
                f"`{name}`: descend above 0.1",
                f"lowest {_cell(low, '.2g')}",
                _all(low, lambda p: p > 0.1),
            )
            for name, low in zip(both, lows, strict=True)
        ),
        Part(
            "masked: correlation 0.75 to 0.85",
            _cell(similar[0]),
            _all(similar[0], lambda r: 0.75 <= r <= 0.85),
        ),
        Part(
            "lower with a classifier",
            " against ".join(_cell(cell) for cell in reversed(similar)),
            known[1].mean < known[0].mean if len(known) == 2 else None,
        ),
        Part(
            "masked: 0.3 to 0.5 where it is invalid",
            _cell(wrong[0], ".2g"),
            _all(wrong[0], lambda p: 0.3 <= p <= 0.5),
        ),
    ]


def correlations(result: Result) -> list[Part]:
    action = result["watched"][0]
    found = {
        name: results.late_cell(result, name, "feature_correlation", action)
        for name in ("masked", "unmasked", "masked-kl")
    }
    masked, free, kl = found.values()
    lower = None if masked is None or kl is None else masked.above(kl)
    return [
        Part(f"masked: {action} 0.8 to 1.0", _cell(masked), _all(masked, lambda r: r >= 0.8)),
        Part("unmasked: about 0.3", _cell(free), _all(free, lambda r: 0.2 <= r <= 0.4)),
        Part("masked-kl: about 0.4", _cell(kl), _all(kl, lambda r: 0.3 <= r <= 0.5)),
        Part("masked-kl below masked", f"{_cell(kl)} against {_cell(masked)}", lower),
    ]


def table_one(result: Result) -> list[Part]:
    """A block of Table 1: the numbers at the full budget, their order at any."""
    config = result["config"]
    theirs = paper.TABLE.get((config["env"], config["net"]))
    if theirs is None:
        return []
    parts = []
    for name, (oracle, predicted) in theirs.items():
        masks = "none" if name == "unmasked" else "oracle"
        ours = [results.returns(result, name, masks), results.returns(result, name, "predicted")]
        near = [
            cell is not None and abs(cell.mean - wanted) <= 0.05 * abs(oracle)
            for cell, wanted in zip(ours, (oracle, predicted), strict=True)
        ]
        parts.append(
            Part(
                f"`{name}`: {oracle} with the oracle, {predicted} without",
                ", ".join(_cell(cell) for cell in ours),
                all(near) if _whole(result) else None,
            )
        )
    return [*parts, *orders(result)]


def _whole(result: Result) -> bool:
    """Whether it was trained for as long as in the paper."""
    corridor = result["config"]["env"].startswith("corridor")
    return result["frames"] >= 0.99 * (200_000_000 if corridor else 1_000_000_000)


def orders(result: Result) -> list[Part]:
    """What a deployment depends on, whatever the budget."""
    collapsed = results.kept(result, "masked", "none")
    kl, focal = (results.returns(result, n, "predicted") for n in ("masked-kl", "masked-focal"))
    keeps = results.kept(result, "masked-kl")
    order = None
    learned = {
        name: results.learned(result, name) for name in ("masked", "masked-focal", "masked-kl")
    }
    if kl is not None and focal is not None and learned["masked-focal"] and learned["masked-kl"]:
        order = True if kl.above(focal) else False if focal.above(kl) else None
    return [
        Part(
            "masked: less than a third is left without masks",
            f"{_cell(collapsed)} of its return",
            _all(collapsed, lambda share: share < COLLAPSE) if learned["masked"] else None,
        ),
        Part(
            "masked-kl keeps at least 95 % under predicted masks",
            _cell(keeps),
            _all(keeps, lambda share: share >= KEPT) if learned["masked-kl"] else None,
        ),
        Part("and more than masked-focal", f"{_cell(kl)} against {_cell(focal)}", order),
    ]


def beyond(result: Result) -> list[Part]:
    kl, masked = (results.returns(result, n, "oracle") for n in ("masked-kl", "masked"))
    if kl is None or masked is None:
        return []
    higher = True if kl.above(masked) else False if masked.above(kl) else None
    return [
        Part(
            "masked-kl above masked, both with the oracle",
            f"{_cell(kl)} against {_cell(masked)}",
            higher,
        )
    ]


def diamonds(result: Result) -> list[Part]:
    free = results.achievement(result, "unmasked", "none", "collect_diamond")
    kl = results.achievement(result, "masked-kl", "oracle", "collect_diamond")
    full = result["frames"] >= 990_000_000
    more = None if free is None or kl is None else kl.mean >= 2 * free.mean
    return [
        Part(
            "unmasked: about 20 %",
            _cell(free),
            _all(free, lambda x: 0.1 <= x <= 0.3) if full else None,
        ),
        Part(
            "masked-kl: about 60 %",
            _cell(kl),
            _all(kl, lambda x: 0.5 <= x <= 0.7) if full else None,
        ),
        Part("masked-kl at least twice as often", f"{_cell(kl)} against {_cell(free)}", more),
    ]


def corridor_returns(result: Result) -> list[Part]:
    parts = []
    for name in ("unmasked", "masked", "masked-focal", "masked-kl"):
        masks = "none" if name == "unmasked" else "oracle"
        ours = results.returns(result, name, masks)
        there = _all(ours, lambda x: x >= 0.85)
        # What is not there yet may come: the paper trained for 2e8 frames.
        late = result["frames"] >= 0.99 * 200_000_000
        parts.append(Part(f"`{name}`: at least 0.9", _cell(ours), there if there or late else None))
    alone = results.returns(result, "masked", "none")
    low = _all(alone, lambda x: x <= 0.35) if results.learned(result, "masked") else None
    parts.append(Part("masked, without masks: 0.1 to 0.3", _cell(alone), low))
    for name in ("masked-focal", "masked-kl"):
        keeps = results.kept(result, name)
        same = _all(keeps, lambda x: x >= KEPT) if results.learned(result, name) else None
        parts.append(Part(f"`{name}`: the same under predicted masks", _cell(keeps), same))
    return parts


def frames_to_one(result: Result) -> list[Part]:
    shares = paper.SHARE_TO_ONE.get(result["config"]["net"])
    if shares is None:
        return []
    ours: dict[str, float | None] = {}
    for name in shares:
        seeds = [log["frames_to"]["0.95"] for log in results.logs(result, name)]
        known = [frames for frames in seeds if frames is not None]
        ours[name] = sum(known) / len(known) / 200_000_000 if len(known) == len(seeds) else None
    parts = []
    for name, wanted in shares.items():
        mine = ours[name]
        near = None if mine is None else abs(mine - wanted) <= 0.05
        parts.append(Part(f"`{name}`: {_share(wanted)} of 2e8 frames", _share(mine), near))
    masked, free = ours["masked"], ours["unmasked"]
    sooner = None if masked is None or free is None else masked < free
    both = f"{_share(masked)} against {_share(free)}"
    return [*parts, Part("masked sooner than unmasked", both, sooner)]


def _share(share: float | None) -> str:
    return "not reached" if share is None else f"{100 * share:.0f} %"


def lengths(result: Result) -> list[Part]:
    wanted = paper.LENGTH.get(result["config"]["net"], {})
    parts = []
    for name, length in wanted.items():
        masks = "none" if name == "unmasked" else "oracle"
        ours = results.number(result, name, masks, "length")
        near = None
        if ours is not None and results.learned(result, name):
            near = all(abs(x / length - 1) <= 0.1 for x in ours.values)
            # Episodes become shorter as long as there is something to learn.
            shorter_later = min(ours.values) > length and result["frames"] < 0.99 * 200_000_000
            near = near or (None if shorter_later else False)
        parts.append(Part(f"`{name}`: {length:.0f} steps", _cell(ours, ".0f"), near))
    return parts


def accuracy(result: Result) -> list[Part]:
    """Once reached it stays; before the paper's budget it may yet be reached."""
    parts = []
    for name in results.conditions(result):
        if results.has_classifier(result, name) and "kl" in name:
            ours = results.late_cell(result, name, "classifier_accuracy")
            holds = _all(ours, lambda x: x >= 0.985)
            decided = holds or _whole(result)
            parts.append(Part(f"`{name}`: 99 %", _cell(ours, ".4f"), holds if decided else None))
    return parts


def strengths(result: Result) -> list[Part]:
    names = results.conditions(result)
    oracle = {name: results.returns(result, name, "oracle") for name in names}
    means = [cell.mean for cell in oracle.values() if cell is not None]
    accuracy = {n: results.late_cell(result, n, "classifier_accuracy") for n in names}
    keeps = {name: results.kept(result, name) for name in names}
    weak = [f"masked-kl:strength={x}" for x in ("0.1", "1")]
    strong = [name for name in names if name not in weak]
    exact = [_all(accuracy[name], lambda x: x > 0.98) for name in strong]
    near = [_all(keeps[name], lambda x: x >= KEPT) for name in strong]
    spread = (max(means) - min(means)) / abs(max(means))
    shown = ", ".join(f"λ = {n.partition('=')[2]}: {_cell(keeps[n])}" for n in names)
    return [
        Part(
            "the return hardly depends on λ (within 7 %)", f"{100 * spread:.0f} %", spread <= 0.07
        ),
        Part(
            "accuracy about 97 % at 0.1",
            _cell(accuracy[weak[0]], ".4f"),
            _all(accuracy[weak[0]], lambda x: 0.96 <= x <= 0.98),
        ),
        Part(
            "accuracy above 98 % from 5 on",
            ", ".join(_cell(accuracy[name], ".4f") for name in strong),
            None if None in exact else all(exact),
        ),
        Part(
            "from 5 on, 95 % are kept under predicted masks",
            shown,
            None if None in near else all(near),
        ),
    ]


def ablation(result: Result) -> list[Part]:
    names = ("unmasked-kl:strength=20", "masked", "masked-kl:strength=20")
    trained = [
        results.returns(result, name, "none" if "unmasked" in name else "oracle") for name in names
    ]
    means = [cell.mean for cell in trained if cell is not None]
    close = (max(means) - min(means)) / abs(max(means)) <= 0.07 if len(means) == 3 else None
    free, alone, both = (results.returns(result, name, "predicted") for name in names)
    similar = None
    if free is not None and both is not None:
        similar = abs(free.mean - both.mean) <= 0.07 * abs(free.mean)
    collapsed = results.kept(result, "masked", "none")
    reached = result["frames"] >= 400_000_000
    return [
        Part(
            "all three end at a similar return",
            ", ".join(_cell(cell) for cell in trained),
            close if close or reached else None,
        ),
        Part(
            "under predicted masks, masked + predictor is like unmasked + predictor",
            f"{_cell(both)} against {_cell(free)}",
            similar if similar or reached else None,
        ),
        Part(
            "masked alone has nothing left",
            f"{_cell(alone)}, {_cell(collapsed)} of its return",
            _all(collapsed, lambda share: share < COLLAPSE),
        ),
    ]


def valid_shares(low: float, high: float) -> Callable[[Result], list[Part]]:
    def judge(result: Result) -> list[Part]:
        curves = [x for log in result["logs"] for x in log["mean_valid_share"] if x is not None]
        shown = f"{100 * min(curves):.0f} to {100 * max(curves):.0f} %"
        inside = min(curves) >= low - 0.02 and max(curves) <= high + 0.02
        says = f"{100 * low:.0f} to {100 * high:.0f} % of the actions are valid, on the average"
        return [Part(says, shown, inside)]

    return judge


def dimensions(size: int | None, actions: int) -> Callable[[Result], list[Part]]:
    def judge(result: Result) -> list[Part]:
        parts = [
            Part(
                f"{actions} actions",
                str(len(result["action_names"])),
                len(result["action_names"]) == actions,
            )
        ]
        if size is not None:
            ours = result["observation_size"]
            parts.append(Part(f"{size} numbers in an observation", str(ours), ours == size))
        return parts

    return judge
