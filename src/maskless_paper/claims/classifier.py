"""Checks of the classifier and its weight, of the games' sizes, and of the theory."""

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
    relative_spread,
    show,
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
    accurate = [every_seed(accuracy[x], lambda value: value > 0.98) for x in strong]
    near = [every_seed(retained[x], lambda share: share >= RETAINED) for x in strong]
    spread = relative_spread([cell.mean for cell in oracle if cell is not None])
    return [
        Check(
            "the return hardly depends on λ (within 7 %)",
            f"{100 * spread:.0f} %",
            spread <= SIMILAR,
        ),
        compare("accuracy about 97 % at 0.1", accuracy[0.1], between(0.96, 0.98), form=".4f"),
        Check(
            "accuracy above 98 % from 5 on",
            ", ".join(show(accuracy[x], ".4f") for x in strong),
            None if None in accurate else all(accurate),
        ),
        Check(
            "from 5 on, 95 % are kept under predicted masks",
            ", ".join(f"λ = {x:g}: {show(cell)}" for x, cell in retained.items()),
            None if None in near else all(near),
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
