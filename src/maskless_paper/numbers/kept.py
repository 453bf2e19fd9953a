"""Numbers of what is kept under predicted masks, and of what the classifiers know."""

from maskless_paper import results
from maskless_paper.numbers.query import (
    LOOP,
    MILLION,
    Files,
    Number,
    Query,
    each,
    each_percent,
    listed,
    percent,
)

BUDGETS = (25 * MILLION, 50 * MILLION, 100 * MILLION)


def numbers(files: Files) -> dict[str, Number]:
    return {**_games(files), **_losses(files), **_early(files), **_classifiers(files)}


def _games(files: Files) -> dict[str, Number]:
    """The three games, at their budgets."""
    loops = ("classic-loop", "corridor-loop", "full-loop")
    alone = {
        "corridor-gru": ("masked-focal", "masked-kl"),
        "corridor-loop": ("masked-tv", "masked-mix"),
    }
    full = files["full-mlp"]
    tables = (*loops, "classic-mlp", "corridor-gru", "full-mlp")

    def others() -> str:
        """Of each seed of the conditions with a classifier, but for the one that keeps most."""
        shares = [
            share
            for study in tables
            for name in results.conditions(files.studies[study])
            if results.has_classifier(name) and name != LOOP
            for share in files[study].kept(name).values
        ]
        return f"{100 * min(shares):.0f} to {percent(max(shares))}"

    def behind(study: str, frames: int) -> str:
        focal, kl = (files[study].kept(f"masked-{loss}", frames).mean for loss in ("focal", "kl"))
        return f"{100 * (focal - kl):.0f}"

    def over_time(study: str, name: str) -> str:
        return listed(f"{100 * files[study].kept(name, x).mean:.0f}" for x in BUDGETS) + " %"

    return {
        "loop-kept-least": lambda: percent(min(files[one].kept(LOOP).mean for one in loops)),
        "others-kept": others,
        "loss-alone-most-corridor": lambda: percent(
            max(files[study].kept(name).mean for study, names in alone.items() for name in names)
        ),
        "kl-behind-classic": lambda: listed(behind("classic-mlp", x) for x in BUDGETS),
        "kl-behind-full": lambda: listed(behind("full-mlp", x) for x in BUDGETS[1:]),
        "kl-full-25": lambda: each_percent(full.kept("masked-kl", BUDGETS[0])),
        "focal-full-25": lambda: each_percent(full.kept("masked-focal", BUDGETS[0])),
        "loop-full": lambda: over_time("full-loop", LOOP),
        "focal-full": lambda: over_time("full-mlp", "masked-focal"),
        "strength-20-kept": lambda: percent(files["predictor"].kept("masked-kl:strength=20").mean),
    }


def _losses(files: Files) -> dict[str, Number]:
    """Variants of the losses, in Classic but for one."""
    losses, gamma = files["control-losses"], files["gamma"]
    return {
        "kl-kept-gamma-0": lambda: percent(gamma.kept("masked-kl:gamma=0").mean),
        "kl-lost-to-gamma": lambda: f"{100 * _lost_to_gamma(gamma):.0f}",
        "kl-kept-gamma-2": lambda: percent(gamma.kept("masked-kl:gamma=2").mean),
        "kl-kept-classic-25": lambda: percent(
            files["classic-mlp"].kept("masked-kl", BUDGETS[0]).mean
        ),
        "tv-kept-25": lambda: percent(losses.kept("masked-tv").mean),
        "tv-kept-corridor": lambda: each_percent(files["corridor-loop"].kept("masked-tv")),
        "fallback-kept": lambda: percent(losses.kept("masked-kl:uniform_fallback=0").mean),
        "literal-kept": lambda: percent(losses.kept("masked-kl:literal=1").mean),
        "literal-kept-early": lambda: each_percent(
            losses.kept("masked-kl:literal=1", 12 * MILLION)
        ),
        "detached-kept": lambda: percent(losses.kept("masked-kl:detached=1").mean),
    }


def _lost_to_gamma(sweep: Query) -> float:
    """What masked-kl keeps more at gamma = 0 than at 2."""
    zero, two = (sweep.kept(f"masked-kl:gamma={gamma}").mean for gamma in (0, 2))
    return zero - two


def _early(files: Files) -> dict[str, Number]:
    """The first frames of Classic, and earlier trainings of the full game."""
    hybrid = files["classic-hybrid"]

    def first(name: str) -> Number:
        def made() -> str:
            found = files.read("early/evaluation.json")["conditions"][name]
            return percent(found["predicted"]["mean"] / found["oracle"]["mean"])

        return made

    def earlier(which: str, name: str) -> Number:
        def made() -> str:
            study = Query(files.read(f"earlier/{which}.json"))
            shares = (study.kept(name, frames).mean for frames in results.budgets(study.result))
            return listed(f"{100 * share:.0f}" for share in shares) + " %"

        return made

    def at(name: str, million: int) -> Number:
        return lambda: percent(hybrid.kept(name, million * MILLION).mean)

    made: dict[str, Number] = {}
    for loss in ("kl", "focal"):
        name = f"masked-{loss}"
        made[f"early-{loss}"] = first(name)
        made[f"earlier-25-{loss}"] = earlier("full-mlp-25M", name)
        made[f"earlier-78-{loss}"] = earlier("full-mlp-78M", name)
        made |= {f"hybrid-{loss}-{million}": at(name, million) for million in (3, 6, 12)}
    return made


def _classifiers(files: Files) -> dict[str, Number]:
    """How often they recall an action, and how much oftener they err in play."""
    iron = "make_iron_pickaxe"

    def recall(study: str, name: str, action: str) -> Number:
        return lambda: each_percent(files[study].final("classifier_recall", name, action))

    def errors(study: str) -> Number:
        """As a multiple of the share of wrong entries in training, at the last budget."""

        def made() -> str:
            ratios = []
            for name in ("masked-focal", "masked-kl"):
                wrong = files[study].played("mask_errors", name).values
                right = files[study].final("classifier_accuracy", name).values
                ratios += [w / (1 - r) for w, r in zip(wrong, right, strict=True)]
            return f"{min(ratios):.0f} to {max(ratios):.0f}"

        return made

    def accuracy(study: str, name: str, digits: int) -> Number:
        found = files[study].final("classifier_accuracy", name)
        return lambda: f"{100 * found.mean:.{digits}f} %"

    return {
        "accuracy-kl": accuracy("full-mlp", "masked-kl", 1),
        "accuracy-detached": accuracy("control-losses", "masked-kl:detached=1", 0),
        "raw-iron-classic": lambda: each(
            files["classic-mlp"].final("raw_probability_valid", "masked-kl", iron), ".2f"
        ),
        "recall-kl": recall("full-mlp", "masked-kl", "descend"),
        "recall-kl20": recall("predictor", "masked-kl:strength=20", "descend"),
        "recall-iron-kl": recall("classic-mlp", "masked-kl", iron),
        "recall-iron-focal": recall("classic-mlp", "masked-focal", iron),
        "errors-classic": errors("classic-mlp"),
        "errors-full": errors("full-mlp"),
        "errors-corridor": errors("corridor-gru"),
    }
