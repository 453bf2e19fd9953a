"""Checks of the classifier and its weight, of the games' sizes, and of the theory."""

from collections.abc import Sequence

from maskless.conditions import condition
from maskless_paper import results
from maskless_paper.claims.check import (
    RETAINED,
    SIMILAR,
    Check,
    Judge,
    between,
    compare,
    every_seed,
    is_above,
    relative_spread,
    show,
    unanimous,
)
from maskless_paper.study_files import Result


def accuracy(result: Result) -> list[Check]:
    """Of the KL-balanced conditions. Once reached it stays; before the paper's budget it may yet
    be reached."""
    checks = []
    for name in results.conditions(result):
        if results.has_classifier(name) and condition(name).kl_share == 1:
            ours = results.final(result, name, "classifier_accuracy")
            final = results.has_full_budget(result)
            checks.append(
                compare(f"`{name}`: 99 %", ours, lambda x: x >= 0.985, form=".4f", final=final)
            )
    return checks


def strengths(result: Result) -> list[Check]:
    names = {condition(name).strength: name for name in results.conditions(result)}
    oracle = [results.returns(result, name, "oracle") for name in names.values()]
    accuracy = {x: results.final(result, n, "classifier_accuracy") for x, n in names.items()}
    retained = {x: results.retained(result, name) for x, name in names.items()}
    strong = [strength for strength in names if strength >= 5]
    spread = relative_spread([cell.mean for cell in oracle if cell is not None])
    decides = results.decides(result)  # of another game, neither a yes nor a no counts
    accurate = unanimous_of([every_seed(accuracy[x], lambda value: value > 0.98) for x in strong])
    near = unanimous_of([every_seed(retained[x], lambda share: share >= RETAINED) for x in strong])
    return [
        Check(
            "the return hardly depends on λ (within 7 %)",
            f"{100 * spread:.0f} %",
            spread <= SIMILAR if decides else None,
        ),
        compare(
            "accuracy about 97 % at 0.1",
            accuracy[0.1],
            between(0.96, 0.98),
            form=".4f",
            decides=decides,
        ),
        Check(
            "accuracy above 98 % from 5 on",
            ", ".join(show(accuracy[x], ".4f") for x in strong),
            accurate if decides else None,
        ),
        Check(
            "from 5 on, 95 % are kept under predicted masks",
            ", ".join(f"λ = {x:g}: {show(cell)}" for x, cell in retained.items()),
            near if decides else None,
        ),
    ]


def unanimous_of(answers: Sequence[bool | None]) -> bool | None:
    """What all say; None where one is open or they disagree."""
    known = [answer for answer in answers if answer is not None]
    return unanimous(known) if known and len(known) == len(answers) else None


def strengths_help(result: Result) -> list[Check]:
    """Higher weights under the oracle's masks, and the classification loss."""
    names = {condition(name).strength: name for name in results.conditions(result)}
    returns = {x: results.returns(result, name, "oracle") for x, name in names.items()}
    losses = {x: results.final(result, n, "classification_loss") for x, n in names.items()}
    strong, weak = (
        [cell for x, cell in returns.items() if cell is not None and (x >= 5) == high]
        for high in (True, False)
    )
    orders = [is_above(one, other) for one in strong for other in weak]
    decides = results.decides(result)
    low = unanimous_of([every_seed(losses[x], lambda loss: loss < 0.2) for x in names if x >= 5])
    return [
        Check(
            "with the oracle, λ of 5 and more return more than 0.1 and 1",
            ", ".join(f"λ = {x:g}: {show(cell)}" for x, cell in returns.items()),
            unanimous_of(orders) if decides else None,
        ),
        Check(
            "the classification loss is below 0.2 from 5 on",
            ", ".join(f"λ = {x:g}: {show(cell, '.1e')}" for x, cell in losses.items()),
            low if decides else None,
        ),
    ]


def valid_shares(low: float, high: float) -> Judge:
    """How many of the actions are valid, at every point of every log."""

    def judge(result: Result) -> list[Check]:
        shares = [x for log in result["logs"] for x in log["mean_valid_share"] if x is not None]
        return [
            Check(
                f"{100 * low:.0f} to {100 * high:.0f} % of the actions are valid, on the average",
                f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %",
                min(shares) >= low - 0.02 and max(shares) <= high + 0.02,
            )
        ]

    return judge


def dimensions(observation: int | None, actions: int) -> Judge:
    """The sizes of a game; None: the paper does not say."""

    def judge(result: Result) -> list[Check]:
        size, count = result["observation_size"], len(result["action_names"])
        checks = [Check(f"{actions} actions", str(count), count == actions)]
        if observation is not None:
            says = f"{observation} numbers in an observation"
            checks.append(Check(says, str(size), size == observation))
        return checks

    return judge


def statements_hold(*names: str) -> Judge:
    """Statements of the theory, which the claim takes to be true as printed."""

    def judge(result: Result) -> list[Check]:
        statements = [result["statements"][name] for name in names]
        return [Check(s["claim"], s["verdict"], s["verdict"] == "holds") for s in statements]

    return judge
