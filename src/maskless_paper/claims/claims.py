"""The paper's claims as data: where each is, what it says, and by which studies it is judged.

The claims and their numbers are those of the audit of the paper; L123 is a line in its source.
"""

import dataclasses

from maskless_paper.claims import classifier, returns, suppression
from maskless_paper.claims.check import Judge


@dataclasses.dataclass(frozen=True)
class Claim:
    """One claim: where it is, what it says, what it is judged by."""

    number: str
    lines: str
    text: str
    experiment: str
    """The table or figure that shows it."""
    studies: tuple[str, ...]
    """Results that can judge it."""
    judge: Judge


_FULL = ("full-hybrid", "full-gru", "full-mlp")
_CLASSIC = ("classic-mlp", "classic-gru", "classic-hybrid")
_CORRIDOR = ("corridor-gru", "corridor-mlp", "corridor-hybrid")

# fmt: off
CLAIMS: tuple[Claim, ...] = (
    # number, lines, text, experiment, studies, judge
    Claim("T1", "L434-L509",
          "The gradient identities hold, and π(a|s*) ≤ e^-K / n; the bound is tight, the decay"
          " exponential",
          "theory", ("theory",),
          classifier.statements_hold(
              "logit_gradient", "zero_sum", "theorem", "tightness", "decay_law")),
    Claim("T2", "L584-L621", "With an entropy bonus K converges, and the probability has a floor",
          "theory", ("theory",),
          classifier.statements_hold("entropy_gradient", "entropy_rate", "floor")),
    Claim("T3", "L193, L240",
          "A mask gives invalid logits no gradient, and decouples unvisited states",
          "theory", ("theory",), classifier.statements_hold("masked_gradient", "decoupling")),
    Claim("1", "L316",
          "Craftax, unmasked: π(descend | valid) falls from 0.023 to below 1e-4 by 50 M frames",
          "suppression", _FULL, suppression.suppressed(1e-4, 50_000_000)),
    Claim("2", "L316",
          "Craftax: unmasked selects fewer than 15 % valid actions early, masked 100 %",
          "suppression", _FULL, suppression.valid_rates),
    Claim("3", "L316", "Corridor-R5, unmasked: π(open_door | valid) falls from 0.09 to below 1e-3",
          "suppression", _CORRIDOR, suppression.suppressed(1e-3)),
    Claim("4", "L318", "Masked: both actions stay at 0.5 to 1.0 where they are valid",
          "suppression", (*_FULL, *_CORRIDOR), suppression.masked_probability),
    Claim("5", "L320",
          "Craftax, unmasked: descend stays below 1e-2 for over 100 M frames, then recovers",
          "suppression", _FULL, suppression.recovery),
    Claim("6", "L1117",
          "Unmasked + predictor, λ = 20: descend below 1e-3, back above 0.1 at 125 to 150 M"
          " frames",
          "descend-profile", ("predictor",), suppression.unmasked_predictor),
    Claim("7", "L1119",
          "Masked, λ = 20: descend above 0.1; correlation 0.75 to 0.85, lower with a predictor",
          "descend-profile", ("predictor",), suppression.masked_predictor),
    Claim("8", "L336-L340",
          "Feature correlation: masked 0.8 to 1.0, unmasked about 0.3, masked-kl about 0.4",
          "correlation", _FULL, suppression.correlations),
    Claim("9", "L387-L389", "Table 1, Craftax, MLP",
          "table-masks", ("full-mlp",), returns.table_one),
    Claim("10", "L395-L397", "Table 1, Craftax, RNN",
          "table-masks", ("full-gru",), returns.table_one),
    Claim("11", "L402-L405", "Table 1, Craftax, Hybrid",
          "table-masks", ("full-hybrid",), returns.table_one),
    Claim("11b", "L354",
          "A classifier raises the return even with the oracle's masks (+7 % on Craftax-Hybrid)",
          "beyond-oracle", (*_FULL, *_CLASSIC), returns.beyond_oracle),
    Claim("12", "L386-L389", "Table 1, Classic, MLP",
          "table-masks", ("classic-mlp",), returns.table_one),
    Claim("13", "L394-L405", "Table 1, Classic, RNN and Hybrid",
          "table-masks", ("classic-gru", "classic-hybrid"), returns.table_one),
    Claim("14", "L358",
          "Classic: diamonds in 20 % of the episodes unmasked, in 60 % with masked-kl",
          "beyond-oracle", ("classic-gru", "classic-mlp"), returns.diamonds),
    Claim("15", "L386-L405",
          "Corridor-R5: 0.9 to 1.0 for all; without masks masked falls to 0.1 to 0.3, classifiers"
          " do not",
          "table-masks", _CORRIDOR, returns.corridor_returns),
    Claim("16", "L394-L397", "Corridor-R5, frames to a return of 1.0: masked first, unmasked last",
          "beyond-oracle", ("corridor-gru", "corridor-hybrid"), returns.frames_to_one),
    Claim("17", "L386-L405",
          "Corridor-R5, episode lengths: about 52 steps for the RNN, 114 to 161 for the MLP",
          "beyond-oracle", _CORRIDOR, returns.lengths),
    Claim("18", "L342, L1083", "The predictor is 99 % accurate, with or without masks",
          "predictor-ablation", ("predictor",), classifier.accuracy),
    Claim("18b", "L342", "The predictor is 99 % accurate, in the other games and networks too",
          "deployment", (*_CLASSIC, *_CORRIDOR, *_FULL), classifier.accuracy),
    Claim("19", "L1099-L1101",
          "λ: the return is stable; 97 % accuracy at 0.1, above 98 % from 5; within 5 % from 5",
          "lambda-sweep", ("lambda",), classifier.strengths),
    Claim("20", "L1083",
          "Ablation: three conditions converge; masked + predictor like unmasked + predictor",
          "predictor-ablation", ("predictor",), returns.ablation),
    Claim("21", "L138, L363",
          "The order: masked collapses without masks; masked-kl keeps most, more than"
          " masked-focal",
          "deployment", (*_CLASSIC, *_CORRIDOR, *_FULL), returns.orders),
    Claim("22a", "L757", "Craftax: 12 to 19 % of the actions are valid",
          "suppression", _FULL, classifier.valid_shares(0.12, 0.19)),
    Claim("22b", "L758", "Classic: 29 to 47 % of the actions are valid",
          "suppression", _CLASSIC, classifier.valid_shares(0.29, 0.47)),
    Claim("22c", "L759", "Corridor-R5: 27 to 45 % of the actions are valid",
          "suppression", _CORRIDOR, classifier.valid_shares(0.27, 0.45)),
    Claim("23a", "L660, L690", "Craftax: 8268 numbers, 43 actions",
          "table-masks", _FULL, classifier.dimensions(8268, 43)),
    Claim("23b", "L660, L690", "Classic: 1345 numbers, 17 actions",
          "table-masks", _CLASSIC, classifier.dimensions(1345, 17)),
    Claim("23c", "L735", "Corridor-R5: 11 actions",
          "table-masks", _CORRIDOR, classifier.dimensions(None, 11)),
)
# fmt: on
