"""Verdicts on the paper's claims, from the results of studies: `results/claims.json`.

    judged = judge_all(read_studies(Path("results/studies")))

A claim has checks that can each be true or false of our runs; a check that our runs are too short
for, or that was not run, is open. All true: reproduced. All false: not reproduced. Otherwise:
partly. Nothing decided: not run yet.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from maskless_paper import results
from maskless_paper.claims.check import Check
from maskless_paper.claims.claims import CLAIMS, Claim
from maskless_paper.plans import make_plan
from maskless_paper.study_files import Result

Verdict = Literal["reproduced", "partly", "not reproduced", "not run yet"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclasses.dataclass(frozen=True)
class JudgedClaim:
    """A claim, judged."""

    claim: Claim
    checks: Mapping[str, Sequence[Check]]
    """By study."""
    results: Mapping[str, Result]

    @property
    def verdict(self) -> Verdict:
        holds = [check.holds for checks in self.checks.values() for check in checks]
        decided = [answer for answer in holds if answer is not None]
        if not decided:
            return "not run yet"
        if all(holds):
            return "reproduced"
        return "partly" if any(decided) else "not reproduced"

    def to_json(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "number": claim.number,
            "lines": claim.lines,
            "claim": claim.text,
            "verdict": self.verdict,
            "judged_by": [
                {
                    "study": study,
                    **_setting(self.results[study]),
                    "command": _command(claim.experiment, study, self.results[study]),
                    "parts": [dataclasses.asdict(check) for check in checks],
                }
                for study, checks in self.checks.items()
            ],
            "command": f"maskless reproduce {claim.experiment} --scale paper",
        }


def judge_all(studies: Mapping[str, Result]) -> list[JudgedClaim]:
    """Every claim, by all results that there are."""
    judged = []
    for claim in CLAIMS:
        available = {study: studies[study] for study in claim.studies if study in studies}
        checks = {study: tuple(claim.judge(result)) for study, result in available.items()}
        judged.append(JudgedClaim(claim, checks, available))
    return judged


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
