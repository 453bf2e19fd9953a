"""Ours: what is kept without the oracle, over all games together."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from maskless import statistics
from maskless.report import figures, style
from maskless_paper import results
from maskless_paper.studies import WORLDS, WorldName
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import Table

BASELINE = "masked-focal"
HEADER = (
    *("condition", "runs", "kept: interquartile mean", "keeps more than `masked-focal`"),
    "runs that keep over 95 %",
)
NOTE = (
    "Runs of all games at their last budget. In brackets: 95 % intervals of a bootstrap that draws"
    " the seeds of each game anew, and their episodes. keeps more: how often a run of the condition"
    " keeps more than one of `masked-focal` in the same game, mean over the games; one half is no"
    " difference. {}"
)
FEW = "With two seeds of each game these intervals are too narrow, and decide no order."


Kept = dict[WorldName, tuple[np.ndarray, np.ndarray]]
"""What each seed of each game keeps, and the standard errors."""


def conditions_of_all_games(studies: Results) -> list[str]:
    """Those with a classifier, trained under the oracle's masks."""
    games: dict[str, set[WorldName]] = {}
    for result in studies.values():
        for name in results.conditions(result):
            if results.has_classifier(name) and results.training_masks(name) == "oracle":
                games.setdefault(name, set()).add(results.world(result))
    most = max(map(len, games.values()))
    return [name for name, found in games.items() if len(found) == most]


def kept_by_condition(studies: Results) -> dict[str, Kept]:
    """Of the conditions with a classifier that all games have."""
    kept: dict[str, Kept] = {}
    for result in studies.values():
        for name in results.conditions(result):
            if results.has_classifier(name) and results.training_masks(name) == "oracle":
                shares = results.retained_by_seed(result, name)
                if shares:
                    values, errors = (
                        np.array(column) for column in zip(*shares.values(), strict=True)
                    )
                    kept.setdefault(name, {})[results.world(result)] = values, errors
    games = {results.world(result) for result in studies.values()}
    return {name: found for name, found in kept.items() if found.keys() == games}


def tables(studies: Results) -> list[Table]:
    kept = kept_by_condition(studies)
    rows: list[tuple[str, ...]] = []
    for name in conditions_of_all_games(studies):
        if name not in kept:  # not yet, or not in all games
            rows.append((f"`{name}`", *["–"] * (len(HEADER) - 1)))
            continue
        games = kept[name]
        scores, errors = ([part[n] for part in games.values()] for n in (0, 1))
        draws = statistics.bootstrap(scores, _over_all, errors=errors)
        own = np.concatenate(scores)
        rows.append(
            (
                f"`{name}`",
                str(len(own)),
                _interval(float(statistics.interquartile_mean(own)), draws),
                _improvement(games, kept.get(BASELINE)) if name != BASELINE else "–",
                f"{np.sum(own > 0.95)} of {len(own)}",
            )
        )
    seeds = [len(part[0]) for games in kept.values() for part in games.values()]
    note = NOTE.format(FEW if min(seeds, default=0) < results.SEEDS else "").strip()
    worlds = dict.fromkeys(results.world(result) for result in studies.values())
    where = ", ".join(WORLDS[world].title for world in worlds)
    return [Table(f"Kept without the oracle: {where}", HEADER, tuple(rows), (note,))]


def _over_all(strata: Sequence[np.ndarray]) -> np.ndarray:
    return statistics.interquartile_mean(np.concatenate(strata, axis=-1))


def _improvement(ours: Kept, theirs: Kept | None) -> str:
    """How often ours keeps more, with its interval."""
    if theirs is None:
        return "–"
    count = len(ours)
    pairs = [(ours[game], theirs[game]) for game in ours]

    def mean_over_games(strata: Sequence[np.ndarray]) -> np.ndarray:
        games = zip(strata[:count], strata[count:], strict=True)
        return np.mean([statistics.probability_of_improvement(a, b) for a, b in games], axis=0)

    scores = [a[0] for a, _ in pairs] + [b[0] for _, b in pairs]
    errors = [a[1] for a, _ in pairs] + [b[1] for _, b in pairs]
    draws = statistics.bootstrap(scores, mean_over_games, errors=errors)
    return _interval(float(mean_over_games(scores)), draws)


def _interval(middle: float, draws: np.ndarray) -> str:
    low, high = statistics.percentile_interval(draws)
    return f"{100 * middle:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def draw(studies: Results, path: Path) -> None:
    """The share of runs that keep more than each share: a performance profile."""
    kept, at = kept_by_condition(studies), np.linspace(0.4, 1.05, 261)
    with style.figure(path, figsize=(5.2, 3.0)) as (fig, axis):
        for name, games in kept.items():
            scores = np.concatenate([values for values, _ in games.values()])
            profile = statistics.performance_profile(scores, at)
            axis.step(100 * at, 100 * profile, color=figures.colour_of(list(kept), name), lw=1.4)
        axis.set_xlabel("% of the oracle's return that is kept")
        axis.set_ylabel("% of runs that keep more")
        keys = figures.legend_keys(list(kept))
        fig.legend(keys, list(kept), loc="outside lower center", ncols=3, fontsize=7)


EXPERIMENT = Experiment(
    about="what is kept under predicted masks, over all games: profile, probability of improvement",
    paper="",
    studies=(
        *("classic-mlp", "classic-loop", "full-mlp", "full-loop", "corridor-gru", "corridor-loop"),
    ),
    tables=tables,
    draw=draw,
)
