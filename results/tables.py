"""Writes the README's tables from the committed results: python results/tables.py

Each table stands between two comments, `<!-- NAME -->` and `<!-- /NAME -->`.
"""

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent
README = RESULTS.parent / "README.md"


def read(path: str) -> Any:
    return json.loads((RESULTS / path).read_text())


def validity() -> str:
    """How often each rule set disagrees with the game."""
    lines = [
        "| game | rules | works but is masked | does nothing but is allowed | errors |",
        "|---|---|---|---|---|",
    ]
    for game in ("craftax-classic", "craftax", "corridor-r5", "minihack-corridor-r5"):
        result = read(f"validity/{game}/validity.json")
        checked = result["states"] * len(result["effective"])
        for name in ("paper", "exact"):
            rules = result["rules"][name]
            masked = sum(rules["effective_but_masked"].values())
            dead = sum(rules["dead_but_valid"].values())
            share = 100 * (masked + dead) / checked
            lines.append(
                f"| `{game}` | {name} | {masked:,} | {dead:,} | {share:.1f} % of {checked:,} |"
            )
    return "\n".join(lines)


def speed() -> str:
    """Steps per second with masks and fresh levels, and ratios measured in the same run."""
    lines = [
        "| game | device | environments | steps/s | in the same run |",
        "|---|---|---|---|---|",
    ]
    for device, paths in {
        "2 CPU cores": ("envs-cpu.json", "envs-cpu.json"),
        "H200": ("envs-h200-classic.json", "envs-h200-full.json"),
    }.items():
        for game, path in zip(("craftax-classic", "craftax"), paths, strict=True):
            result = read(f"bench/{path}")["results"][game]
            envs = result["environments"]
            steps = 1e3 * envs / result["ms_per_step"]["pool"]
            lines.append(
                f"| `{game}` | {device} | {envs:,} | {steps:,.0f} |"
                f" {result['optimistic / pool']:.1f} x optimistic resets,"
                f" {result['auto-reset / pool']:.0f} x auto-reset;"
                f" masks {100 * (result['masks / step'] - 1):+.0f} % |"
            )
    for device, path in {"2 CPU cores": "corridor-cpu.json", "H200": "corridor-h200.json"}.items():
        for row in read(f"bench/{path}")["steps_per_second"]:
            if row["game"] in ("minihack-corridor-r5", "corridor-r5"):
                real = f"{row['ratio']:.0f} x one real NLE process; " if row["ratio"] else ""
                lines.append(
                    f"| `{row['game']}` | {device} | {row['envs']:,} | {row['play']:,.0f} |"
                    f" {real}{row['levels']:,.0f} levels/s |"
                )
    return "\n".join(lines)


def deployment() -> str:
    """Returns with and without masks: means over seeds, of whole episodes in 1024 environments."""
    found = read("learner-classic.json")
    lines = [
        "| condition | frames | oracle masks | predicted masks | no masks | kept when predicted |",
        "|---|---|---|---|---|---|",
    ]
    for frames in sorted({row["frames"] for row in found["evaluations"]}):
        for name in found["config"]["conditions"]:
            rows = [
                row
                for row in found["evaluations"]
                if (row["frames"], row["condition"]) == (frames, name)
            ]
            oracle, predicted, none = (
                [row["return"] for row in rows if row["masks"] == masks]
                for masks in ("oracle", "predicted", "none")
            )
            kept = 100 * sum(predicted) / sum(oracle)
            classifier = rows[0]["classifier"]
            lines.append(
                f"| `{name}` | {frames / 1e6:.0f} M | {_both(oracle)} |"
                f" {_both(predicted) if classifier else '–'} | {_both(none)} |"
                f" {f'{kept:.0f} %' if classifier else '–'} |"
            )
    return "\n".join(lines)


def _both(returns: list[float]) -> str:
    """Every seed's mean."""
    return ", ".join(f"{value:.1f}" for value in returns).replace("-", "−")


TABLES = {"validity": validity, "speed": speed, "deployment": deployment}


def fill(text: str) -> str:
    """`text` with every table made anew."""
    for name, table in TABLES.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
        text, found = re.subn(pattern, rf"\g<1>{table()}\n\g<2>", text, flags=re.DOTALL)
        if not found:
            raise SystemExit(f"{README} has no place for the table {name!r}.")
    return text


if __name__ == "__main__":
    README.write_text(fill(README.read_text()))
