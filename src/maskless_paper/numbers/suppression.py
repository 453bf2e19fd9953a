"""Numbers of suppression: at first, at its lowest, and of the features."""

import numpy as np

from maskless_paper import results
from maskless_paper.numbers.query import Files, Number, Query, each, listed, scientific, together
from maskless_paper.results import FirstOccurrence, Point
from maskless_paper.studies import PAPER_CONDITIONS
from maskless_paper.tables import correlation_kept, first_occurrence

IRON = "make_iron_pickaxe"
STONE = "make_stone_pickaxe"


def numbers(files: Files) -> dict[str, Number]:
    parts = (_first, _lowest, _decay, _hybrid, _correlation)
    return {name: number for part in parts for name, number in part(files).items()}


def _first(files: Files) -> dict[str, Number]:
    """When an action is valid for the first time."""
    early = [
        one
        for study, action in (("full-mlp", "descend"), ("corridor-gru", "open_door"))
        for one in first_occurrence.first_occurrences(files.studies[study], "unmasked", action)
    ]
    ratios = [one.ratio for one in early]
    late = {masked: _late(files, masked) for masked in (True, False)}
    frames = [one.frames / 1e6 for ones in late.values() for one in ones]

    def deep(masked: bool) -> str:
        return f"{sum(one.ratio < 0.1 for one in late[masked])} of {len(late[masked])}"

    return {
        "first-early-ratios": lambda: f"{min(ratios):.2f} to {max(ratios):.2f}",
        "first-early-frames": lambda: results.format_frames(max(one.frames for one in early)),
        "first-late-frames": lambda: f"{min(frames):.0f} to {max(frames):.0f} M",
        "first-late-masked": lambda: deep(True),
        "first-late-unmasked": lambda: deep(False),
    }


def _late(files: Files, masked: bool) -> list[FirstOccurrence]:
    """Of the one action of the full game that stays unseen, in all runs with or without masks."""
    runs = {
        (study, name)
        for study in ("full-mlp", "predictor", "control-exact-full")
        for name in results.conditions(files.studies[study])
        # The ablation shares two conditions with the table: they are the same runs.
        if study != "predictor" or "strength" in name
    }
    return [
        one
        for study, name in sorted(runs)
        if (results.training_masks(name) == "oracle") == masked
        for one in first_occurrence.first_occurrences(files.studies[study], name, IRON)
    ]


def _lowest(files: Files) -> dict[str, Number]:
    full, corridor = files["full-mlp"], files["corridor-gru"]
    door, ladder = (corridor, "unmasked", "open_door"), (full, "unmasked", "descend")
    return {
        "descend-fold": lambda: _fold(*ladder),
        "descend-states": lambda: _states(*ladder),
        "descend-below": lambda: _frames_below(full),
        "descend-half": lambda: _frames_to_half(full),
        "door-lowest": lambda: _probability(*door),
        "door-states": lambda: _states(*door),
        "door-at-end": lambda: together(
            scientific(value)
            for value in corridor.final("probability_valid", "unmasked", "open_door").values
        ),
        "door-return": lambda: each(corridor.returns("unmasked"), ".2f"),
        "door-masked-lowest": lambda: _probability(corridor, "masked", "open_door"),
        "door-masked-states": lambda: _states(corridor, "masked", "open_door"),
        "door-masked-at-end": lambda: each(
            corridor.final("probability_valid", "masked", "open_door"), ".2f"
        ),
        "iron-fold-unmasked": lambda: _fold(full, "unmasked", IRON),
        "iron-states-unmasked": lambda: _states(full, "unmasked", IRON),
        "iron-fold-focal": lambda: _fold(full, "masked-focal", IRON),
        "iron-states-focal": lambda: _states(full, "masked-focal", IRON),
        "iron-fold-kl": lambda: _fold(full, "masked-kl", IRON),
        "iron-states-kl": lambda: _states(full, "masked-kl", IRON),
        "descend-lowest-both-rules": lambda: _probabilities(_under_both_rules(files)),
        "descend-states-both-rules": lambda: f"{min(p.states for p in _under_both_rules(files))}",
        "descend-without-mask": lambda: together(
            scientific(value)
            for value in full.final("raw_probability_valid", "masked-kl", "descend").values
        ),
    }


