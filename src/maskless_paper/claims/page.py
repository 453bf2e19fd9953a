"""The verdicts as a page: docs/claims.md."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from maskless_paper.claims.verdicts import VERDICTS, JudgedClaim
from maskless_paper.results import format_frames

_MARKS = {True: "yes", False: "**no**", None: "open"}


def claims_page(judged: Sequence[JudgedClaim]) -> str:
    """Every claim, with the paper's words, ours, and how to run it again."""
    counts = Counter(claim.verdict for claim in judged)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    lines = [
        "# The paper's claims, judged",
        "",
        "Written by `python results/tables.py` from [results/studies](../results/studies); nothing"
        " here is typed by hand. A claim is taken apart into what can be true or false of our runs."
        " *open*: it was not run, not for long enough, or the seeds do not decide it. In brackets:"
        " from the lowest seed to the highest, each with its own 95 % interval over episodes. Our"
        " budgets are shorter than the paper's (1e9 frames, corridors 2e8), so that a number of its"
        " tables is judged only where the budget is the same; the order of conditions always is."
        " L123 is a line of the paper's source.",
        "",
        f"**{len(judged)} claims: {said}.**",
        "",
        "| claim | verdict | judged by |",
        "| --- | --- | --- |",
        *(_summary(claim) for claim in judged),
    ]
    for claim in judged:
        lines += ["", *_section(claim)]
    return "\n".join(lines) + "\n"


def _summary(judged: JudgedClaim) -> str:
    claim, studies = judged.claim, ", ".join(judged.checks) or "–"
    if judged.checks and judged.verdict == "not run yet":
        studies += ": not for long enough, or the seeds do not decide it"
    link = f"[{claim.number}](#{_anchor(judged)})"
    return f"| {link} {_escape(claim.text)} | {judged.verdict} | {studies} |"


def _section(judged: JudgedClaim) -> list[str]:
    content = judged.to_json()
    lines = [f"## {_title(judged)}", "", f"{content['claim']} ({content['lines']})."]
    if not content["judged_by"]:
        return [*lines, "", f"Not run yet: `{content['command']}`."]
    lines += ["", "| the paper says | ours | holds |", "| --- | --- | --- |"]
    for study in content["judged_by"]:
        lines.append(f"| *{study['where']}*{_budget(study)} | `{study['command']}` | |")
        lines += [
            f"| {_escape(check['says'])} | {_escape(check['ours'])} | {_MARKS[check['holds']]} |"
            for check in study["parts"]
        ]
    return lines


def _title(judged: JudgedClaim) -> str:
    return f"Claim {judged.claim.number}: {judged.verdict}"


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
