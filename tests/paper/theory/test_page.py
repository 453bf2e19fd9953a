"""docs/theory.md says what results/studies say, and shows every figure."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from maskless_paper.theory import STATEMENTS

ROOT = Path(__file__).parents[3]
STUDIES = ROOT / "results" / "studies"
PAGE = " ".join((ROOT / "docs" / "theory.md").read_text().split())
STATEMENTS_FILE = json.loads((STUDIES / "theory.json").read_text())["statements"]

SENTENCES = [
    ("theorem", "above the bound by {:.0f} %", lambda n: [100 * (n["pit_excess"] - 1)]),
    ("theorem", "{:.0f} % break the bound", lambda n: [100 * n["positive_values_broken"]]),
    (
        "theorem_with_samples",
        "In {:.0f} % of single runs e^-K_T / n is missed at some time (one state-action pair per"
        " update; with 16 in {:.0f} %)",
        lambda n: [100 * n["missed_1"], 100 * n["missed_16"]],
    ),
    (
        "theorem_under_adam",
        "in {:.0f} % of the MDPs that meet the conditions, by a factor of up to {:.1f}",
        lambda n: [100 * n["missed"], n["factor"]],
    ),
    ("output_bias", "1/6 falls to {:.3f} in 5,000 steps", lambda n: [n["biased"]]),
    (
        "transfer",
        "at {:.2f} they pass on {:.0f} % of a change, at {:.2f} {:.0f} %",
        lambda n: [
            *(n["pearson_0.8"], 100 * n["passed_0.8"]),
            *(n["pearson_0.4"], 100 * n["passed_0.4"]),
        ],
    ),
    (
        "transfer",
        "they pass on {:.0f} % and {:.0f} %",
        lambda n: [100 * n["offset_passed_0.8"], 100 * n["offset_passed_0.4"]],
    ),
    (
        "decay_law",
        "slope {:.2f} for alignment 0.3, {:.2f} for 1",
        lambda n: [n["slope_0.3"], n["slope_1.0"]],
    ),
    (
        "decay_law",
        "R2 = {:.2f} as an exponential and {:.2f} as a power law",
        lambda n: [n["early_exponential_r2"], n["early_power_r2"]],
    ),
    (
        "decay_law",
        "an exponential has {:.3f}, a power law {:.2f}",
        lambda n: [n["adam_exponential_r2"], n["adam_power_r2"]],
    ),
    (
        "tightness",
        "the bound is {:.0f} times too large with 6 actions and {:.0f} times with 43, where K_T"
        " explains {:.1f} % of the fall",
        lambda n: [n["ratio_6"], n["ratio_43"], 100 * n["share_43"]],
    ),
    ("regularised_objective", "it is off by {:.1f} %", lambda n: [100 * n["median_off"]]),
    (
        "decoupling",
        "rises from {:.2f} to {:.2f}. Where one can walk on, as on Craftax's ladders, the"
        " reinforced `right` is valid too, and it falls from {:.2f} to {:.3f}",
        lambda n: [n["ends_first"], n["ends_last"], n["goes_on_first"], n["goes_on_last"]],
    ),
    (
        "decoupling",
        "in {:.0f} % of the random MDPs and up to {:.2f}/n",
        lambda n: [100 * n["adam_above"], n["adam_largest"]],
    ),
    (
        "mask_removal",
        "{:.0f} % of the value are kept at alignment 0, {:.0f} % at 0.4 and {:.0f} % at 0.8. By"
        " samples it is {:.0f} % and {:.0f} % at 0 and 0.8, with Adam {:.0f} % and {:.0f} %",
        lambda n: [
            *(100 * n[f"kept_{alignment}"] for alignment in (0.0, 0.4, 0.8)),
            *(100 * n[f"{how}_{a}"] for how in ("samples", "adam") for a in (0.0, 0.8)),
        ],
    ),
    (
        "mask_removal",
        "{:.0f} %, {:.0f} % and {:.0f} % are kept",
        lambda n: [100 * n[f"priced_{alignment}"] for alignment in (0.0, 0.4, 0.8)],
    ),
    ("mask_removal", "{:.0f} % of the choices are invalid", lambda n: [100 * n["ladder_invalid"]]),
    (
        "dominance_gap",
        "yet better than average: A = {:+.3f}",
        lambda n: [n["advantage"]],
    ),
    (
        "soft_mask",
        "at +19 it has {:.0f} % of the probability, at +25 {:.0f} %",
        lambda n: [100 * n["added_19"], 100 * n["added_25"]],
    ),
    (
        "entropy_rate",
        "(beta = 0.05: pi is {:.0e} times the",
        lambda n: [np.exp(n["log_excess_defined"])],
    ),
]


COUNTED = f"a table of {len(STATEMENTS)} statements"


def theory_sentences():
    """All with numbers of the study, as they have to stand on the page."""
    numbers = {name: found["numbers"] for name, found in STATEMENTS_FILE.items()}
    made = [sentence.format(*values(numbers[name])) for name, sentence, values in SENTENCES]
    return [*made, deep_runs(), COUNTED]


@pytest.mark.parametrize(("statement", "sentence", "values"), SENTENCES)
def test_numbers_on_the_page_are_those_of_the_study(statement, sentence, values):
    assert sentence.format(*values(STATEMENTS_FILE[statement]["numbers"])) in PAGE


def test_the_page_counts_and_names_the_statements():
    assert COUNTED in PAGE
    assert set(STATEMENTS_FILE) == set(STATEMENTS)


def test_the_page_shows_every_figure():
    figures = ROOT / "results" / "figures" / "theory"
    shown = re.findall(r"\]\(\.\./results/figures/theory/([^)]+)\)", PAGE)
    assert sorted(shown) == sorted(path.name for path in figures.glob("*.png"))


def test_the_deep_runs_are_those_of_the_study():
    assert deep_runs() in PAGE


def deep_runs():
    """What masked agents give actions where they are invalid."""
    last = {}
    for study in ("corridor-gru", "full-mlp"):
        logs = json.loads((STUDIES / f"{study}.json").read_text())["logs"]
        actions = [log["actions"] for log in logs if log["condition"] == "masked"]
        last[study] = [
            of_run[name]["raw_probability_invalid"][-1]
            for of_run in actions
            for name in ("open_door", "descend")
            if name in of_run
        ]
    first, second = last["corridor-gru"]
    assert max(last["full-mlp"]) < 1e-6
    return (
        f"a raw probability of {first:.2f} and {second:.2f} for `open_door` in states where it is"
        " invalid (`raw_probability_invalid` in `results/studies/corridor-gru.json`). In the full"
        " game it is not the action that we watch which leaks: `descend` is below 1e-6 there."
    )
