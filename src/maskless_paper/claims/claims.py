"""The paper's claims as data, each judged by committed results: `results/claims.json`.

    ledger = judge_all(read_studies(Path("results/studies")))

A claim has parts that can each be true or false of our runs; a part that our runs are too short
for, or that was not run, is open. All true: reproduced. All false: not reproduced. Otherwise:
partly. No part judged: not run yet. The claims and their numbers are those of the audit of the
paper; L123 is a line in its source.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from maskless_paper import results
from maskless_paper.claims import judges
from maskless_paper.claims.judges import Part
from maskless_paper.run import Result
from maskless_paper.studies import make_plan

Verdict = Literal["reproduced", "partly", "not reproduced", "not run yet"]


@dataclasses.dataclass(frozen=True)
class Claim:
    """One claim: where it is, what it says, what it is judged by."""

    number: str
    lines: str
    text: str
    experiment: str
    studies: tuple[str, ...]
    """Results that can judge it."""
    judge: Callable[[Result], Sequence[Part]]
    """The parts, from one of these results."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A claim, judged."""

    claim: Claim
    parts: Mapping[str, Sequence[Part]]
    """By study."""
    results: Mapping[str, Result]

    @property
    def verdict(self) -> Verdict:
        known = [p.holds for parts in self.parts.values() for p in parts]
        judged = [holds for holds in known if holds is not None]
        if not judged:
            return "not run yet"
        if all(judged) and None not in known:
            return "reproduced"
        return "partly" if any(judged) else "not reproduced"

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
                    **_about(self.results[study]),
                    "command": _command(claim.experiment, study, self.results[study]),
                    "parts": [dataclasses.asdict(part) for part in parts],
                }
                for study, parts in self.parts.items()
            ],
            "command": f"maskless reproduce {claim.experiment} --scale paper",
        }


def judge_all(found: Mapping[str, Result]) -> list[Entry]:
    """Every claim, by all results that there are."""
    ledger = []
    for claim in CLAIMS:
        mine = {study: found[study] for study in claim.studies if study in found}
        parts = {study: tuple(claim.judge(result)) for study, result in mine.items()}
        ledger.append(Entry(claim, parts, mine))
    return ledger


def _about(result: Result) -> dict[str, Any]:
    """Frames and seeds; the theory has neither."""
    if "config" not in result:
        return {"frames": None, "seeds": None, "where": "exact, on the CPU"}
    return {
        "frames": result["frames"],
        "seeds": result["config"]["seeds"],
        "where": results.environment(result),
    }


def _command(experiment: str, study: str, result: Result) -> str:
    """What made this result, with all that was not the scale's own."""
    command = f"maskless reproduce {experiment} --scale {result['scale']}"
    if "config" not in result:
        return command
    used, usual = result["config"], make_plan(study, result["scale"]).config
    command += f" --studies {study}"
    for name in ("frames", "seeds", "precision"):
        if used[name] != getattr(usual, name):
            command += f" --{name} {used[name]}"
    return command


