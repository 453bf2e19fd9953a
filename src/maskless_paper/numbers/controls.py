"""Numbers of the controls, of the ablation, and of what the runs took."""

import math

from maskless_paper.numbers.query import (
    LOOP,
    MILLION,
    Files,
    Number,
    Query,
    each,
    listed,
    percent,
    signed,
    together,
)
from maskless_paper.results import evaluations
from maskless_paper.tables.controls import PENALTY

ALONE, BOTH = "unmasked-kl:strength=20", "masked-kl:strength=20"


def numbers(files: Files) -> dict[str, Number]:
    return {**_left(files), **_corridor(files), **_ablation(files), **_runs(files)}


def _left(files: Files) -> dict[str, Number]:
    """What is left of a masked agent without its masks, with a penalty and without."""
    frozen, penalty = Query(files.small["control-frozen"]), Query(files.small["corridor-gru"])
    entropy = files["control-entropy"]

    def fold(study: Query) -> str:
        (point,) = study.lowest("unmasked", "open_door")
        return f"{study.uniform / point.probability:,.0f}"

    return {
        "death": lambda: each(files["full-mlp"].returns("masked", "none")),
        "corridor-none": lambda: each(files["corridor-gru"].returns("masked", "none"), ".0f"),
        "corridor-random": lambda: _random(files, "corridor-r5", PENALTY, "none"),
        "frozen-fold": lambda: fold(frozen),
        "penalty-fold": lambda: fold(penalty),
        **_of_two_rooms("frozen", frozen, files),
        **_of_two_rooms("penalty", penalty, files),
        "frozen-episodes": lambda: str(frozen.result["evaluations"][0]["episodes"]),
        "entropy-cost": lambda: percent(
            1
            - entropy.returns("unmasked:entropy_factor=5").mean
            / entropy.returns("unmasked:entropy_factor=1").mean
        ),
    }


def _of_two_rooms(name: str, study: Query, files: Files) -> dict[str, Number]:
    """What `masked` returns with its masks and without, and random play in the same game."""
    cost = study.result["config"]["env_options"].get("frozen_penalty", PENALTY)

    def none() -> str:
        cell = study.returns("masked", "none")
        mean, low, high = (signed(value, ".2f") for value in (cell.mean, cell.low, cell.high))
        return f"{mean} ({low} to {high})"

    return {
        f"{name}-return": lambda: each(study.returns("masked"), ".2f"),
        f"{name}-none": none,
        f"{name}-random": lambda: _random(files, "corridor-r2", cost, "none"),
        f"{name}-random-valid": lambda: _random(files, "corridor-r2", cost, "oracle"),
    }


def _random(files: Files, env: str, penalty: float, masks: str) -> str:
    """What random play returns."""
    rows = files.read("random-corridors.json")["rows"]
    (row,) = (r for r in rows if (r["env"], r["penalty"], r["masks"]) == (env, penalty, masks))
    return signed(row["mean"], ".2f")


def _corridor(files: Files) -> dict[str, Number]:
    study = files["corridor-gru"]

    def invalid(of: str, name: str) -> str:
        played = evaluations(files.studies[of], name, "predicted")
        return together(f"{entry['invalid_share'] * entry['length']:.1f}" for entry in played)

    def early(name: str) -> Number:
        return lambda: each(study.returns(name, "oracle", 10 * MILLION), ".2f")

    names = ("masked", "masked-focal", "masked-kl")
    return {
        "corridor-40-least": lambda: (
            f"{math.floor(100 * min(min(study.returns(name).values) for name in names)) / 100:.2f}"
        ),
        "invalid-loop": lambda: invalid("corridor-loop", LOOP),
        "invalid-focal": lambda: invalid("corridor-gru", "masked-focal"),
        "corridor-10-masked": early("masked"),
        "corridor-10-focal": early("masked-focal"),
        "corridor-10-kl": early("masked-kl"),
    }


def _ablation(files: Files) -> dict[str, Number]:
    """A classifier beside masked and unmasked policies, with twice the paper's weight."""
    study = files["predictor"]

    def mean(name: str, masks: str = "") -> float:
        return study.returns(name, masks).mean

    def lower() -> str:
        pairs = zip(
            files["full-mlp"].returns("masked-kl").values, study.returns(BOTH).values, strict=True
        )
        return listed(f"{one - other:.1f}" for one, other in pairs)

    def spread() -> str:
        means = [mean(name) for name in (ALONE, "masked", BOTH)]
        return percent(1 - min(means) / max(means))

    return {
        "predictor-base": lambda: f"{mean('unmasked'):.1f}",
        "predictor-cost": lambda: f"{mean('unmasked') - mean(ALONE):.1f}",
        "predictor-without": lambda: f"{mean(ALONE):.1f}",
        "predictor-under-masks": lambda: f"{mean(ALONE, 'predicted'):.1f}",
        "predictor-errors": lambda: (
            f"{round(1 / study.played('mask_errors', ALONE).mean, -3):,.0f}"
        ),
        "strength-20-lower": lower,
        "ablation-spread": spread,
    }


def _runs(files: Files) -> dict[str, Number]:
    """How long the trainings took, and how many episodes did not end."""
    trainings = {
        (one["config"]["env"], one["config"]["net"], one["seconds"]): one["seconds"]
        for one in files.studies.values()
        if "config" in one
    }

    def unfinished(*studies: str) -> str:
        entries = [entry for one in studies for entry in files.studies[one]["evaluations"]]
        return str(max(entry["unfinished"] for entry in entries))

    return {
        "gpu-trainings": lambda: str(len(trainings)),
        "gpu-minutes": lambda: f"{sum(trainings.values()) / 60:.0f}",
        "unfinished-classic": lambda: unfinished("classic-mlp", "classic-loop"),
        "unfinished-full": lambda: unfinished("full-mlp", "full-loop", "predictor"),
    }
