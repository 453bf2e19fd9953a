"""The verdicts as a page: docs/claims.md."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from maskless_paper import results
from maskless_paper.claims.verdicts import VERDICTS, Counts, JudgedClaim
from maskless_paper.results import format_frames

_MARKS = {True: "yes", False: "**no**", None: "open"}
RULES = (
    "A claim is taken apart into checks, each *yes* or *no* of our runs. *open*: our runs are too"
    " short, or their seeds do not decide it. *not run*: a study that could judge it does not exist"
    " yet. The verdict follows from these four counts: nothing on this page is typed by hand but"
    " the paper's words and the notes.",
    "In brackets: from the lowest seed to the highest, each with its own 95 % interval over"
    f" episodes; of {results.SEEDS} seeds and more, the interval over seeds and episodes.",
)
LIST = (
    "All seeds must agree, or the check is open.",
    f"Which of two conditions is higher is decided from {results.SEEDS} seeds of each on.",
    "What is kept, what an accuracy is, how long an episode: a *no* counts in the paper's own game"
    " and from a tenth of its frames on. Numbers of its Table 1 are judged at its full budget only,"
    " and what is kept against the paper's own cell less five points.",
    f"A probability where an action is valid is a mean over at least {results.STATES} states in a"
    " row (the rule of ten states: what a policy did in one state says little). The lowest of such"
    " means is a little too low; findings.md tells it over at least"
    f" {results.HEADLINE_STATES} states.",
)
READINGS = (
    "*Frames→1.0* (L394): until the training return, a mean over a million frames, is 0.95.",
    '*"Replay buffer D"* (L262): the minibatch of the same rollout that PPO learns from.',
    "The heads of the RNN have ReLU (L1002), not the Tanh of the table (L1034).",
    "GlyphNet (L731): its second convolution is padded, so that it sees all of the crop, and a"
    " dense layer makes 128 numbers of the 2 x 2 x 128 that it gives.",
    "First occurrence (L1057-L1065) is per action, not per state: the first update with a state in"
    " which it is valid.",
    "The learning rate is annealed at the scale `paper` only: none of the studies that judge here"
    " is.",
    "Predicted masks of a condition without a classifier: sampling without a mask.",
)


def claims_page(judged: Sequence[JudgedClaim]) -> str:
    """Every claim, with the paper's words, ours, and how to run it again."""
    lines = [
        "# The paper's claims, judged",
        "",
        "Written by `python results/tables.py` from [results/studies](../results/studies). L123 is"
        " a line of the paper's source.",
        "",
        *(line for rule in RULES for line in (rule, "")),
        *(f"- {rule}" for rule in LIST),
        "",
        f"**{summary(judged)}**",
        "",
        "| claim | verdict | checks |",
        "| --- | --- | --- |",
        *(_row(claim) for claim in judged),
        "",
        "## Readings of the paper",
        "",
        *(f"- {reading}" for reading in READINGS),
    ]
    for claim in judged:
        lines += ["", *_section(claim)]
    return "\n".join(lines) + "\n"


def summary(judged: Sequence[JudgedClaim]) -> str:
    """How many checks have which answer, and how many claims which verdict, in one sentence."""
    checks = Counts(*map(sum, zip(*(claim.counts for claim in judged), strict=True)))
    verdicts = Counter(claim.counts.verdict for claim in judged)
    said = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    return f"{len(judged)} claims in {sum(checks)} checks: {checks}. Of the claims: {said}."


def _row(judged: JudgedClaim) -> str:
    claim, counts = judged.claim, judged.counts
    link = f"[{claim.number}](#{_anchor(judged)})"
    return f"| {link} {_escape(claim.text)} | {counts.verdict} | {counts} |"


def _section(judged: JudgedClaim) -> list[str]:
    content = judged.to_json()
    lines = [f"## {_title(judged)}", "", f"{content['claim']} ({content['lines']})."]
    if content["note"]:
        lines[-1] += f" *{_escape(content['note'])}*"
    missing = ", ".join(f"`{study}`" for study in content["not_run"])
    not_run = [f"Not run yet: {missing} (`{content['command']}`)."] if missing else []
    if not content["judged_by"]:
        return [*lines, "", *not_run]
    lines += ["", "| the paper says | ours | holds |", "| --- | --- | --- |"]
    for study in content["judged_by"]:
        lines.append(f"| *{study['where']}*{_budget(study)} | `{study['command']}` | |")
        lines += [
            f"| {_escape(check['says'])} | {_escape(check['ours'])} | {_MARKS[check['holds']]} |"
            for check in study["parts"]
        ]
    differs = {study["study"]: study["stands_in"] for study in content["judged_by"]}
    lines += [
        line
        for study, words in differs.items()
        if words
        for line in ("", f"`{study}` stands in: {words}.")
    ]
    return [*lines, "", *not_run] if not_run else lines


def _title(judged: JudgedClaim) -> str:
    return f"Claim {judged.claim.number}: {judged.counts.verdict}"


def _anchor(judged: JudgedClaim) -> str:
    """As GitHub makes it of the heading."""
    return _title(judged).lower().replace(":", "").replace(" ", "-")


def _budget(study: dict[str, Any]) -> str:
    if study["frames"] is None:
        return ""
    seeds = study["seeds"]
    return f", {format_frames(study['frames'])} frames, {seeds} seed{'s' if seeds > 1 else ''}"


def _escape(text: str) -> str:
    """For a cell of a Markdown table, with a true minus sign."""
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text.replace("|", "\\|"))
