"""Numbers of what masks are worth: the paper's, right ones, and none."""

from collections.abc import Iterable
from typing import Any

from maskless_paper import results
from maskless_paper.numbers.query import (
    MILLION,
    Files,
    Number,
    each,
    each_percent,
    percent,
    together,
)

TRIAL = "earlier/masks-in-classic.json"


def numbers(files: Files) -> dict[str, Number]:
    return {**_full(files), **_classic(files), **_audit(files)}


def _full(files: Files) -> dict[str, Number]:
    """Returns in the full game."""
    paper, exact = files["full-mlp"], files["control-exact-full"]
    names = results.conditions(paper.result)

    def mean(million: int, name: str) -> str:
        study = exact if name == "exact" else paper
        condition = "unmasked" if name == "none" else "masked"
        return f"{study.returns(condition, '', million * MILLION).mean:.1f}"

    def opened(name: str) -> str:
        masks = results.training_masks(name)
        found = results.achievement(paper.result, name, masks, "open_chest")
        return "–" if found is None else each_percent(found, 1)

    def put_on() -> str:
        """What an unmasked agent loses under the paper's masks."""
        pairs = zip(
            paper.returns("unmasked").values,
            paper.returns("unmasked", "oracle").values,
            strict=True,
        )
        return together(f"{without - under:.1f}" for without, under in pairs)

    return {
        "exact-50": lambda: mean(50, "exact"),
        "paper-50": lambda: mean(50, "paper"),
        "none-50": lambda: mean(50, "none"),
        "paper-25": lambda: mean(25, "paper"),
        "none-25": lambda: mean(25, "none"),
        "paper-100": lambda: each(paper.returns("masked")),
        "none-100": lambda: each(paper.returns("unmasked")),
        "exact-50-seeds": lambda: each(exact.returns("masked")),
        "best-paper-100": lambda: f"{max(max(paper.returns(one).values) for one in names):.1f}",
        "exact-lower": lambda: percent(
            1 - paper.returns("masked", "", 50 * MILLION).mean / exact.returns("masked").mean
        ),
        "masks-put-on": put_on,
        "chests-unmasked": lambda: opened("unmasked"),
        "chests-masked": lambda: opened("masked"),
    }


def _classic(files: Files) -> dict[str, Number]:
    """Returns in Classic, and what is kept of them in its first two million frames."""
    study = files["classic-mlp"]

    def trial(name: str) -> str:
        return f"{files.read(TRIAL)['returns'][name]['mean']:.1f}"

    def kept(rules: str) -> str:
        found = files.read(f"exact-classic/{rules}.json")["conditions"]["masked-focal"]
        return percent(found["predicted"]["mean"] / found["oracle"]["mean"])

    return {
        "exact-classic-25": lambda: trial("masked, exact"),
        "paper-classic-25": lambda: trial("masked, paper"),
        "prudent-classic-25": lambda: trial("masked, exact, no tool, table or furnace in vain"),
        "early-kept-exact": lambda: kept("exact"),
        "early-kept-paper": lambda: kept("paper"),
        "masked-classic": lambda: f"{study.returns('masked').mean:.1f}",
        "unmasked-behind-classic": lambda: (
            f"{study.returns('masked').mean - study.returns('unmasked').mean:.1f}"
        ),
    }


def _audit(files: Files) -> dict[str, Number]:
    """How often the paper's masks are wrong."""
    games = ("craftax", "craftax-classic")

    def wrong(audits: Iterable[dict[str, Any]]) -> str:
        shares = []
        for found in audits:
            kinds = ("effective_but_masked", "dead_but_valid")
            errors = sum(sum(found["rules"]["paper"][kind].values()) for kind in kinds)
            shares.append(100 * errors / (found["states"] * len(found["effective"])))
        return f"{min(shares):.0f} to {max(shares):.0f} %"

    def synthetic() -> str:
        found = files.read("validity/craftax/validity.json")
        return percent(found["sources"]["synthetic"] / found["states"])

    return {
        "wrong-entries": lambda: wrong(files.read(f"validity/{g}/validity.json") for g in games),
        "wrong-entries-in-play": lambda: wrong(
            files.read("validity/in-play.json")["games"][game] for game in games
        ),
        "synthetic-states": synthetic,
    }
