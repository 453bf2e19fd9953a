"""The validity audit as a table, a figure and a file."""

from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from maskless.envs.mask_audit import Audit
from maskless.files import write_json
from maskless.report import style


def percent(count: float, total: int) -> str:
    """Tells a true zero from a rounded one."""
    if count == 0:
        return "·"
    share = 100 * count / total
    return "<0.1" if share < 0.1 else f"{share:.1f}"


def print_audit(audit: Audit, console: Console) -> None:
    sources = ", ".join(f"{count:,} {name}" for name, count in audit.sources.items())
    # Narrow enough for 80 columns.
    table = Table(
        title=f"{audit.env}: {audit.states:,} states ({sources})",
        caption="% of states, · = never. works = effective: changes the world; dead = it does not",
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("action", no_wrap=True)
    table.add_column("works", justify="right")
    for name in audit.rules:
        table.add_column(f"[bold]{name}[/]\n\nvalid", justify="right")
        table.add_column("works\nbut\nmasked", justify="right")
        table.add_column("dead\nbut\nvalid", justify="right")
    for number, action in enumerate(audit.action_names):
        row = [action, percent(audit.effective[number], audit.states)]
        for counts in audit.rules.values():
            row.append(percent(counts.valid[number], audit.states))
            for errors in (counts.effective_but_masked, counts.dead_but_valid):
                text = percent(errors[number], audit.states)
                row.append(text if text == "·" else f"[red]{text}[/red]")
        table.add_row(*row)
    console.print(table)
    for name, counts in audit.rules.items():
        checked = audit.states * len(audit.action_names)
        wrong = audit.errors(name)
        console.print(
            f"rules [bold]{name}[/bold]: {wrong:,} of {checked:,} state-actions"
            f" disagree with the game ({100 * wrong / checked:.2f} %)"
        )
        for reason, by_action in counts.waived.items():
            console.print(
                f"    {int(by_action.sum()):,} more by decision: {reason}", soft_wrap=True
            )


def draw_audit(audit: Audit, path: Path) -> None:
    """Per action: how often each rule set masks what works, and allows what does nothing."""
    rows = np.arange(len(audit.action_names))
    with style.figure(
        path,
        ncols=len(audit.rules),
        sharex=True,
        sharey=True,
        squeeze=False,
        figsize=(3.4 * len(audit.rules), 0.9 + 0.16 * len(rows)),
    ) as (fig, axes):
        for axis, (name, counts) in zip(axes[0], audit.rules.items(), strict=True):
            masked = 100 * counts.effective_but_masked / audit.states
            dead = 100 * counts.dead_but_valid / audit.states
            axis.barh(rows, -masked, color=style.VERMILION, label="works, but is masked")
            axis.barh(rows, dead, color=style.BLUE, label="does nothing, but is allowed")
            axis.axvline(0, color="black", linewidth=0.6)
            axis.set_title(f"rules: {name} ({audit.errors(name):,} errors)")
            axis.set_xlabel("% of states")
            axis.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        axes[0][0].set_yticks(rows, [name.replace("_", " ") for name in audit.action_names])
        axes[0][0].set_ylim(len(rows) - 0.5, -0.5)
        fig.suptitle(f"{audit.env}: masks against the game, {audit.states:,} states", fontsize=9)
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=2)


def save_audit(audit: Audit, folder: Path, provenance: dict[str, object]) -> list[Path]:
    """Writes validity.json and the figure validity.png/.svg; returns what was written."""
    write_json(folder / "validity.json", {**audit.to_json(), "provenance": provenance})
    draw_audit(audit, folder / "validity")
    return [folder / f"validity.{suffix}" for suffix in ("json", "png", "svg")]
