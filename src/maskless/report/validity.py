"""The validity audit as a table, a figure and a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from maskless.envs.mask_audit import Audit
from maskless.files import printable, write_json
from maskless.report import style
from maskless.report.text import console_table, percent


def print_audit(audit: Audit, console: Console) -> None:
    sources = ", ".join(f"{count:,} {name}" for name, count in audit.sources.items())
    header: list[str | Text] = ["action", "works"]
    for name in audit.rules:
        header += [
            Text.assemble((printable(name), "bold"), "\n\nvalid"),
            "works\nbut\nmasked",
            "dead\nbut\nvalid",
        ]
    rows = []
    for number, action in enumerate(audit.action_names):
        row: list[str | Text] = [action, percent(audit.effective[number] / audit.states)]
        for counts in audit.rules.values():
            row.append(percent(counts.valid[number] / audit.states))
            for errors in (counts.effective_but_masked, counts.dead_but_valid):
                text = percent(errors[number] / audit.states)
                row.append(text if text == "·" else Text(text, "red"))
        rows.append(row)
    title = f"{audit.env}: {audit.states:,} states ({sources})"
    caption = "% of states, · = never. works = effective: changes the world; dead = it does not"
    console.print(console_table(title, header, rows, caption=caption))
    if audit.always_works:
        console.print(
            "every action works in every state: if the state holds a counter or a clock, leave it"
            " out by overriding effect_view",
            soft_wrap=True,
        )
    for name, counts in audit.rules.items():
        checked = audit.states * len(audit.action_names)
        wrong = audit.errors(name)
        console.print(
            f"rules {name}: {wrong:,} of {checked:,} state-actions"
            f" disagree with the game ({100 * wrong / checked:.2f} %)"
        )
        for reason, by_action in counts.waived.items():
            console.print(
                f"    {int(by_action.sum()):,} more by decision: {reason}", soft_wrap=True
            )


def draw_errors(
    axis: Any, action_names: Sequence[str], masked: np.ndarray, allowed: np.ndarray, *labels: str
) -> None:
    """Per action, two shares of states as bars: wrongly masked to the left, wrongly allowed to the
    right. `labels`: of the two."""
    rows = np.arange(len(action_names))
    axis.barh(rows, -100 * masked, color=style.VERMILION, label=labels[0])
    axis.barh(rows, 100 * allowed, color=style.BLUE, label=labels[1])
    axis.axvline(0, color="black", linewidth=0.6)
    axis.set_xlabel("% of states")
    axis.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    axis.set_yticks(rows, [style.label(name.replace("_", " ")) for name in action_names])
    axis.set_ylim(len(rows) - 0.5, -0.5)


def draw_audit(audit: Audit, path: Path) -> None:
    """Per action: how often each rule set masks what works, and allows what does nothing."""
    names = audit.action_names
    with style.figure(
        path,
        ncols=len(audit.rules),
        sharex=True,
        sharey=True,
        squeeze=False,
        figsize=(3.4 * len(audit.rules), 0.9 + 0.16 * len(names)),
    ) as (fig, axes):
        for axis, (name, counts) in zip(axes[0], audit.rules.items(), strict=True):
            masked, dead = counts.effective_but_masked, counts.dead_but_valid
            labels = ("works, but is masked", "does nothing, but is allowed")
            draw_errors(axis, names, masked / audit.states, dead / audit.states, *labels)
            axis.set_title(f"rules: {style.label(name)} ({audit.errors(name):,} errors)")
        fig.suptitle(
            f"{style.label(audit.env)}: masks against the game, {audit.states:,} states", fontsize=9
        )
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=2)


def save_audit(audit: Audit, folder: Path, provenance: dict[str, object]) -> list[Path]:
    """Writes validity.json and the figure validity.png/.svg; returns what was written."""
    write_json(folder / "validity.json", {**audit.to_json(), "provenance": provenance})
    draw_audit(audit, folder / "validity")
    return [folder / f"validity.{suffix}" for suffix in ("json", "png", "svg")]
