"""Verdicts on the paper's claims, from the results of studies: `results/claims.json`.

    judged = judge_all(read_studies(Path("results/studies")))

A claim has checks that can each be true or false of our runs. A check is open where our runs are
too short, or their seeds do not decide it; a study that could judge and does not exist counts as
one check not run. The verdict follows from the counts.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from maskless_paper import results
from maskless_paper.claims.check import Check
from maskless_paper.claims.claims import CLAIMS, Claim
from maskless_paper.plans import make_plan
from maskless_paper.studies import NETWORKS
from maskless_paper.study_files import Result

Verdict = Literal[
    "reproduced", "yes so far", "mixed", "no so far", "not reproduced", "open", "not run"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Counts(NamedTuple):
    """How many checks of a claim have which answer."""

    yes: int
    no: int
    open: int
    not_run: int

    def __str__(self) -> str:
        named = [(count, name.replace("_", " ")) for name, count in self._asdict().items()]
        return ", ".join(f"{count} {name}" for count, name in named if count)

    @property
    def verdict(self) -> Verdict:
        """`so far`: something is still open, or not run."""
        unsettled = self.open + self.not_run > 0
        if self.yes and self.no:
            return "mixed"
        if self.yes:
            return "yes so far" if unsettled else "reproduced"
        if self.no:
            return "no so far" if unsettled else "not reproduced"
        return "open" if self.open else "not run"


@dataclasses.dataclass(frozen=True)
class JudgedClaim:
    """A claim, judged."""

    claim: Claim
    checks: Mapping[str, Sequence[Check]]
    """By study."""
    results: Mapping[str, Result]

    @property
    def missing(self) -> tuple[str, ...]:
        """Studies that could judge it and were not run."""
        return tuple(study for study in self.claim.studies if study not in self.checks)

    @property
    def counts(self) -> Counts:
        holds = [check.holds for checks in self.checks.values() for check in checks]
        yes, no, unsettled = (sum(one is answer for one in holds) for answer in (True, False, None))
        return Counts(yes, no, unsettled, len(self.missing))

    def to_json(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "number": claim.number,
            "lines": claim.lines,
            "claim": claim.text,
            "verdict": self.counts.verdict,
            "counts": self.counts._asdict(),
            "judged_by": [
                {
                    "study": study,
                    **_setting(self.results[study]),
                    "command": _command(claim.experiment, study, self.results[study]),
                    "stands_in": _stands_in(claim, self.results[study]),
                    "parts": [dataclasses.asdict(check) for check in checks],
                }
                for study, checks in self.checks.items()
            ],
            "not_run": list(self.missing),
            "note": claim.note,
            "command": f"maskless reproduce {claim.experiment} --scale paper",
        }


def judge_all(studies: Mapping[str, Result]) -> list[JudgedClaim]:
    """Every claim, by all results that there are."""
    judged = []
    for claim in CLAIMS:
        available = {study: studies[study] for study in claim.studies if study in studies}
        found = {study: tuple(claim.judge(result)) for study, result in available.items()}
        judged.append(JudgedClaim(claim, found, available))
    return judged


def _stands_in(claim: Claim, result: Result) -> str:
    """In what a study is smaller than the paper's, or another, its network included."""
    words = results.stand_in(result)
    if "config" not in result or claim.network in ("", result["config"]["net"]):
        return words
    ours, theirs = NETWORKS[result["config"]["net"]], NETWORKS[claim.network]
    return f"{ours} in place of the {theirs} that the paper shows; {words}"


def _setting(result: Result) -> dict[str, Any]:
    """Frames, seeds and game; the theory has none of them."""
    if "config" not in result:
        return {"frames": None, "seeds": None, "where": "exact, on the CPU"}
    return {
        "frames": result["frames"],
        "seeds": result["config"]["seeds"],
        "where": results.setting(result),
    }


def _command(experiment: str, study: str, result: Result) -> str:
    """The command that made this result, with every option that is not the scale's own."""
    command = f"maskless reproduce {experiment} --scale {result['scale']}"
    if "config" not in result:
        return command
    used, usual = result["config"], make_plan(study, result["scale"]).config
    command += f" --studies {study}"
    for name in ("frames", "seeds", "precision"):
        if used[name] != getattr(usual, name):
            command += f" --{name} {used[name]}"
    return command
