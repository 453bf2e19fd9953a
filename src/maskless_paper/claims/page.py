"""The claims as a page: docs/claims.md."""

import re
from collections import Counter
from collections.abc import Sequence

from maskless_paper.claims.claims import Entry, Verdict
from maskless_paper.claims.judges import Part
from maskless_paper.results import millions

VERDICTS: tuple[Verdict, ...] = ("reproduced", "partly", "not reproduced", "not run yet")
_MARKS = {True: "yes", False: "**no**", None: "open"}


def claims_page(ledger: Sequence[Entry]) -> str:
    """Every claim, with the paper's words, ours, and how to run it again."""
    counts = Counter(entry.verdict for entry in ledger)
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
        f"**{len(ledger)} claims: {said}.**",
        "",
        "| claim | verdict | judged by |",
        "| --- | --- | --- |",
        *(_summary(entry) for entry in ledger),
    ]
    for entry in ledger:
        lines += ["", *_section(entry)]
    return "\n".join(lines) + "\n"


def _summary(entry: Entry) -> str:
    claim = entry.claim
    where = ", ".join(entry.parts) or "–"
    if entry.parts and entry.verdict == "not run yet":
        where += ": not for long enough, or the seeds do not decide it"
    return (
        f"| [{claim.number}](#{_anchor(entry)}) {_cell(claim.text)} | {entry.verdict} | {where} |"
    )


def _section(entry: Entry) -> list[str]:
    content = entry.to_json()
    lines = [f"## {_title(entry)}", "", f"{content['claim']} ({content['lines']})."]
    if not content["judged_by"]:
        return [*lines, "", f"Not run yet: `{content['command']}`."]
    lines += ["", "| the paper says | ours | holds |", "| --- | --- | --- |"]
    for judged in content["judged_by"]:
        lines.append(f"| *{judged['where']}*{_budget(judged)} | `{judged['command']}` | |")
        lines += [_part(Part(**part)) for part in judged["parts"]]
    return lines


def _title(entry: Entry) -> str:
    return f"Claim {entry.claim.number}: {entry.verdict}"


def _anchor(entry: Entry) -> str:
    """As GitHub makes it of the heading."""
    return _title(entry).lower().replace(":", "").replace(" ", "-")


def _budget(judged: dict) -> str:
    if judged["frames"] is None:
        return ""
    seeds = judged["seeds"]
    return f", {millions(judged['frames'])} frames, {seeds} seed{'s' if seeds > 1 else ''}"


def _part(part: Part) -> str:
    return f"| {_cell(part.says)} | {_cell(part.ours)} | {_MARKS[part.holds]} |"


def _cell(text: str) -> str:
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text.replace("|", "\\|"))