def _decay(files: Files) -> dict[str, Number]:
    """How the logarithm of π(open_door) falls without masks: with log frames, or with frames?"""
    fits: dict[str, list[float]] = {"power": [], "exponential": []}
    for log in results.logs(files.studies["corridor-gru"], "unmasked"):
        points = results.where_valid(log, "open_door", states=results.HEADLINE_STATES)
        falling = points[: points.index(min(points)) + 1]
        for count in (6, 10, len(falling)):
            frames = np.array([point.frames for point in falling[:count]], np.float64)
            logs = np.log([point.probability for point in falling[:count]])
            for name, across in (("power", np.log(frames)), ("exponential", frames)):
                fits[name].append(float(np.corrcoef(across, logs)[0, 1] ** 2))

    def fit(name: str) -> Number:
        return lambda: f"{min(fits[name]):.3f} to {max(fits[name]):.3f}"

    return {f"decay-{name}": fit(name) for name in fits}


def _hybrid(files: Files) -> dict[str, Number]:
    hybrid = files["classic-hybrid"]
    return {
        "hybrid-stone": lambda: _probability(hybrid, "unmasked", STONE),
        "hybrid-stone-states": lambda: _states(hybrid, "unmasked", STONE),
        "hybrid-stone-frames": lambda: results.format_frames(
            hybrid.lowest("unmasked", STONE)[0].frames
        ),
        "hybrid-stone-kl": lambda: _probability(hybrid, "masked-kl", STONE),
        "hybrid-stone-kl-states": lambda: _states(hybrid, "masked-kl", STONE),
    }


def _correlation(files: Files) -> dict[str, Number]:
    """At the end of training, and how it goes with what is kept."""
    games = {"full": ("full-mlp", "descend"), "corridor": ("corridor-gru", "open_door")}

    def at_end(game: str, name: str) -> Number:
        study, action = games[game]
        return lambda: each(files[study].final("feature_correlation", name, action), ".2f")

    def ranks(*studies: str) -> Number:
        chosen = {name: files.studies[name] for name in studies}
        return lambda: listed(
            f"{points.rank_correlation:+.2f}".replace("-", "\N{MINUS SIGN}")
            for points in correlation_kept.points_by_world(chosen)
            if points.enough
        )

    return {
        **{
            f"correlation-{name.removeprefix('masked-')}-{game}": at_end(game, name)
            for game in games
            for name in PAPER_CONDITIONS
        },
        "rank-full": ranks("full-mlp", "full-loop", "predictor"),
        "rank-classic-25": ranks("lambda", "gamma", "control-losses"),
        "rank-classic-100": ranks("classic-mlp", "classic-loop"),
        "rank-corridor": ranks("corridor-gru", "corridor-loop"),
    }


def _fold(study: Query, name: str, action: str) -> str:
    """How many times below uniform."""
    return together(f"{study.uniform / p.probability:.0f}" for p in study.lowest(name, action))


def _states(study: Query, name: str, action: str) -> str:
    return together(f"{point.states:,}" for point in study.lowest(name, action))


def _probability(study: Query, name: str, action: str) -> str:
    return together(scientific(point.probability) for point in study.lowest(name, action))


def _frames_below(full: Query) -> str:
    """For how long descend is below 1e-2 without masks."""
    spans = []
    for log in results.logs(full.result, "unmasked"):
        low = [p.frames for p in results.where_valid(log, "descend") if p.probability < 1e-2]
        spans.append(f"{(max(low) - min(low)) / 1e6:.0f}")
    return together(spans) + " M"


def _frames_to_half(full: Query) -> str:
    history = [log["history"]["descend"] for log in results.logs(full.result, "unmasked")]
    return together(f"{one['frames_to_half'] / 1e6:.0f}" for one in history) + " M"


def _under_both_rules(files: Files) -> list[Point]:
    """Where descend is least probable under the paper's masks, and under exact ones."""
    studies = files["full-mlp"], files["control-exact-full"]
    return [point for one in studies for point in one.lowest("masked", "descend")]


def _probabilities(points: list[Point]) -> str:
    lows = [point.probability for point in points]
    return f"{min(lows):.2f} to {max(lows):.2f}"
