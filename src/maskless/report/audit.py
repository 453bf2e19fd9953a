"""The audit of predicted masks as a table, figures, a page and a file."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from maskless.envs import Environment
from maskless.evaluation.audit import PredictionAudit
from maskless.files import output_folder, write_json
from maskless.provenance import provenance
from maskless.report import style
from maskless.report.evaluation import masks_in_words
from maskless.report.page import Page
from maskless.report.text import console_table, number, percent, recorded
from maskless.report.validity import draw_errors

LEAST_SCORES = 20
"""Bins with fewer scores are left out of the calibration curve."""
CAPTIONS = {
    "audit_errors": "How often each action is masked although valid, or allowed although not.",
    "audit_calibration": "Predicted probability of being valid against how often it is. On the"
    " diagonal, probabilities can be taken at their word.",
    "audit_costs": "Return lost to the errors about each action, ± 2 standard errors.",
}
_SHOWN_NUMBERS = 60  # of an observation that has no picture
_PER_ACTION = ("probability", "oracle_policy", "predicted_policy")
_HEADER = (
    *("action", "valid %", "allowed but invalid %", "masked but valid %"),
    *("recall", "precision", "return lost"),
)


def summary(audit: PredictionAudit) -> str:
    """One sentence or two."""
    entries = audit.states * len(audit.action_names)
    wrong = int(audit.errors.sum())
    text = (
        f"{wrong:,} of {entries:,} predicted mask entries are wrong ({100 * wrong / entries:.3g} %)"
        f" in {audit.states:,} states; the policy moves by a total variation of"
        f" {audit.tally.total_variation / audit.states:.2g} on the average. Return"
        f" {audit.predicted_return:.2f} under predicted masks,"
        f" {audit.oracle_return:.2f} under the oracle's. Steps that repeat what has just failed:"
        f" {percent(audit.stuck, zero='0')} %; without the memory of failures"
        f" {percent(audit.forgetful_stuck, zero='0')} %, and the return is"
        f" {audit.forgetful_return:.2f}."
    )
    if audit.clone_return is not None:
        text += f" By its clone, without masks: {audit.clone_return:.2f}."
    costly = max(audit.costs, key=lambda name: audit.costs[name].lost, default=None)
    if costly is not None and audit.costs[costly].is_certain:
        cost = audit.costs[costly]
        text += f" Errors about {costly} cost most: {cost.lost:.2f} ± {cost.error:.2f}."
    return text


def audit_rows(audit: PredictionAudit) -> list[list[str]]:
    """One row per action, the one with most errors first."""
    tally, rows = audit.tally, []
    for action in np.argsort(-audit.errors, kind="stable"):
        name = audit.action_names[action]
        hits, masked = tally.allowed_valid[action], tally.masked_valid[action]
        allowed_wrongly = tally.allowed_invalid[action]
        valid, allowed = hits + masked, hits + allowed_wrongly
        cost = audit.costs.get(name)
        rows.append(
            [
                name,
                *(percent(x / audit.states) for x in (valid, allowed_wrongly, masked)),
                number(hits / valid if valid else None, "{:.3f}"),
                number(hits / allowed if allowed else None, "{:.3f}"),
                "·" if cost is None else f"{cost.lost:.2f} ± {cost.error:.2f}",
            ]
        )
    return rows


def print_audit(audit: PredictionAudit, console: Console) -> None:
    title = f"{audit.run.name}, seed {audit.run.seed}: predicted masks where the policy acts"
    caption = "% of states, · = never (no errors, nothing lost), – = nothing to judge by"
    header = ("action", "valid", "allowed\nbut\ninvalid", "masked\nbut\nvalid", *_HEADER[4:])
    console.print(console_table(title, header, audit_rows(audit), caption=caption))
    console.print(summary(audit), markup=False, soft_wrap=True)
    console.print(_threshold_line(audit), markup=False, highlight=False, soft_wrap=True)


def _threshold_line(audit: PredictionAudit) -> str:
    thresholds = audit.run.thresholds_by_name(audit.action_names)
    return f"Predicted masks: {masks_in_words(thresholds, [str(x) for x in audit.run.overrides])}."


def save_audit(audit: PredictionAudit, env: Environment, folder: Path) -> list[Path]:
    """Writes audit.json, audit.html and the figures; returns the first two."""
    examples = describe_examples(audit, env)
    write_json(folder / "audit.json", _as_json(audit, examples) | {"provenance": provenance()})
    figures = draw_audit(audit, output_folder(folder / "figures"))
    page = Page(
        f"Audit: {audit.run.name}, seed {audit.run.seed}",
        f"{env.id}: predicted masks beside the oracle's, where the policy acts under the former.",
    )
    page.heading("Result")
    page.text(summary(audit))
    page.text(_threshold_line(audit), dim=True)
    page.figures(figures)
    page.heading("Actions")
    page.table(_HEADER, audit_rows(audit))
    page.bullets(
        [
            "valid, allowed but invalid, masked but valid: % of states; · = never.",
            "recall: of the states in which it is valid, those in which it was allowed.",
            "precision: of the states in which it was allowed, those in which it is valid.",
            "return lost: what is gained when the oracle decides about this action only, with the"
            f" same levels and dice, ± standard error ({audit.episodes:,} episodes each). These"
            " do not add up: where several entries are wrong, the right word about one of them may"
            " help little.",
        ],
        dim=True,
    )
    page.heading("Worst states")
    page.text(
        "The states in which the predicted mask changes the policy most (KL divergence with soft"
        " masks), at most one from each environment."
    )
    for rank, example in enumerate(examples):
        _add_example(page, rank, example, audit, env)
    return [folder / "audit.json", page.write(folder / "audit.html")]


def _add_example(
    page: Page, rank: int, example: dict[str, Any], audit: PredictionAudit, env: Environment
) -> None:
    page.subheading(
        f"{rank + 1}. KL {example['kl']:.3g}, total variation {example['total_variation']:.3g}"
    )
    for title, picture in env.render(_worst(audit, rank).state).items():
        page.text(title, dim=True)
        page.screen(picture)
    for title, numbers in example["observation"].items():
        page.folded(f"{title}: numbers that are not 0, by position", numbers)
    header = ["action", "is valid", "predicted", "π under oracle", "π under prediction"]
    rows = [
        [
            action["action"],
            "yes" if action["valid"] else "no",
            f"{100 * action['probability']:.1f} %",
            f"{action['oracle_policy']:.3f}",
            f"{action['predicted_policy']:.3f}",
        ]
        for action in example["actions"]
    ]
    page.table(header, rows)


def describe_examples(audit: PredictionAudit, env: Environment) -> list[dict[str, Any]]:
    """The worst states for people: pictures, and the actions whose mask or probability changes."""
    examples = []
    for rank in range(len(audit.worst.kl)):
        worst = _worst(audit, rank)
        if worst.kl <= 1e-6:
            continue  # nothing is wrong there
        moved = np.abs(worst.oracle_policy - worst.predicted_policy)
        shown = (moved > 0.01) | (worst.predicted != worst.valid)
        examples.append(
            {
                "kl": float(worst.kl),
                "total_variation": float(worst.total_variation),
                "pictures": _pictures(env, worst.state),
                "observation": _nonzero_numbers(worst.observation),
                "actions": [
                    {"action": audit.action_names[a], "valid": bool(worst.valid[a])}
                    | {name: float(getattr(worst, name)[a]) for name in _PER_ACTION}
                    for a in np.argsort(-moved, kind="stable")
                    if shown[a]
                ],
            }
        )
    return examples


def _worst(audit: PredictionAudit, rank: int) -> Any:
    return jax.tree.map(lambda x: x[rank], audit.worst)


def _pictures(env: Environment, state: Any) -> dict[str, str]:
    """What `render` shows, as plain text."""
    pictures = {}
    for title, picture in env.render(state).items():
        lines = [line.rstrip() for line in recorded(picture).export_text().splitlines()]
        pictures[title] = "\n".join(line for line in lines if line)
    return pictures


def _nonzero_numbers(observation: Any) -> dict[str, str]:
    """The first numbers of each part of an observation that are not zero, by their position."""
    texts = {}
    for path, leaf in jax.tree.leaves_with_path(observation):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "observation"
        values = np.asarray(leaf).ravel()
        positions = np.flatnonzero(values)
        text = "  ".join(f"{n}: {values[n]:.4g}" for n in positions[:_SHOWN_NUMBERS])
        more = len(positions) - _SHOWN_NUMBERS
        texts[f"{name} {list(np.shape(leaf))}"] = text + (f"  … {more} more" if more > 0 else "")
    return texts


def draw_audit(audit: PredictionAudit, folder: Path) -> list[tuple[Path, str]]:
    """All figures, with captions."""
    drawings = {"audit_errors": _draw_errors, "audit_calibration": _draw_calibration}
    if audit.costs:
        drawings["audit_costs"] = _draw_costs
    for name, draw in drawings.items():
        draw(audit, folder / name)
    return [(folder / f"{name}.svg", CAPTIONS[name]) for name in drawings]


def _draw_errors(audit: PredictionAudit, path: Path) -> None:
    names = audit.action_names
    with style.figure(path, figsize=(3.3, 1.1 + 0.16 * len(names))) as (fig, axis):
        masked = audit.tally.masked_valid / audit.states
        allowed = audit.tally.allowed_invalid / audit.states
        draw_errors(axis, names, masked, allowed, "valid, but masked", "invalid, but allowed")
        if not audit.errors.any():
            axis.set_xlim(-1, 1)
        fig.legend(loc="outside lower center", ncols=2, fontsize=7)


def _draw_calibration(audit: PredictionAudit, path: Path) -> None:
    """All actions together, and the three with most errors."""
    worst = [a for a in np.argsort(-audit.errors, kind="stable")[:3] if audit.errors[a]]
    lines = {"all actions": slice(None)} | {
        style.label(audit.action_names[a].replace("_", " ")): slice(a, a + 1) for a in worst
    }
    colours = ("black", style.VERMILION, style.BLUE, style.GREEN)
    with style.figure(path, figsize=(3.3, 3.3)) as (fig, axis):
        axis.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8)
        for (label, actions), colour in zip(lines.items(), colours, strict=False):
            count = audit.tally.scores_in[:, actions].sum(-1)
            enough = count >= LEAST_SCORES
            total = count[enough]
            predicted = audit.tally.probability_in[:, actions].sum(-1)[enough] / total
            observed = audit.tally.valid_in[:, actions].sum(-1)[enough] / total
            axis.plot(predicted, observed, "o-", color=colour, markersize=3, lw=1.2, label=label)
        axis.set_xlabel("predicted probability of being valid")
        axis.set_ylabel("share that is valid")
        axis.set_xlim(-0.03, 1.03)
        axis.set_ylim(-0.03, 1.03)
        fig.legend(loc="outside lower center", ncols=2, fontsize=7)


def _draw_costs(audit: PredictionAudit, path: Path) -> None:
    names = sorted(audit.costs, key=lambda name: -audit.costs[name].lost)
    costs = [audit.costs[name] for name in names]
    rows = np.arange(len(names))
    with style.figure(path, figsize=(3.3, 0.9 + 0.18 * len(rows))) as (_, axis):
        errors = [2 * cost.error if cost.error == cost.error else 0.0 for cost in costs]
        axis.barh(rows, [c.lost for c in costs], xerr=errors, color=style.ORANGE)
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set_yticks(rows, [style.label(name.replace("_", " ")) for name in names])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel("return lost")


def _as_json(audit: PredictionAudit, examples: list[dict[str, Any]]) -> dict[str, Any]:
    tally = audit.tally

    def named(counts: np.ndarray) -> dict[str, int]:
        return dict(zip(audit.action_names, (int(x) for x in counts), strict=True))

    def finite(number: float) -> float | None:
        return number if number == number else None

    return {
        "summary": summary(audit),
        "condition": audit.run.name,
        "seed": audit.run.seed,
        "update": audit.run.update,
        "thresholds": audit.run.thresholds_by_name(audit.action_names),
        "overrides": [str(rule) for rule in audit.run.overrides],
        "states": audit.states,
        "confusion": {
            name: named(getattr(tally, name))
            for name in ("allowed_valid", "allowed_invalid", "masked_valid", "masked_invalid")
        },
        "calibration": {
            name: np.asarray(getattr(tally, name)).T.tolist()
            for name in ("scores_in", "valid_in", "probability_in")
        },
        "total_variation": float(tally.total_variation / audit.states),
        "kl": float(tally.kl / audit.states),
        "fallback_rate": float(tally.fallbacks / audit.states),
        "episodes": audit.episodes,
        "oracle_return": audit.oracle_return,
        "predicted_return": audit.predicted_return,
        "forgetful_return": audit.forgetful_return,
        "clone_return": audit.clone_return,
        "stuck": audit.stuck,
        "forgetful_stuck": audit.forgetful_stuck,
        "return_lost": {
            name: {"lost": cost.lost, "standard_error": finite(cost.error)}
            for name, cost in audit.costs.items()
        },
        "worst_states": examples,
    }