_FULL = ("full-hybrid", "full-gru", "full-mlp")
_CLASSIC = ("classic-mlp", "classic-gru", "classic-hybrid")
_CORRIDOR = ("corridor-gru", "corridor-mlp", "corridor-hybrid")
_HOLDS = ("holds",)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "T1",
        "L434-L509",
        "The gradient identities hold, and π(a|s*) ≤ e^-K / n; the bound is tight, the decay"
        " exponential",
        "theory",
        ("theory",),
        judges.statements(
            dict.fromkeys(
                ("logit_gradient", "zero_sum", "theorem", "tightness", "decay_law"), _HOLDS
            )
        ),
    ),
    Claim(
        "T2",
        "L584-L621",
        "With an entropy bonus K converges, and the probability has a floor",
        "theory",
        ("theory",),
        judges.statements(dict.fromkeys(("entropy_gradient", "entropy_rate", "floor"), _HOLDS)),
    ),
    Claim(
        "T3",
        "L193, L240",
        "A mask gives invalid logits no gradient, and decouples unvisited states",
        "theory",
        ("theory",),
        judges.statements(dict.fromkeys(("masked_gradient", "decoupling"), _HOLDS)),
    ),
    Claim(
        "1",
        "L316",
        "Craftax, unmasked: π(descend | valid) falls from 0.023 to below 1e-4 by 50 M frames",
        "suppression",
        _FULL,
        judges.suppressed(1e-4, 50_000_000),
    ),
    Claim(
        "2",
        "L316",
        "Craftax: unmasked selects fewer than 15 % valid actions early, masked 100 %",
        "suppression",
        _FULL,
        judges.valid_rates,
    ),
    Claim(
        "3",
        "L316",
        "Corridor-R5, unmasked: π(open_door | valid) falls from 0.09 to below 1e-3",
        "suppression",
        _CORRIDOR,
        judges.suppressed(1e-3),
    ),
    Claim(
        "4",
        "L318",
        "Masked: both actions stay at 0.5 to 1.0 where they are valid",
        "suppression",
        (*_FULL, *_CORRIDOR),
        judges.masked_probability,
    ),
    Claim(
        "5",
        "L320",
        "Craftax, unmasked: descend stays below 1e-2 for over 100 M frames, then recovers",
        "suppression",
        _FULL,
        judges.recovery,
    ),
    Claim(
        "6",
        "L1117",
        "Unmasked + predictor, λ = 20: descend below 1e-3, back above 0.1 at 125 to 150 M frames",
        "descend-profile",
        ("predictor",),
        judges.unmasked_predictor,
    ),
    Claim(
        "7",
        "L1119",
        "Masked, λ = 20: descend above 0.1; correlation 0.75 to 0.85, lower with a predictor",
        "descend-profile",
        ("predictor",),
        judges.masked_predictor,
    ),
    Claim(
        "8",
        "L336-L340",
        "Feature correlation: masked 0.8 to 1.0, unmasked about 0.3, masked-kl about 0.4",
        "correlation",
        _FULL,
        judges.correlations,
    ),
    Claim(
        "9", "L387-L389", "Table 1, Craftax, MLP", "table-masks", ("full-mlp",), judges.table_one
    ),
    Claim(
        "10", "L395-L397", "Table 1, Craftax, RNN", "table-masks", ("full-gru",), judges.table_one
    ),
    Claim(
        "11",
        "L402-L405",
        "Table 1, Craftax, Hybrid",
        "table-masks",
        ("full-hybrid",),
        judges.table_one,
    ),
    Claim(
        "11b",
        "L354",
        "A classifier raises the return even with the oracle's masks (+7 % on Craftax-Hybrid)",
        "beyond-oracle",
        (*_FULL, *_CLASSIC),
        judges.beyond,
    ),
    Claim(
        "12",
        "L386-L389",
        "Table 1, Classic, MLP",
        "table-masks",
        ("classic-mlp",),
        judges.table_one,
    ),
    Claim(
        "13",
        "L394-L405",
        "Table 1, Classic, RNN and Hybrid",
        "table-masks",
        ("classic-gru", "classic-hybrid"),
        judges.table_one,
    ),
    Claim(
        "14",
        "L358",
        "Classic: diamonds in 20 % of the episodes unmasked, in 60 % with masked-kl",
        "beyond-oracle",
        ("classic-gru", "classic-mlp"),
        judges.diamonds,
    ),
    Claim(
        "15",
        "L386-L405",
        "Corridor-R5: 0.9 to 1.0 for all; without masks masked falls to 0.1 to 0.3, classifiers do"
        " not",
        "table-masks",
        _CORRIDOR,
        judges.corridor_returns,
    ),
    Claim(
        "16",
        "L394-L397",
        "Corridor-R5, frames to a return of 1.0: masked first, unmasked last",
        "beyond-oracle",
        ("corridor-gru", "corridor-hybrid"),
        judges.frames_to_one,
    ),
    Claim(
        "17",
        "L386-L405",
        "Corridor-R5, episode lengths: about 52 steps for the RNN, 114 to 161 for the MLP",
        "beyond-oracle",
        _CORRIDOR,
        judges.lengths,
    ),
    Claim(
        "18",
        "L342, L1083",
        "The predictor is 99 % accurate, with or without masks",
        "predictor-ablation",
        ("predictor",),
        judges.accuracy,
    ),
    Claim(
        "18b",
        "L342",
        "The predictor is 99 % accurate, in the other games and networks too",
        "deployment",
        (*_CLASSIC, *_CORRIDOR, *_FULL),
        judges.accuracy,
    ),
    Claim(
        "19",
        "L1099-L1101",
        "λ: the return is stable; 97 % accuracy at 0.1, above 98 % from 5; within 5 % from 5",
        "lambda-sweep",
        ("lambda",),
        judges.strengths,
    ),
    Claim(
        "20",
        "L1083",
        "Ablation: three conditions converge; masked + predictor like unmasked + predictor",
        "predictor-ablation",
        ("predictor",),
        judges.ablation,
    ),
    Claim(
        "21",
        "L138, L363",
        "The order: masked collapses without masks; masked-kl keeps most, more than masked-focal",
        "deployment",
        (*_CLASSIC, *_CORRIDOR, *_FULL),
        judges.orders,
    ),
    Claim(
        "22a",
        "L757",
        "Craftax: 12 to 19 % of the actions are valid",
        "suppression",
        _FULL,
        judges.valid_shares(0.12, 0.19),
    ),
    Claim(
        "22b",
        "L758",
        "Classic: 29 to 47 % of the actions are valid",
        "suppression",
        _CLASSIC,
        judges.valid_shares(0.29, 0.47),
    ),
    Claim(
        "22c",
        "L759",
        "Corridor-R5: 27 to 45 % of the actions are valid",
        "suppression",
        _CORRIDOR,
        judges.valid_shares(0.27, 0.45),
    ),
    Claim(
        "23a",
        "L660, L690",
        "Craftax: 8268 numbers, 43 actions",
        "table-masks",
        _FULL,
        judges.dimensions(8268, 43),
    ),
    Claim(
        "23b",
        "L660, L690",
        "Classic: 1345 numbers, 17 actions",
        "table-masks",
        _CLASSIC,
        judges.dimensions(1345, 17),
    ),
    Claim(
        "23c",
        "L735",
        "Corridor-R5: 11 actions",
        "table-masks",
        _CORRIDOR,
        judges.dimensions(None, 11),
    ),
)
