"""The paper's claims as data: where each is, what it says, and by which studies it is judged.

The claims and their numbers are those of the audit of the paper; L123 is a line in its source.
"""

import dataclasses

from maskless_paper.claims import classifier, deployment, returns, suppression
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
    note: str = ""
    """What a reader must know of how it is judged."""
    network: str = ""
    """That of the paper's figure or number, where ours may be another."""


_FULL = ("full-hybrid", "full-gru", "full-mlp")
_CLASSIC = ("classic-mlp", "classic-gru", "classic-hybrid")
_KEPT = (
    "full-mlp",
    "classic-mlp",
    "classic-loop",
    "lambda",
    "gamma",
    "corridor-gru",
    "corridor-loop",
)
_CORRIDOR = ("corridor-gru", "corridor-mlp", "corridor-hybrid")

# fmt: off
CLAIMS: tuple[Claim, ...] = (
    # number, lines, text, experiment, studies, judge
    Claim("T1", "L223-L238, L434-L509",
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
          "suppression", _FULL, suppression.suppressed(1e-4, 50_000_000),
          "By the rule of ten states; findings.md has the lowest over at least a hundred.",
          network="hybrid"),
    Claim("1b", "L223-L232, L1057-L1065",
          "At its first valid occurrence a rare action is suppressed without masks, not under them"
          " (the suppression ratio)",
          "first-occurrence", (*_FULL, *_CORRIDOR, *_CLASSIC), suppression.first_occurrence,
          "A tenth of uniform is the bar here as in claim 1. Often a single state (findings.md)."),
    Claim("2", "L316",
          "Craftax: unmasked selects fewer than 15 % valid actions early, masked 100 %",
          "suppression", _FULL, suppression.valid_rates,
          "Beside it: the share that uniform play has.",
          network="hybrid"),
    Claim("2b", "L316", "Corridor-R5: similarly suppressed valid selection rates",
          "suppression", _CORRIDOR, suppression.valid_rates,
          network="hybrid"),
    Claim("3", "L316", "Corridor-R5, unmasked: π(open_door | valid) falls from 0.09 to below 1e-3",
          "suppression", _CORRIDOR, suppression.suppressed(1e-3),
          "With a penalty of 0.01 for steps in which no time passes; findings.md has what happens"
          " without it.",
          network="hybrid"),
    Claim("4", "L318", "Masked: both actions stay at 0.5 to 1.0 where they are valid",
          "suppression", (*_FULL, *_CORRIDOR), suppression.masked_probability,
          network="hybrid"),
    Claim("5", "L320",
          "Craftax, unmasked: descend stays below 1e-2 for over 100 M frames, then recovers",
          "suppression", _FULL, suppression.recovery,
          network="hybrid"),
    Claim("6", "L1117",
          "Unmasked + predictor, λ = 20: descend below 1e-3, back above 0.1 at 125 to 150 M"
          " frames",
          "descend-profile", ("predictor",), suppression.unmasked_predictor),
    Claim("6b", "L1117", "Unmasked + predictor, λ = 20: the correlation begins at about 0.75",
          "descend-profile", ("predictor",), suppression.correlation_begins),
    Claim("7", "L1119",
          "Masked, λ = 20: descend above 0.1; correlation 0.75 to 0.85, lower with a predictor",
          "descend-profile", ("predictor",), suppression.masked_predictor),
    Claim("7b", "L1119", "Masked, λ = 20: a predictor lowers the probability at invalid states",
          "descend-profile", ("predictor",), suppression.lower_where_invalid),
    Claim("8", "L336-L340",
          "Feature correlation: masked 0.8 to 1.0, unmasked about 0.3, masked-kl about 0.4",
          "correlation", (*_FULL, *_CORRIDOR), suppression.correlations,
          network="hybrid"),
    Claim("8b", "L342", "A lower correlation is what enables deployment without the oracle",
          "correlation-kept", _KEPT, deployment.lower_correlation_keeps_more,
          "Of each training by itself (a no: of at least eight runs); findings.md puts those of one"
          " game together."),
    Claim("8c", "L338", "Unmasked, the features separate as a byproduct of the policy's collapse",
          "correlation", (*_FULL, *_CORRIDOR), suppression.separation_by_collapse,
          network="hybrid"),
    Claim("9", "L386-L389", "Table 1, Craftax, MLP",
          "table-masks", ("full-mlp",), returns.table_one),
    Claim("10", "L394-L397", "Table 1, Craftax, RNN",
          "table-masks", ("full-gru",), returns.table_one),
    Claim("11", "L402-L405", "Table 1, Craftax, Hybrid",
          "table-masks", ("full-hybrid",), returns.table_one),
    Claim("11b", "L354",
          "A classifier raises the return even with the oracle's masks (+7 % on Craftax-Hybrid)",
          "beyond-oracle", (*_FULL, *_CLASSIC), returns.beyond_oracle,
          "In the paper's own table in four of six cells."),
    Claim("12", "L386-L389", "Table 1, Classic, MLP",
          "table-masks", ("classic-mlp",), returns.table_one),
    Claim("13", "L394-L405", "Table 1, Classic, RNN and Hybrid",
          "table-masks", ("classic-gru", "classic-hybrid"), returns.table_one),
    Claim("14", "L358",
          "Classic: diamonds in 20 % of the episodes unmasked, in 60 % with masked-kl",
          "beyond-oracle", ("classic-gru", "classic-mlp"), returns.diamonds, network="gru"),
    Claim("15", "L386-L405",
          "Corridor-R5: 0.9 to 1.0 for all; without masks masked falls to 0.1 to 0.3, classifiers"
          " do not",
          "table-masks", _CORRIDOR, returns.corridor_returns,
          "In our runs a step in which no time passes costs 0.01, a thousand of them −10. The"
          " paper's rewards name no penalty (L742), its environment has one by default (L739):"
          " returns near −10 without masks say that its runs had none, or that the game differs"
          " otherwise."),
    Claim("16", "L394-L405", "Corridor-R5, frames to a return of 1.0: masked first, unmasked last",
          "beyond-oracle", ("corridor-gru", "corridor-hybrid"), returns.frames_to_one,
          "With another λ of GAE and RND than the paper's, so that its shares are not judged. Where"
          " every run of one got to 1.0 and none of the other, the one was sooner."),
    Claim("16b", "L356", "masked-kl needs nearly as many frames to a return of 1.0 as masked",
          "beyond-oracle", ("corridor-gru", "corridor-hybrid"), returns.frames_like_masked),
    Claim("17", "L386-L405",
          "Corridor-R5, episode lengths: about 52 steps for the RNN, 114 to 161 for the MLP",
          "beyond-oracle", _CORRIDOR, returns.lengths),
    Claim("18", "L342, L1083", "The predictor is 99 % accurate, with or without masks",
          "predictor-ablation", ("predictor",), classifier.accuracy,
          "A mean over all actions says little of a rare one: findings.md has the recall of"
          " descend."),
    Claim("18b", "L342", "The predictor is 99 % accurate, in the other games and networks too",
          "deployment", (*_CLASSIC, *_CORRIDOR, *_FULL), classifier.accuracy),
    Claim("19", "L1099-L1101",
          "λ: the return is stable; 97 % accuracy at 0.1, above 98 % from 5; within 5 % from 5",
          "lambda-sweep", ("lambda",), classifier.strengths,
          "Below the paper's scale the sweep is of another game and network: nothing counts."),
    Claim("19b", "L1099-L1101",
          "λ from 5 on returns more even with the oracle, and its loss is below 0.2",
          "lambda-sweep", ("lambda",), classifier.strengths_help),
    Claim("20", "L1083",
          "Ablation: three conditions converge; masked + predictor like unmasked + predictor",
          "predictor-ablation", ("predictor",), returns.ablation,
          "The paper's curves meet at 400 M frames: before that neither a yes nor a no counts."),
    Claim("20b", "L1083",
          "Ablation: with the oracle masked + predictor is above masked; masked is faster early",
          "predictor-ablation", ("predictor",), returns.oracle_helps_predictor),
    Claim("21", "L138, L363",
          "The order: masked collapses without masks; masked-kl keeps most, more than"
          " masked-focal",
          "deployment", (*_CLASSIC, *_CORRIDOR, *_FULL), deployment.orders,
          "In the paper's corridors both losses keep all: there nothing is asked of their order."),
    Claim("21b", "L138", "masked-kl is twice as good as masked-focal under predicted masks",
          "deployment", (*_CLASSIC, *_CORRIDOR, *_FULL), deployment.twice_as_good,
          "In the paper's own table in two of nine cells."),
    Claim("21c", "L138", "Acting under predicted masks costs 2 % (43.2 against 43.9, unmasked)",
          "deployment", ("full-hybrid", "full-mlp"), deployment.cost_of_deployment,
          network="hybrid"),
    Claim("21d", "L419", "Predicted masks recover the unmasked performance and never exceed it",
          "deployment", (*_CLASSIC, *_CORRIDOR, *_FULL), deployment.never_beyond_unmasked,
          "In the paper's own table masked-kl exceeds it in three of six cells of Craftax."),
    Claim("21e", "L358", "The focal loss has a higher variance",
          "beyond-oracle", (*_CLASSIC, *_FULL), deployment.variance),
    Claim("22a", "L757", "Craftax: 12 to 19 % of the actions are valid",
          "suppression", ("full-mlp",), classifier.valid_shares(0.12, 0.19)),
    Claim("22b", "L758", "Classic: 29 to 47 % of the actions are valid",
          "suppression", ("classic-mlp",), classifier.valid_shares(0.29, 0.47)),
    Claim("22c", "L759", "Corridor-R5: 27 to 45 % of the actions are valid",
          "suppression", ("corridor-gru",), classifier.valid_shares(0.27, 0.45),
          "Where it does not hold, the paper's corridor is not quite ours."),
    Claim("23a", "L660, L690", "Craftax: 8268 numbers, 43 actions",
          "table-masks", ("full-mlp",), classifier.dimensions(8268, 43)),
    Claim("23b", "L660, L690", "Classic: 1345 numbers, 17 actions",
          "table-masks", ("classic-mlp",), classifier.dimensions(1345, 17)),
    Claim("23c", "L733-L734", "Corridor-R5: 11 actions",
          "table-masks", ("corridor-gru",), classifier.dimensions(None, 11)),
)
# fmt: on
