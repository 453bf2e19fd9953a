"""The statements of the theory as a table, figures and a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maskless.files import write_json
from maskless.report import style
from maskless_paper.theory.finding import Finding

Curves = Mapping[str, Any]

_COLOURS = {
    "holds": "green",
    "holds after correction": "yellow",
    "false as printed": "red",
    "correction fails": "bold white on red",
}
_LINES = (style.BLUE, style.ORANGE, style.GREEN, style.VERMILION)
_SIZE = (3.4, 2.6)  # one column of a paper


def print_theory(findings: Mapping[str, Finding], console: Console) -> None:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 1, 0), expand=True)
    for column, width in (("statement", 8), ("in the paper", 4), ("verdict", 3), ("evidence", 9)):
        table.add_column(column, ratio=width, min_width=10)  # the longest word of a verdict
    for finding in findings.values():
        colour = _COLOURS[finding.verdict]
        correction = finding.correction and f"\n[yellow]-> {escape(finding.correction)}[/]"
        table.add_row(
            escape(finding.claim) + correction,
            escape(finding.paper),
            f"[{colour}]{finding.verdict}[/]",
            escape(finding.evidence),
        )
    console.print(table, markup=True)
    console.print("-> the corrected statement")
    counts = [finding.verdict for finding in findings.values()]
    console.print(", ".join(f"{counts.count(v)} {v}" for v in _COLOURS if v in counts))


def save_theory(
    findings: Mapping[str, Finding], folder: Path, provenance: Mapping[str, object]
) -> list[Path]:
    """Writes theory.json and the figures; returns what was written."""
    statements = {name: finding.to_json() for name, finding in findings.items()}
    path = folder / "theory.json"
    write_json(path, {"statements": statements, "provenance": dict(provenance)})
    return [path, *draw_theory(statements, folder)]


def draw_theory(statements: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draws all figures from the statements in theory.json; returns the PNGs."""
    for name, (statement, draw) in _FIGURES.items():
        curves = statements[statement]["curves"]
        with style.figure(folder / name, figsize=_SIZE) as (_, axes):
            draw(axes, curves)
    return [folder / f"{name}.png" for name in _FIGURES]


def _suppression(axes: Any, curves: Curves) -> None:
    """Each alignment, and the theorem's bound for it."""
    _alignments(axes, curves)
    for colour, bound in zip(_LINES, curves["bound"], strict=False):
        axes.plot(curves["step"], bound, color=colour, linestyle="--", linewidth=1)
    axes.plot([], [], color="black", linestyle="--", linewidth=1, label=r"bound $e^{-K_T}/n$")
    axes.set_ylim(3e-6, 0.5)
    _finish(axes, "Suppressed, far below the bound", r"$\pi$(descend | ladder)", legend_columns=2)


def _power_law(axes: Any, curves: Curves) -> None:
    """The same on two logarithmic axes, where a power law is a straight line."""
    labels = [
        f"alignment {alignment:g}: slope {slope:.2f}"
        for alignment, slope in zip(curves["alignment"], curves["slope"], strict=True)
    ]
    _alignments(axes, curves, labels)
    start = curves["probability"][-1][0]
    axes.plot(
        curves["step"],
        [start * 0.5 ** (step / 400) for step in curves["step"]],
        color=style.GREY,
        linestyle=":",
        label="an exponential",
    )
    axes.set_xscale("log")
    axes.set_ylim(3e-5, 0.5)
    _finish(axes, "A power law of the number of steps", r"$\pi$(descend | ladder)")


def _alignments(axes: Any, curves: Curves, labels: list[str] | None = None) -> None:
    labels = labels or [f"alignment {alignment:g}" for alignment in curves["alignment"]]
    for colour, label, probability in zip(_LINES, labels, curves["probability"], strict=False):
        axes.plot(curves["step"], probability, color=colour, label=label)


def _entropy(axes: Any, curves: Curves) -> None:
    """With entropy: what happens, the bound as printed, the bound as corrected."""
    step = curves["step"]
    for number, colour in ((2, style.BLUE), (3, style.VERMILION)):
        label = rf"$\beta$ = {curves['beta'][number]:g}"
        axes.plot(step, curves["probability"][number], color=colour, label=label)
        axes.plot(step, curves["bound_corrected"][number], color=colour, linestyle="--")
        axes.plot(step, curves["bound_printed"][number], color=colour, linestyle=":")
    axes.plot([], [], color="black", linestyle="--", label="bound, corrected")
    axes.plot([], [], color="black", linestyle=":", label="“bound”, as printed")
    axes.set_xscale("log")
    axes.set_ylim(1e-5, 0.5)
    _finish(axes, "Entropy stops the fall, not the printed K", r"$\pi$(descend | ladder)")


def _floor(axes: Any, curves: Curves) -> None:
    """The limit at an unvisited state of unit length, against the printed floor."""
    axes.axhline(curves["floor"], color="black", linestyle=":", label="floor, as printed")
    axes.plot(
        curves["angle"], curves["log_probability"], "o-", color=style.VERMILION, label="the limit"
    )
    axes.set_xlabel("angle between two visited states (degrees)")
    axes.set_ylabel(r"log $\pi(a\,|\,s^*)$")
    axes.set_title("No floor where nothing is learned")
    axes.set_ylim(-32, 0)
    axes.legend(loc="lower right")


def _masking(axes: Any, curves: Curves) -> None:
    for label, name, colour in (
        ("masked, ends at the ladder", "masked_ends", style.BLUE),
        ("masked, goes on behind it", "masked_goes_on", style.ORANGE),
        ("unmasked", "unmasked", style.VERMILION),
    ):
        axes.plot(curves["step"], curves[name], color=colour, label=label)
    axes.set_xscale("log")
    axes.set_ylim(1e-5, 2)
    _finish(axes, "A mask helps where moving on is invalid", r"$\pi$(descend | ladder)")


def _mask_removal(axes: Any, curves: Curves) -> None:
    """What the random corridors keep: the mean, and from the least to the most."""
    for label, name, colour in (
        ("invalid actions cost nothing", "kept", style.BLUE),
        ("they cost 0.01", "priced", style.VERMILION),
    ):
        axes.plot(curves["alignment"], curves[name], color=colour, label=label)
        low, high = curves[f"{name}_range"]
        axes.fill_between(curves["alignment"], low, high, color=colour, alpha=0.2, linewidth=0)
    axes.axhline(0.0, color=style.GREY, linewidth=0.8)
    axes.set_xlabel("alignment of the features")
    axes.set_ylabel("value kept without the mask")
    axes.set_title("A masked agent, its mask taken away")
    axes.legend(fontsize=7, loc=(0.03, 0.15))


def _finish(axes: Any, title: str, quantity: str, legend_columns: int = 1) -> None:
    axes.axhline(1 / 6, color=style.GREY, linewidth=0.8, linestyle="-.", label="uniform, 1/6")
    axes.set_yscale("log")
    axes.set_xlabel("gradient steps")
    axes.set_ylabel(quantity)
    axes.set_title(title)
    axes.legend(fontsize=7, loc="lower left", ncols=legend_columns)


# File name -> the statement it illustrates, and how.
_FIGURES: dict[str, tuple[str, Any]] = {
    "suppression": ("decay_law", _suppression),
    "power-law": ("decay_law", _power_law),
    "entropy": ("entropy_rate", _entropy),
    "floor": ("floor", _floor),
    "masking": ("decoupling", _masking),
    "mask-removal": ("mask_removal", _mask_removal),
}
